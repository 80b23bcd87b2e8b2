//! What was released lately, for the heir of a master that has answered a release and not passed it on.
//!
//! Redis replicates asynchronously, and for a moment the old master of a failover goes on. What it freed
//! then, its heir holds for the rest of the lease. So a release is sent once more to whoever serves its
//! key in another's stead: ids are never used again, and a second release finds nothing.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::future::join_all;
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use super::{backoff::Backoff, batcher::Batcher, janitor::Janitor, lifecycle::Lifecycle};
use crate::{
    names,
    owner::HoldId,
    protocol::{self, Order, Protocol},
    wire::Transport,
};

/// So many of the last releases that one server has answered are known, and for so long after each, by its
/// answers: one that is dead answers nothing, and it may take long until another takes its place.
const KEPT_PER_SERVER: usize = 16_384;
const KEPT_FOR: Duration = Duration::from_secs(10);

/// How often to look whether the engine is still there.
const GLANCE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Releases {
    pub(super) life: Arc<Lifecycle>,
    pub(super) transport: Arc<dyn Transport>,
    pub(super) batcher: Arc<Batcher>,
    pub(super) janitor: Janitor,
    /// By the server that has answered, the latest last.
    pub(super) kept: Mutex<Kept>,
}

/// By server, the latest last.
type Kept = HashMap<u64, VecDeque<Answered>>;

/// A hold, or a place in line, that was given back.
#[derive(Clone, Debug)]
pub(crate) struct GivenBack {
    pub(crate) protocol: Arc<dyn Protocol>,
    pub(crate) id: HoldId,
    /// How many holds this client has on the lock, by the handles there were then.
    pub(crate) held: Arc<AtomicUsize>,
    /// When it ends by itself, wherever it is still there.
    pub(crate) ends: Instant,
}

/// One that a server has answered then.
#[derive(Debug)]
pub(super) struct Answered {
    released: GivenBack,
    answered: Instant,
}

impl Releases {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server `place` has answered a release.
    pub(super) fn remember(self: &Arc<Self>, place: u64, released: GivenBack) {
        let serves = self.transport.place(names::text(released.protocol.key()));
        if serves != place {
            // Whoever went through what was kept did not find it.
            self.janitor.spawn(again(self.clone(), vec![released.clone()]));
        }
        keep(&mut self.kept(), serves, Answered { released, answered: Instant::now() });
    }
}

fn keep(kept: &mut Kept, place: u64, one: Answered) {
    let now = one.answered;
    let kept = kept.entry(place).or_default();
    while kept.len() >= KEPT_PER_SERVER
        || kept.front().is_some_and(|first| first.answered + KEPT_FOR <= now)
    {
        kept.pop_front();
    }
    kept.push_back(one);
}

/// Takes out those that another server has by now than the one that has answered, with that.
fn take_moved(kept: &mut Kept, serves: impl Fn(&[u8]) -> u64) -> Vec<(u64, Answered)> {
    let (mut moved, now) = (Vec::new(), Instant::now());
    kept.retain(|place, kept| {
        for one in std::mem::take(kept) {
            let serves = serves(one.released.protocol.key());
            match serves == *place {
                true => kept.push_back(one),
                false => moved.push((serves, one)),
            }
        }
        !kept.is_empty()
    });
    moved.retain(|(_, one)| now < one.released.ends);
    moved
}

/// The task that looks at each change of the servers what their heirs have to be told. Ends with the engine.
/// `gaps`: after each, other servers may serve the keys.
pub(super) async fn run(releases: Weak<Releases>, mut gaps: watch::Receiver<u64>) {
    loop {
        tokio::select! {
            changed = gaps.changed() => if changed.is_err() { return },
            () = sleep(GLANCE) => {}
        }
        let Some(releases) = releases.upgrade() else { return };
        if releases.life.check_open().is_err() {
            return;
        }
        let serves = |key: &[u8]| releases.transport.place(names::text(key));
        let moved = take_moved(&mut releases.kept(), serves);
        if moved.is_empty() {
            continue;
        }
        let released = moved.iter().map(|(_, one)| one.released.clone()).collect();
        releases.janitor.spawn(again(releases.clone(), released));
        // Another may take the place of that one, too.
        moved.into_iter().for_each(|(place, one)| keep(&mut releases.kept(), place, one));
    }
}

async fn again(releases: Arc<Releases>, released: Vec<GivenBack>) {
    let done = tokio::select! {
        done = join_all(released.into_iter().map(|one| release(&releases, one))) => done,
        _ = releases.life.closing() => return,
    };
    let locks = done.into_iter().filter(|&was_there| was_there).count();
    if locks > 0 {
        tracing::info!(locks, "released once more what a new master had not heard of");
    }
}

/// Says whether it was still there.
async fn release(releases: &Releases, released: GivenBack) -> bool {
    let GivenBack { protocol, id, held, ends } = released;
    let mut backoff = Backoff::persistent();
    loop {
        // Where a later hold of this client was not heard of either, the earlier one keeps others out.
        while protocol.order() != Order::Shared && held.load(Ordering::Relaxed) > 0 {
            if Instant::now() >= ends {
                return false;
            }
            sleep(backoff.next()).await;
        }
        let answer = releases.batcher.call(protocol.undo(&id)).await;
        let error = match answer.and_then(protocol::released) {
            Ok(found) => return found.is_some(),
            Err(error) => error,
        };
        let runtime = &releases.life.runtime;
        if let Err(error) = backoff.must_retry(runtime, error, ends).await {
            let lock = names::text(protocol.key());
            tracing::warn!(lock, holder = ?id, %error, "could not release once more");
            return false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{config::Config, owner::Identity, protocol::Kind};

    fn released(ends: Instant) -> GivenBack {
        let (_, settings) = Config::from_url("redis://h:1").unwrap().into_settings().unwrap();
        let protocol = Kind::Reentrant.on("lock", &settings).into();
        GivenBack { protocol, id: Identity::new().next(), held: Arc::default(), ends }
    }

    fn answered(answered: Instant, ends: Instant) -> Answered {
        Answered { released: released(ends), answered }
    }

    #[test]
    fn what_is_kept_is_bounded_by_time_and_number_for_each_server() {
        let (mut kept, now) = (Kept::default(), Instant::now());
        let one = released(now + KEPT_FOR);
        for _ in 0..2 * KEPT_PER_SERVER {
            keep(&mut kept, 1, Answered { released: one.clone(), answered: now });
        }
        keep(&mut kept, 2, answered(now + 2 * KEPT_FOR, now + 3 * KEPT_FOR));
        assert_eq!(kept[&1].len(), KEPT_PER_SERVER, "a server that is silent");
        keep(&mut kept, 1, answered(now + KEPT_FOR, now + 2 * KEPT_FOR));
        assert_eq!(kept[&1].len(), 1);
    }

    #[test]
    fn what_another_server_has_by_now_is_taken_out_unless_it_is_over() {
        let (mut kept, now) = (Kept::default(), Instant::now());
        keep(&mut kept, 1, answered(now, now));
        keep(&mut kept, 1, answered(now, now + KEPT_FOR));
        keep(&mut kept, 2, answered(now, now + KEPT_FOR));
        let moved = take_moved(&mut kept, |_| 2);
        assert_eq!(moved.iter().map(|(place, _)| *place).collect::<Vec<_>>(), [2]);
        assert!(take_moved(&mut kept, |_| 2).is_empty());
        assert_eq!(kept[&2].len(), 1);
    }
}
