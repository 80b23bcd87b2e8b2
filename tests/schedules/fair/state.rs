//! The server's state of a fair lock, as it showed it.

use std::collections::BTreeMap;

use super::call::{World, is_ours, unwire};
use super::scripts::{DEADLINES, QUEUE};
use super::times::WAIT;
use crate::LOCK;
use crate::clients::Id;
use crate::model::{EPOCH_MS, Ms, REAL_MS_PER_MS};

/// What the server keeps.
#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct State {
    pub(super) holders: BTreeMap<Id, u32>,
    pub(super) until: Option<Ms>,
    pub(super) queue: Vec<Id>,
    pub(super) deadlines: BTreeMap<Id, f64>,
}

impl State {
    pub(super) fn seen(world: &World<'_>) -> Self {
        let seen = |key| world.server.seen(key).cloned().unwrap_or_default();
        let lock = seen(LOCK);
        let holder =
            |(id, count): (&String, &String)| (unwire(id), count.parse().expect("a count"));
        let deadlines = seen(DEADLINES).moments;
        Self {
            holders: lock.fields.iter().map(holder).collect(),
            until: lock.until,
            queue: seen(QUEUE).items.iter().map(|id| unwire(id)).collect(),
            deadlines: deadlines.iter().map(|(id, deadline)| (unwire(id), *deadline)).collect(),
        }
    }

    /// Whose turn it is, as of this moment; of Redisson's scripts, who heads the line.
    pub(super) fn next(&self, now: Option<Ms>) -> Option<&Id> {
        let keeps = |id: &Id, now: Ms| {
            let deadline = self.deadlines.get(id);
            deadline.is_none_or(|deadline| {
                *deadline > now as f64 + 1e-6 && !is_unseen(*id, *deadline, now)
            })
        };
        self.queue.iter().find(|id| now.is_none_or(|now| keeps(id, now)))
    }

    /// Whether this waiter stands in line still, before all who stood behind it.
    pub(super) fn keeps_place(&self, id: Id, before: &Self) -> bool {
        let now_before = self.queue.iter().take_while(|other| **other != id);
        let was_before: Vec<_> = before.queue.iter().take_while(|other| **other != id).collect();
        self.queue.contains(&id) && now_before.into_iter().all(|other| was_before.contains(&other))
    }

    pub(super) fn shown(&self) -> String {
        let mut shown = match self.until {
            None if self.holders.is_empty() => "free".to_string(),
            until => {
                let holders: Vec<_> =
                    self.holders.iter().map(|(id, count)| format!("{id} x{count}")).collect();
                let until = until.map_or("for ever".into(), |until| format!("until {until}"));
                format!("{} {until}", holders.join(", "))
            }
        };
        for id in &self.queue {
            let deadline =
                self.deadlines.get(id).map_or("ever".into(), |time| format!("{time:.0}"));
            shown += &format!(" | {id} until {deadline}");
        }
        for id in self.deadlines.keys().filter(|id| !self.queue.contains(id)) {
            shown += &format!(" | {id} in the deadlines only");
        }
        shown
    }
}

/// The 1024ths of a real millisecond behind a deadline: when its waiter was last seen, for one of ours.
pub(super) fn mark(deadline: f64) -> u64 {
    ((deadline * REAL_MS_PER_MS as f64).rem_euclid(1.0) * 1024.0).round() as u64 % 1024
}

/// The mark of one that is seen now.
pub(super) fn mark_of(now: Ms) -> u64 {
    steps(now) % 1023 + 1
}

fn steps(now: Ms) -> u64 {
    (EPOCH_MS.unsigned_abs() + now * REAL_MS_PER_MS) / (WAIT * REAL_MS_PER_MS).div_ceil(32)
}

/// Whether one of ours has not been seen for `wait`.
pub(super) fn is_unseen(id: Id, deadline: f64, now: Ms) -> bool {
    let mark = mark(deadline);
    let unseen = (steps(now) + 1 + 1023 - mark) % 1023;
    is_ours(id) && mark > 0 && (33..=1023 - 64).contains(&unseen)
}
