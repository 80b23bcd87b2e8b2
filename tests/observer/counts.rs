//! A run with contention, time-outs, dropped futures, force unlocks, refused releases and a stalled server. At its end the
//! counts of the observer and of the metrics equal the test's own.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    time::Duration,
};

use harness::{PATIENCE, RedisServer, assert_nothing_left, eventually, redis::cmd, soon, within};
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use redisson_lock::{Client, Config, Error, Lock, LockGuard, Loss, metrics::MetricsObserver};
use tokio::{
    task::{JoinSet, LocalSet},
    time::{sleep, timeout},
};

use crate::tally::{Counts, Tally};

/// What the test has seen itself.
#[derive(Clone, Default)]
struct Own(Rc<RefCell<State>>);

#[derive(Default)]
struct State {
    counts: Counts,
    holders: BTreeSet<String>,
}

impl Own {
    fn count(&self, what: &str) {
        *self.0.borrow_mut().counts.entry(what.into()).or_default() += 1;
    }

    fn of(&self, what: &str) -> u64 {
        self.0.borrow().counts.get(what).copied().unwrap_or_default()
    }

    /// A guard of a new hold, or of one that was handed off: a holder that was seen before.
    fn got(&self, guard: LockGuard) -> LockGuard {
        let new = self.0.borrow_mut().holders.insert(guard.holder().to_owned());
        self.count(if new { "acquire granted" } else { "acquire handed_off" });
        guard
    }

    fn tried(&self, tried: Result<Option<LockGuard>, Error>) -> Option<LockGuard> {
        match tried {
            Ok(Some(guard)) => return Some(self.got(guard)),
            Ok(None) => self.count("acquire busy"),
            Err(_) => self.count("acquire failed"),
        }
        None
    }

    async fn locked(&self, lock: &Lock) -> LockGuard {
        self.got(soon("to lock", lock.lock()).await.expect("a lock"))
    }

    /// Waits for the lock for this long, and then drops the future.
    async fn glance(&self, lock: &Lock, wait: Duration) -> Option<LockGuard> {
        match timeout(wait, lock.lock()).await {
            Ok(guard) => self.tried(guard.map(Some)),
            Err(_) => {
                self.count("acquire cancelled");
                None
            }
        }
    }

    /// Unlocks, or leaves that to the drop of the guard.
    async fn unlock(&self, guard: LockGuard, wait: bool) {
        self.count("given back");
        match wait {
            true => guard.unlock().await.expect("to unlock"),
            false => drop(guard),
        }
    }
}

async fn worker(own: Own, lock: Lock, turns: u64, seed: u64) {
    for n in 0..turns {
        let way = fastrand::Rng::with_seed(seed * 1000 + n).u32(..8);
        let guard = match way {
            0 => own.tried(lock.try_lock().await),
            1 => own.tried(lock.try_lock().wait(Duration::from_millis(2)).await),
            2 => own.glance(&lock, Duration::from_millis(seed % 4)).await,
            _ => Some(own.locked(&lock).await),
        };
        let Some(guard) = guard else { continue };
        if way.is_multiple_of(2) {
            sleep(Duration::from_millis(1)).await;
        }
        own.unlock(guard, way != 5).await;
    }
}

fn allow(server: &RedisServer, allowed: bool) {
    let rules = if allowed { ["+eval", "+evalsha"] } else { ["-eval", "-evalsha"] };
    let () = server.inspector().query(cmd("ACL").arg("SETUSER").arg("service").arg(&rules));
}

/// What a recorder has of each metric, over all locks: the value of a counter or a gauge, the number of values of a histogram.
/// By the name and the label that is neither `lock` nor `kind`.
fn recorded(recorder: &DebuggingRecorder) -> BTreeMap<String, f64> {
    let mut found = BTreeMap::new();
    for (key, _, _, value) in recorder.snapshotter().snapshot().into_vec() {
        let key = key.key();
        let mut name = key.name().to_owned();
        for label in key.labels().filter(|label| !["lock", "kind"].contains(&label.key())) {
            name = format!("{name} {}", label.value());
        }
        *found.entry(name).or_default() += match value {
            DebugValue::Counter(value) => value as f64,
            DebugValue::Gauge(value) => value.into_inner(),
            DebugValue::Histogram(values) => values.len() as f64,
        };
    }
    found
}

#[tokio::test]
async fn the_counts_are_the_tests_own() {
    LocalSet::new().run_until(run()).await;
}

