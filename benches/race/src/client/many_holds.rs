//! The cost of very many holds of one client.

use std::time::{Duration, Instant};

use harness::redis;
use nix::sys::resource::{UsageWho, getrusage};
use redisson_lock::{Client, Lock, LockGuard};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::{task::JoinSet, time::sleep};

use super::{
    job::{Job, Request, cpu, micros},
    ours,
};
use crate::{figures::percentile, meter::Meter};

pub(crate) const HOLDS: usize = 100_000;
/// The holds are taken by so many tasks.
const TAKERS: usize = 64;
const WAITERS: usize = 10_000;
const IDLE: Duration = Duration::from_secs(5);
const ALONE: Duration = Duration::from_secs(10);
/// Each hold is renewed twice: every third of a watchdog of 30 s.
const BUSY: Duration = Duration::from_secs(20);
/// No fewer waiters would be waiting after it.
const SETTLING: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub(super) struct ManyHolds {
    pub(super) url: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct HoldCosts {
    /// Within `BUSY`.
    pub(crate) renewals: u64,
    pub(crate) scripts: u64,
    pub(crate) client_us: f64,
    pub(crate) server_us: f64,
    /// Acquire and release of another lock, by the same client: with no hold, and beside the renewals.
    pub(crate) alone: Foreground,
    pub(crate) beside: Foreground,
    pub(crate) idle_lock_bytes: u64,
    pub(crate) hold_bytes: u64,
    /// With its task.
    pub(crate) waiter_bytes: u64,
    pub(crate) lost: usize,
}

/// In µs.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Foreground {
    pub(crate) p50: u64,
    pub(crate) p99: u64,
    pub(crate) max: u64,
}

impl Job for ManyHolds {
    async fn perform(&self, request: Request) -> Value {
        assert_eq!(request.op, "loop", "it is begun like a loop");
        serde_json::to_value(self.run().await).expect("figures as JSON")
    }
}

impl ManyHolds {
    async fn run(&self) -> HoldCosts {
        let client = ours::client(ours::config(&self.url)).await;
        let server = redis::Client::open(self.url.as_str()).expect("a URL");
        let mut meter = Meter::new(server.get_connection().expect("a connection"));
        let alone = foreground(&client, ALONE).await;

        let before = (cpu(), meter.read());
        sleep(IDLE).await;
        let idle_client = (cpu() - before.0).div_f64(IDLE.as_secs_f64());
        let idle_server = (meter.read().cpu - before.1.cpu).div_f64(IDLE.as_secs_f64());

        let empty = resident();
        let locks: Vec<_> = (0..HOLDS).map(|i| client.lock(format!("held:{i}"))).collect();
        let named = resident();
        let guards = take(&locks, None).await;
        let held = resident();

        let before = (cpu(), meter.read());
        sleep(BUSY).await;
        let used = (cpu() - before.0).saturating_sub(idle_client.mul_f64(BUSY.as_secs_f64()));
        let server = meter.read().since(&before.1);
        let served = server.cpu.saturating_sub(idle_server.mul_f64(BUSY.as_secs_f64()));
        let renewals = server.calls("pexpire");
        let beside = foreground(&client, BUSY).await;

        let grown = resident();
        let waiters = wait(&locks[0]).await;
        let waited = resident();
        let lost = guards.iter().filter(|guard| !guard.is_held()).count();
        drop(waiters);

        let each = |time: Duration| time.as_secs_f64() * 1e6 / renewals.max(1) as f64;
        HoldCosts {
            renewals,
            scripts: server.calls("evalsha"),
            client_us: each(used),
            server_us: each(served),
            alone,
            beside,
            idle_lock_bytes: (named - empty) / HOLDS as u64,
            hold_bytes: (held - named) / HOLDS as u64,
            waiter_bytes: (waited - grown) / WAITERS as u64,
            lost,
        }
    }
}

/// Renewed by the watchdog, if there is no lease.
pub(super) async fn take(locks: &[Lock], lease: Option<Duration>) -> Vec<LockGuard> {
    let mut takers = JoinSet::new();
    for part in locks.chunks(locks.len().div_ceil(TAKERS)) {
        let part = part.to_vec();
        takers.spawn(async move {
            let mut guards = Vec::with_capacity(part.len());
            for lock in part {
                let acquire = match lease {
                    Some(lease) => lock.lock().lease(lease),
                    None => lock.lock(),
                };
                guards.push(acquire.await.expect("a free lock"));
            }
            guards
        });
    }
    takers.join_all().await.into_iter().flatten().collect()
}

/// They end when this is dropped.
async fn wait(lock: &Lock) -> JoinSet<()> {
    let mut waiters = JoinSet::new();
    for _ in 0..WAITERS {
        let lock = lock.clone();
        waiters.spawn(async move { drop(lock.lock().await) });
    }
    sleep(SETTLING).await;
    assert_eq!(waiters.len(), WAITERS);
    waiters
}

async fn foreground(client: &Client, time: Duration) -> Foreground {
    let lock = client.lock("foreground");
    let mut turns = Vec::new();
    let begun = Instant::now();
    while begun.elapsed() < time {
        let turn = Instant::now();
        let guard = lock.lock().await.expect("a free lock");
        guard.unlock().await.expect("a release");
        turns.push(micros(turn.elapsed()));
    }
    turns.sort_unstable();
    let at = |percent| percentile(&turns, percent);
    Foreground { p50: at(50), p99: at(99), max: at(100) }
}

/// The most memory this process has had, in bytes; it only grows here.
fn resident() -> u64 {
    let unit = if cfg!(target_os = "macos") { 1 } else { 1_024 };
    let most = getrusage(UsageWho::RUSAGE_SELF).expect("its own usage").max_rss();
    u64::try_from(most).expect("a size") * unit
}
