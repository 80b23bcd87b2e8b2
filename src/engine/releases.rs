//! [`Releases`]: recent releases, for the new master of a failover that may have missed them.
//!
//! Redis replicates asynchronously, and the old master of a failover goes on for a moment. A lock
//! that it freed then is still held on the new master, for the rest of its lease. A release is
//! therefore sent again to the server that takes over its key. Hold ids are never reused, so a
//! second release of a freed lock finds nothing. Releases of the last 10 s are kept, 16 384 for each
//! server.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::future::join_all;
use tokio::time::{Instant, sleep};

use super::{backoff::Backoff, batcher::Batcher, janitor::Janitor, lifecycle::Lifecycle};
use crate::{
    determinism::{HashMap, select, watch},
    names,
    owner::HoldId,
    protocol::{self, Order, Protocol},
    sometimes::sometimes,
    wire::{ServerId, Transport},
};

/// How many of a server's last releases are kept.
const KEPT_PER_SERVER: usize = 16_384;

/// How long a release is kept after its answer. It is removed when the same server answers a later one:
/// a dead server answers nothing, and its replacement may take long.
const KEPT_FOR: Duration = Duration::from_secs(10);

/// How often to check whether the engine still exists.
const ENGINE_CHECK_EVERY: Duration = Duration::from_secs(5);

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
type Kept = HashMap<ServerId, VecDeque<Answered>>;

/// A hold, or a place in line, that was released.
#[derive(Clone, Debug)]
pub(crate) struct Freed {
    pub(crate) protocol: Arc<dyn Protocol>,
    pub(crate) id: HoldId,
    /// How many holds this client has on the key, counted by the handles of that time.
    pub(crate) held: Arc<AtomicUsize>,
    /// When it ends by itself, wherever it still exists.
    pub(crate) ends: Instant,
}

/// A release that a server has answered.
#[derive(Debug)]
pub(super) struct Answered {
    released: Freed,
    answered: Instant,
}

impl Releases {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that this server has answered a release.
    pub(super) fn remember(self: &Arc<Self>, server: ServerId, released: Freed) {
        let serves = self.transport.server_id(names::text(released.protocol.key()));
        if serves != server {
            // The server was replaced meanwhile, and the check of the kept releases did not see
            // this one.
            self.janitor.spawn(again(self.clone(), vec![released.clone()]));
        }
        keep(&mut self.kept(), serves, Answered { released, answered: Instant::now() });
    }
}

fn keep(kept: &mut Kept, server: ServerId, one: Answered) {
    let now = one.answered;
    let kept = kept.entry(server).or_default();
    while kept.len() >= KEPT_PER_SERVER
        || kept.front().is_some_and(|first| first.answered + KEPT_FOR <= now)
    {
        kept.pop_front();
    }
    kept.push_back(one);
}

/// Removes and returns the releases whose key another server serves now, with that server.
fn take_moved(kept: &mut Kept, serves: impl Fn(&[u8]) -> ServerId) -> Vec<(ServerId, Answered)> {
    let (mut moved, now) = (Vec::new(), Instant::now());
    kept.retain(|server, kept| {
        for one in std::mem::take(kept) {
            let serves = serves(one.released.protocol.key());
            match serves == *server {
                true => kept.push_back(one),
                false => moved.push((serves, one)),
            }
        }
        !kept.is_empty()
    });
    moved.retain(|(_, one)| now < one.released.ends);
    moved
}

/// Runs the task that repeats releases after each change of the servers. It ends with the engine.
/// `gaps`: after each, other servers may serve the keys.
pub(super) async fn run(releases: Weak<Releases>, mut gaps: watch::Receiver<u64>) {
    loop {
        select! {
            changed = gaps.changed() => if changed.is_err() { return },
            () = sleep(ENGINE_CHECK_EVERY) => {}
        }
        let Some(releases) = releases.upgrade() else { return };
        if releases.life.check_open().is_err() {
            return;
        }
        let serves = |key: &[u8]| releases.transport.server_id(names::text(key));
        let moved = take_moved(&mut releases.kept(), serves);
        if moved.is_empty() {
            continue;
        }
        let released = moved.iter().map(|(_, one)| one.released.clone()).collect();
        releases.janitor.spawn(again(releases.clone(), released));
        // That server may be replaced too.
        moved.into_iter().for_each(|(server, one)| keep(&mut releases.kept(), server, one));
    }
}

async fn again(releases: Arc<Releases>, released: Vec<Freed>) {
    sometimes!("releases: repeated at another server");
    let done = select! {
        done = join_all(released.into_iter().map(|one| release(&releases, one))) => done,
        _ = releases.life.closing() => return,
    };
    let locks = done.into_iter().filter(|&was_there| was_there).count();
    if locks > 0 {
        log!(info, locks, "released once more what a new master had not heard of");
    }
}

/// Repeats one release. Returns whether the hold was still there.
async fn release(releases: &Releases, released: Freed) -> bool {
    let Freed { protocol, id, held, ends } = released;
    let mut backoff = Backoff::persistent();
    loop {
        // A later hold of this client may be missing on the new master too. The earlier one then
        // protects it.
        while protocol.order() != Order::Shared && held.load(Ordering::Relaxed) > 0 {
            // It may not have ended by itself: a read under a write keeps their key.
            if Instant::now() >= ends {
                break;
            }
            sleep(backoff.next()).await;
        }
        let answer = releases.batcher.call(protocol.undo(&id), Instant::now()).await;
        let error = match answer.and_then(protocol::released) {
            Ok(found) => {
                sometimes!("releases: answered by another server");
                return found.is_some();
            }
            Err(error) => error,
        };
        let runtime = &releases.life.runtime;
        if let Err(error) = backoff.retry_even_if_refused(runtime, error, ends).await {
            let lock = names::text(protocol.key());
            log!(warn, lock, holder = ?id, %error, "could not release once more");
            return false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{config::Config, observer::LockKind, owner::Identity};

    fn released(ends: Instant) -> Freed {
        let (_, settings) = Config::from_url("redis://h:1").unwrap().into_settings().unwrap();
        let protocol = LockKind::Reentrant.protocol("lock", &settings).into();
        Freed { protocol, id: Identity::new().next(), held: Arc::default(), ends }
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
        assert_eq!(moved.iter().map(|(server, _)| *server).collect::<Vec<_>>(), [2]);
        assert!(take_moved(&mut kept, |_| 2).is_empty());
        assert_eq!(kept[&2].len(), 1);
    }
}