async fn run() {
    let server = RedisServer::start();
    let rules = ["on", ">secret", "~*", "&*", "+@all"];
    let () = server.inspector().query(cmd("ACL").arg("SETUSER").arg("service").arg(&rules));
    let recorder = DebuggingRecorder::new();
    let _recording = metrics::set_default_local_recorder(&recorder);
    let (tally, own) = (Tally::default(), Own::default());
    let config = Config::from_url(server.url()).unwrap().username("service").password("secret");
    let config = config
        .observer((tally.clone(), MetricsObserver::new()))
        .command_timeout(Duration::from_secs(1))
        .retry_timeout(Duration::from_secs(3));
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(soon("to connect", Client::connect(config.clone())).await.unwrap());
    }
    let watched = config.clone().watchdog(Duration::from_secs(6));
    let quick = soon("to connect", Client::connect(watched)).await.unwrap();

    contention(&own, &clients).await;
    assert!(own.of("acquire handed_off") > 0 && own.of("acquire busy") > 0);
    assert!(own.of("acquire cancelled") > 0);
    re_entry(&own, &clients[0]).await;
    losses(&own, &clients[0], &quick, &tally).await;
    refused_releases(&own, &server, &clients[1], &tally).await;
    stalled_server(&own, &server, &clients[2], &tally).await;

    // A client that is closed, with a hold and a waiter.
    let held = own.locked(&clients[1].lock("closing")).await;
    let waits = clients[1].lock("closing");
    let waiter = tokio::task::spawn_local(async move { waits.lock().await });
    eventually(PATIENCE, "a waiter", || (tally.now() == (1, 1)).then_some(())).await;
    soon("to close", clients[1].close()).await.unwrap();
    assert!(matches!(soon("the waiter to end", waiter).await.unwrap(), Err(Error::Closed)));
    own.count("acquire failed");
    own.count("lost Closed");
    drop(held);
    assert!(clients[0].lock("closing").force_unlock().await.unwrap());

    for client in clients.iter().chain([&quick]) {
        soon("to close", client.close()).await.unwrap();
    }
    assert_nothing_left(&server).await;
    compare(&tally.counts(), &own);
    tally.assert_over();
    compare_metrics(&recorded(&recorder), &tally, &own);
}

async fn contention(own: &Own, clients: &[Client]) {
    let mut workers = JoinSet::new();
    for (n, client) in (0..).zip(clients) {
        for task in 0..4 {
            workers.spawn_local(worker(own.clone(), client.lock("hot"), 40, 10 * n + task));
        }
    }
    while let Some(ended) = within(PATIENCE, "for the workers to end", workers.join_next()).await {
        ended.unwrap();
    }
    // Guards that were dropped at the end.
    let guard = own.locked(&clients[0].lock("hot")).await;
    own.unlock(guard, true).await;
}

async fn re_entry(own: &Own, client: &Client) {
    let (lock, mut me) = (client.lock("again"), client.owner());
    let outer = own.got(lock.lock().by(&mut me).await.unwrap());
    let inner = lock.lock().by(&mut me).await.unwrap();
    own.count("acquire reentered");
    inner.unlock().await.unwrap();
    own.unlock(outer, true).await;
}

async fn losses(own: &Own, client: &Client, quick: &Client, tally: &Tally) {
    // A renewal notices it.
    let guard = own.locked(&quick.lock("forced")).await;
    eventually(PATIENCE, "a renewal", || (tally.of("renewed") > 0).then_some(())).await;
    assert!(client.lock("forced").force_unlock().await.unwrap());
    assert_eq!(soon("to be told", guard.lost()).await, Loss::Removed);
    own.count("lost Removed");
    assert!(guard.unlock().await.is_err());

    // The release notices it.
    let lease = Duration::from_secs(60);
    let guard = own.got(client.lock("forced").lock().lease(lease).await.unwrap());
    assert!(quick.lock("forced").force_unlock().await.unwrap());
    let unlocked = guard.unlock().await;
    assert!(matches!(unlocked, Err(Error::NotHeld { why: Loss::Removed })), "{unlocked:?}");
    own.count("lost Removed");

    // Nobody asks for it.
    let lease = Duration::from_millis(200);
    let guard = own.got(client.lock("short").lock().lease(lease).await.unwrap());
    assert_eq!(soon("to be told", guard.lost()).await, Loss::Expired);
    own.count("lost Expired");
    drop(guard);
}

