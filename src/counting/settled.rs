//! [`Settled`]: the ids of requests of which no copy is under way, which the server is to forget.
//!
//! Each later request of the same counter takes some of them along. A counter that is dropped leaves its
//! ids to the next one of its name: see [`Unclaimed`].

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::time::Instant;

use super::once::KEPT;
use crate::{determinism::HashMap, owner::HoldId};

/// How many ids one request has the server forget, and how many wait for that. More are forgotten
/// by the server itself.
const SETTLED_AT_ONCE: usize = 8;
const MOST_SETTLED: usize = 256;

/// For how many names ids are kept while no counter of that name is in use.
const MOST_NAMES: usize = 1_000;

/// The ids of one counter.
#[derive(Debug, Default)]
pub(super) struct Settled(Mutex<Vec<HoldId>>);

impl Settled {
    pub(super) fn new(ids: Vec<HoldId>) -> Self {
        Self(Mutex::new(ids))
    }

    fn ids(&self) -> MutexGuard<'_, Vec<HoldId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes those that one request has the server forget.
    pub(super) fn take_some(&self) -> Vec<HoldId> {
        let mut ids = self.ids();
        let rest = ids.len().saturating_sub(SETTLED_AT_ONCE);
        ids.split_off(rest)
    }

    /// Takes all.
    pub(super) fn take_all(&self) -> Vec<HoldId> {
        std::mem::take(&mut *self.ids())
    }

    pub(super) fn add(&self, more: impl IntoIterator<Item = HoldId>) {
        add(&mut self.ids(), more);
    }
}

fn add(ids: &mut Vec<HoldId>, more: impl IntoIterator<Item = HoldId>) {
    let room = MOST_SETTLED - ids.len();
    ids.extend(more.into_iter().take(room));
}

/// What counters left that are dropped, by name. The ids of a name that nobody uses any more go away when
/// the server has forgotten them, or when there are too many names.
#[derive(Debug, Default)]
pub(super) struct Unclaimed(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    by_name: HashMap<String, Left>,
    /// The names, in the order in which they came.
    order: BTreeMap<u64, String>,
    next: u64,
}

#[derive(Debug)]
struct Left {
    place: u64,
    since: Instant,
    ids: Vec<HoldId>,
}

impl Unclaimed {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the ids for the next counter of this name.
    pub(super) fn put(&self, name: &str, ids: Vec<HoldId>) {
        if ids.is_empty() {
            return;
        }
        let mut state = self.state();
        let now = Instant::now();
        if let Some(left) = state.by_name.get_mut(name) {
            add(&mut left.ids, ids);
            return;
        }
        state.make_room(now);
        let place = state.next;
        state.next += 1;
        state.order.insert(place, name.to_owned());
        state.by_name.insert(name.to_owned(), Left { place, since: now, ids });
    }

    /// Takes the ids of this name.
    pub(super) fn take(&self, name: &str) -> Vec<HoldId> {
        let mut state = self.state();
        let Some(left) = state.by_name.remove(name) else { return Vec::new() };
        state.order.remove(&left.place);
        left.ids
    }
}

impl State {
    /// Drops the names whose ids the server has forgotten by itself, and the oldest one if there are too
    /// many.
    fn make_room(&mut self, now: Instant) {
        while let Some(oldest) = self.order.first_entry() {
            let is_over =
                self.by_name.get(oldest.get()).is_none_or(|left| left.since + KEPT <= now);
            if !is_over && self.by_name.len() < MOST_NAMES {
                return;
            }
            self.by_name.remove(&oldest.remove());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::owner::Identity;

    #[tokio::test(start_paused = true)]
    async fn what_dropped_counters_left_is_bounded_by_names_and_by_age() {
        let (unclaimed, ids) = (Unclaimed::default(), Identity::new());
        let id = || vec![ids.next()];
        for n in 0..3 * MOST_NAMES {
            unclaimed.put(&n.to_string(), id());
        }
        let names = || {
            let state = unclaimed.state();
            assert_eq!(state.by_name.len(), state.order.len());
            state.by_name.len()
        };
        assert_eq!(names(), MOST_NAMES);
        assert!(unclaimed.take("0").is_empty(), "the oldest are dropped");
        let newest = (3 * MOST_NAMES - 1).to_string();
        unclaimed.put(&newest, id());
        assert_eq!((unclaimed.take(&newest).len(), names()), (2, MOST_NAMES - 1));
        assert!(unclaimed.take(&newest).is_empty(), "they were taken");
        tokio::time::advance(KEPT - Duration::from_secs(1)).await;
        unclaimed.put("young", id());
        assert_eq!(names(), MOST_NAMES);
        tokio::time::advance(Duration::from_secs(1)).await;
        unclaimed.put("younger", id());
        assert_eq!(names(), 2, "the server has forgotten the others");
        unclaimed.put("none", Vec::new());
        assert_eq!(names(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn one_name_keeps_no_more_ids_than_a_counter() {
        let (unclaimed, ids) = (Unclaimed::default(), Identity::new());
        let settled = Settled::new(Vec::new());
        settled.add((0..2 * MOST_SETTLED).map(|_| ids.next()));
        assert_eq!(settled.take_some().len(), SETTLED_AT_ONCE);
        for _ in 0..3 {
            settled.add((0..MOST_SETTLED).map(|_| ids.next()));
            unclaimed.put("name", settled.take_all());
        }
        assert_eq!(unclaimed.take("name").len(), MOST_SETTLED);
        assert!(settled.take_some().is_empty());
    }
}
