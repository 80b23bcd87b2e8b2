//! Holds of every kind, and when their holders are told of a loss.

use std::time::{Duration, Instant};

use futures::future::join_all;
use harness::redis::cmd;
use redisson_lock::{Client, Lock, LockGuard, Loss};
use tokio::task::JoinHandle;

use crate::stage::{Stage, trusted_until, why_not_held, within};

/// For a machine that has much else to do.
pub(crate) const SLACK: Duration = Duration::from_secs(1);

/// The kinds of hold.
pub(crate) const KINDS: [&str; 7] = ["lock", "fair", "read", "write", "fenced", "spin", "plain"];

/// A lock of this kind.
pub(crate) fn lock_of(client: &Client, kind: &str, name: &str) -> Lock {
    match kind {
        "lock" => client.lock(name),
        "fair" => client.fair_lock(name),
        "read" => client.read_write_lock(name).read_lock().clone(),
        "write" => client.read_write_lock(name).write_lock().clone(),
        "fenced" => client.fenced_lock(name).into(),
        "spin" => client.spin_lock(name),
        "plain" => client.plain_lock(name),
        _ => panic!("no kind of lock: {kind}"),
    }
}

/// The lock that a hold of this kind keeps from others.
pub(crate) fn rival_of(client: &Client, kind: &str, name: &str) -> Lock {
    lock_of(client, if kind == "read" { "write" } else { kind }, name)
}

/// A hold, and what was locked.
pub(crate) struct Held {
    pub(crate) kind: &'static str,
    pub(crate) name: String,
    pub(crate) guard: LockGuard,
}

/// A hold that was lost, and when its holder was told why.
pub(crate) struct Told {
    pub(crate) held: Held,
    pub(crate) why: Loss,
    pub(crate) at: Instant,
}

/// A hold of each kind, under names that begin so.
pub(crate) async fn one_of_each(client: &Client, prefix: &str) -> Vec<Held> {
    let each = KINDS.map(|kind| hold(client, kind, format!("{prefix}:{kind}")));
    join_all(each).await
}

pub(crate) async fn hold(client: &Client, kind: &'static str, name: String) -> Held {
    let guard = lock_of(client, kind, &name).lock().await.unwrap();
    Held { kind, name, guard }
}

impl Held {
    /// While nothing is renewed: trust ends before the server frees the key.
    pub(crate) fn assert_trusted_for_less_than_it_is_kept(&self, stage: &Stage) {
        let asked = Instant::now();
        let kept = u64::try_from(stage.redis().pttl(&self.name)).expect("a TTL");
        let kept = asked + Duration::from_millis(kept);
        let trusted = trusted_until(&self.guard);
        assert!(trusted < kept, "{}: trusted for {:?} too long", self.name, trusted - kept);
    }

    /// Lost for good: it cannot be released any more.
    pub(crate) async fn stays_lost(self) -> Loss {
        assert!(!self.guard.is_held(), "{}", self.name);
        why_not_held(self.guard.unlock().await)
    }
}

/// Waits until each holder was told that its hold is lost.
pub(crate) fn all_told(held: Vec<Held>) -> JoinHandle<Vec<Told>> {
    let each = held.into_iter().map(async |held| {
        let why = held.guard.lost().await;
        Told { at: Instant::now(), held, why }
    });
    let each: Vec<_> = each.collect();
    tokio::spawn(within(harness::PATIENCE, "for all to be told", join_all(each)))
}

/// Fencing tokens begin anew: their counters stay for ever.
pub(crate) fn forget_tokens(stage: &Stage) {
    for token in stage.redis().keys().iter().filter(|key| key.contains("_token:")) {
        let () = stage.redis().query(cmd("DEL").arg(token));
    }
}

/// The last line of a test with fenced locks.
pub(crate) async fn end(stage: &Stage, clients: impl AsRef<[Client]>) {
    forget_tokens(stage);
    stage.end(clients).await;
}