async fn refused_releases(own: &Own, server: &RedisServer, client: &Client, tally: &Tally) {
    let guard = own.locked(&client.lock("refused")).await;
    allow(server, false);
    assert!(matches!(guard.unlock().await, Err(Error::Redis(_))));
    own.count("release failed");
    assert_eq!(tally.now(), (0, 1), "it is still held");
    allow(server, true);
    own.count("given back");
    eventually(PATIENCE, "a release", || (tally.now() == (0, 0)).then_some(())).await;

    let lease = Duration::from_secs(6);
    let guard = own.got(client.lock("refused").lock().lease(lease).await.unwrap());
    allow(server, false);
    assert!(matches!(guard.unlock().await, Err(Error::Redis(_))));
    own.count("release failed");
    eventually(PATIENCE, "the lease to end", || (tally.now() == (0, 0)).then_some(())).await;
    own.count("given up");
    own.count("release_given_up");
    allow(server, true);
}

async fn stalled_server(own: &Own, server: &RedisServer, client: &Client, tally: &Tally) {
    let lease = Duration::from_secs(3);
    let short = own.got(client.lock("stalled").lock().lease(lease).await.unwrap());
    let long = own.locked(&client.lock("stalled too")).await;
    server.pause();
    assert!(own.tried(client.lock("nobody's").try_lock().await).is_none());
    assert!(own.glance(&client.lock("nobody's"), Duration::from_millis(50)).await.is_none());
    assert!(matches!(long.unlock().await, Err(Error::Redis(_))));
    own.count("release failed");
    assert_eq!(soon("to be told", short.lost()).await, Loss::Expired);
    own.count("lost Expired");
    server.resume();
    own.count("given back");
    drop(short);
    eventually(PATIENCE, "a release", || (tally.now() == (0, 0)).then_some(())).await;
}

/// The observer's counts by the test's own. A turn that was given back ended by a release or a hand-off.
fn compare(counts: &Counts, own: &Own) {
    println!("{counts:#?}");
    let seen = |what: &str| counts.get(what).copied().unwrap_or_default();
    for what in [
        "acquire granted",
        "acquire handed_off",
        "acquire reentered",
        "acquire busy",
        "acquire failed",
        "acquire cancelled",
        "lost Removed",
        "lost Expired",
        "lost Closed",
        "release_given_up",
        "release failed",
        "given up",
    ] {
        assert_eq!(seen(what), own.of(what), "{what}");
    }
    let handed_off = own.of("acquire handed_off");
    assert_eq!(seen("handed_off"), handed_off);
    assert_eq!(seen("released"), own.of("given back") - handed_off);
    assert_eq!(seen("holds"), own.of("acquire granted") + handed_off);
    for what in ["lost Taken", "lost Unknown"] {
        assert_eq!(seen(what), 0, "{what}");
    }
    assert!(seen("waits") > handed_off, "those who were handed a hold had waited");
}

fn compare_metrics(recorded: &BTreeMap<String, f64>, tally: &Tally, own: &Own) {
    println!("{recorded:#?}");
    let seen = |name: &str| recorded.get(name).copied().unwrap_or_default() as u64;
    assert_eq!(recorded["redisson_lock.waiters"], 0.0);
    assert_eq!(recorded["redisson_lock.holds"], 0.0);
    for outcome in ["granted", "handed_off", "reentered", "busy", "failed", "cancelled"] {
        let counted = own.of(&format!("acquire {outcome}"));
        assert_eq!(seen(&format!("redisson_lock.acquire.duration {outcome}")), counted);
    }
    let handed_off = own.of("acquire handed_off");
    assert_eq!(seen("redisson_lock.hand_offs"), handed_off);
    assert_eq!(seen("redisson_lock.hold.duration handed_off"), handed_off);
    let released = own.of("given back") - handed_off;
    assert_eq!(seen("redisson_lock.hold.duration released"), released);
    assert_eq!(seen("redisson_lock.hold.duration release_given_up"), own.of("release_given_up"));
    for (reason, loss) in [("removed", "Removed"), ("expired", "Expired"), ("closed", "Closed")] {
        let lost = own.of(&format!("lost {loss}"));
        assert_eq!(seen(&format!("redisson_lock.lost {reason}")), lost, "{reason}");
    }
    assert_eq!(seen("redisson_lock.release.failures repeated"), own.of("release failed"));
    assert_eq!(seen("redisson_lock.release.failures given_up"), own.of("given up"));
    assert_eq!(seen("redisson_lock.renewal.margin"), tally.of("renewed"));
}
