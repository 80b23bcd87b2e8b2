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
use tokio::time::{Instant, sleep};

use super::{Backoff, Engine};
use crate::{
    names,
    owner::OwnerId,
    protocol::{self, Line, Protocol},
    replicas::Replicas,
};

/// So many of the last releases that one server has answered are known, and for so long after each, by its
/// answers: one that is dead answers nothing, and it may take long until another takes its place.
const MOST: usize = 16_384;
const KEPT: Duration = Duration::from_secs(10);

/// How often to look whether the engine is still there.
const GLANCE: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub(crate) struct Releases {
    /// By the server that has answered, the latest last.
    kept: Mutex<HashMap<u64, VecDeque<Kept>>>,
}

/// A hold, or a place in line, that was given back.
#[derive(Clone, Debug)]
pub(crate) struct Released {
    pub(crate) protocol: Arc<dyn Protocol>,
    pub(crate) id: OwnerId,
    /// How many holds this client has on the lock, by the handles there were then.
    pub(crate) held: Arc<AtomicUsize>,
    /// When it ends by itself, wherever it is still there.
    pub(crate) ends: Instant,
}

#[derive(Debug)]
struct Kept {
    released: Released,
    answered: Instant,
}

impl Releases {
    fn kept(&self) -> MutexGuard<'_, HashMap<u64, VecDeque<Kept>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, place: u64, one: Kept) {
        let now = one.answered;
        let mut kept = self.kept();
        let kept = kept.entry(place).or_default();
        while kept.len() >= MOST || kept.front().is_some_and(|first| first.answered + KEPT <= now) {
            kept.pop_front();
        }
        kept.push_back(one);
    }

    /// Takes out those that another server has by now than the one that has answered, with that.
    fn take_moved(&self, serves: impl Fn(&[u8]) -> u64) -> Vec<(u64, Kept)> {
        let (mut moved, now) = (Vec::new(), Instant::now());
        self.kept().retain(|place, kept| {
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
}

impl Engine {
    /// Which server is going to be told of a release; see [`Engine::released`].
    pub(crate) fn serves(&self, protocol: &dyn Protocol) -> Option<u64> {
        let follows = self.transport.follows();
        follows.then(|| self.transport.place(names::text(protocol.key())))
    }

    /// The server that was told of a release has answered. `place`: `None` where no other ever takes its place.
    pub(crate) fn released(
        self: &Arc<Self>,
        place: Option<u64>,
        released: impl FnOnce() -> Released,
    ) {
        let Some(place) = place else { return };
        let released = released();
        let serves = self.transport.place(names::text(released.protocol.key()));
        if serves != place {
            // Whoever went through what was kept did not find it.
            self.janitor.spawn(again(self.clone(), vec![released.clone()]));
        }
        self.releases.keep(serves, Kept { released, answered: Instant::now() });
    }
}

/// The task that looks at each change of the servers what their heirs have to be told. Ends with the engine.
pub(super) async fn run(engine: Weak<Engine>) {
    let Some(mut gaps) = engine.upgrade().map(|engine| engine.wakeups.gaps()) else { return };
    loop {
        tokio::select! {
            changed = gaps.changed() => if changed.is_err() { return },
            () = sleep(GLANCE) => {}
        }
        let Some(engine) = engine.upgrade().filter(|engine| engine.check_open().is_ok()) else {
            return;
        };
        let serves = |key: &[u8]| engine.transport.place(names::text(key));
        let moved = engine.releases.take_moved(serves);
        if moved.is_empty() {
            continue;
        }
        let released = moved.iter().map(|(_, one)| one.released.clone()).collect();
        engine.janitor.spawn(again(engine.clone(), released));
        // Another may take the place of that one, too.
        moved.into_iter().for_each(|(place, one)| engine.releases.keep(place, one));
    }
}

async fn again(engine: Arc<Engine>, released: Vec<Released>) {
    let done = tokio::select! {
        done = join_all(released.into_iter().map(|one| release(&engine, one))) => done,
        _ = engine.closing() => return,
    };
    let locks = done.into_iter().filter(|&was_there| was_there).count();
    if locks > 0 {
        tracing::info!(locks, "released once more what a new master had not heard of");
    }
}

/// Says whether it was still there.
async fn release(engine: &Engine, released: Released) -> bool {
    let Released { protocol, id, held, ends } = released;
    let mut backoff = Backoff::persistent();
    loop {
        // Where a later hold of this client was not heard of either, the earlier one keeps others out.
        while protocol.line() != Line::Shared && held.load(Ordering::Relaxed) > 0 {
            if Instant::now() >= ends {
                return false;
            }
            sleep(backoff.next()).await;
        }
        let answer = engine.call(protocol.undo(&id), Replicas::None, |_| false).await;
        let error = match answer.and_then(protocol::released) {
            Ok(found) => return found.is_some(),
            Err(error) => error,
        };
        if let Err(error) = engine.must_retry(error, &mut backoff, ends).await {
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

    fn released(ends: Instant) -> Released {
        let (_, settings) = Config::from_url("redis://h:1").unwrap().into_settings().unwrap();
        let protocol = Kind::Reentrant.on("lock", &settings).into();
        Released { protocol, id: Identity::new().next(), held: Arc::default(), ends }
    }

    fn kept(answered: Instant, ends: Instant) -> Kept {
        Kept { released: released(ends), answered }
    }

    #[test]
    fn what_is_kept_is_bounded_by_time_and_number_for_each_server() {
        let (releases, now) = (Releases::default(), Instant::now());
        let one = released(now + KEPT);
        for _ in 0..2 * MOST {
            releases.keep(1, Kept { released: one.clone(), answered: now });
        }
        releases.keep(2, kept(now + 2 * KEPT, now + 3 * KEPT));
        assert_eq!(releases.kept()[&1].len(), MOST, "a server that is silent");
        releases.keep(1, kept(now + KEPT, now + 2 * KEPT));
        assert_eq!(releases.kept()[&1].len(), 1);
    }

    #[test]
    fn what_another_server_has_by_now_is_taken_out_unless_it_is_over() {
        let (releases, now) = (Releases::default(), Instant::now());
        releases.keep(1, kept(now, now));
        releases.keep(1, kept(now, now + KEPT));
        releases.keep(2, kept(now, now + KEPT));
        let moved = releases.take_moved(|_| 2);
        assert_eq!(moved.iter().map(|(place, _)| *place).collect::<Vec<_>>(), [2]);
        assert!(releases.take_moved(|_| 2).is_empty());
        assert_eq!(releases.kept()[&2].len(), 1);
    }
}
