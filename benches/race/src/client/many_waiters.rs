//! The cost of very many locks and waiters, from the first request to the last release.

use std::time::Duration;

use harness::redis::{self, cmd};
use redisson_lock::{Client, Lock, LockGuard};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::{task::JoinSet, time::sleep};

use super::{
    job::{Job, Request, cpu},
    many_holds::take,
    ours,
};
use crate::meter::Meter;

/// Each is held by one client, and waited for by one task of another.
pub(crate) const LOCKS: usize = 20_000;
/// Longer than all of it takes: the watchdog, which has a table of its own, does nothing.
const LEASE: Duration = Duration::from_secs(600);
const QUIET: Duration = Duration::from_secs(10);
const SETTLING: Duration = Duration::from_secs(2);
const LIMIT: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct ManyWaiters {
    pub(super) url: String,
}

/// Each is for one lock or waiter, if it does not say otherwise.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct WaiterCosts {
    pub(crate) connections: u64,
    pub(crate) hold_bytes: u64,
    /// Of the server: its waiter's channel.
    pub(crate) channel_bytes: u64,
    pub(crate) begin: Cpu,
    /// For a second of waiting.
    pub(crate) second: Cpu,
    /// From the release to the next release, which frees the lock.
    pub(crate) wake: Cpu,
}

/// In µs.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Cpu {
    pub(crate) client: f64,
    pub(crate) server: f64,
}

impl Job for ManyWaiters {
    async fn perform(&self, request: Request) -> Value {
        assert_eq!(request.op, "loop", "it is begun like a loop");
        serde_json::to_value(self.run().await).expect("figures as JSON")
    }
}

impl ManyWaiters {
    async fn run(&self) -> WaiterCosts {
        let mut server = Server::of(&self.url);
        let alone = server.number("clients", "connected_clients");
        let holder = ours::client(ours::config(&self.url)).await;
        let waiter = ours::client(ours::config(&self.url)).await;
        let connections = (server.number("clients", "connected_clients") - alone) / 2;
        let names = || (0..LOCKS).map(|i| format!("lock:{i}"));

        let empty = server.memory();
        let held: Vec<_> = names().map(|name| holder.lock(name)).collect();
        let guards = take(&held, Some(LEASE)).await;
        let hold_bytes = (server.memory() - empty) / LOCKS as u64;

        let before = server.memory();
        let idle = server.spent(sleep(QUIET)).await.1;
        let (waiters, begin) = server.spent(begin(&waiter, names())).await;
        let channel_bytes = server.memory().saturating_sub(before) / LOCKS as u64;
        let quiet = server.spent(sleep(QUIET)).await.1;
        let (_, wake) = server.spent(serve(guards, waiters)).await;

        let seconds = QUIET.as_secs_f64();
        let second = Cpu {
            client: (quiet.client - idle.client) / seconds,
            server: (quiet.server - idle.server) / seconds,
        };
        WaiterCosts { connections, hold_bytes, channel_bytes, begin, second, wake }
    }
}

/// Returns when all wait.
async fn begin(client: &Client, names: impl Iterator<Item = String>) -> JoinSet<()> {
    let mut waiters = JoinSet::new();
    for name in names {
        let lock: Lock = client.lock(name);
        waiters.spawn(async move {
            let guard = lock.lock().await.expect("its turn");
            guard.unlock().await.expect("a release");
        });
    }
    sleep(SETTLING).await;
    assert_eq!(waiters.len(), LOCKS);
    waiters
}

async fn serve(guards: Vec<LockGuard>, waiters: JoinSet<()>) {
    let mut releases = JoinSet::new();
    for guard in guards {
        releases.spawn(async move { guard.unlock().await.expect("a release") });
    }
    let all = async {
        releases.join_all().await;
        waiters.join_all().await;
    };
    tokio::time::timeout(LIMIT, all).await.expect("all have their turn");
}

/// What the server says of itself.
struct Server {
    connection: redis::Connection,
    meter: Meter,
}

impl Server {
    fn of(url: &str) -> Self {
        let client = redis::Client::open(url).expect("a URL");
        let connect = || client.get_connection().expect("a connection");
        Self { connection: connect(), meter: Meter::new(connect()) }
    }

    fn number(&mut self, section: &str, field: &str) -> u64 {
        let info: String = cmd("INFO").arg(section).query(&mut self.connection).expect("its state");
        let value = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        value.and_then(|value| value.trim().parse().ok()).expect("a number")
    }

    fn memory(&mut self) -> u64 {
        self.number("memory", "used_memory")
    }

    /// Also what this process and the server used meanwhile, for each lock.
    async fn spent<T>(&mut self, work: impl Future<Output = T>) -> (T, Cpu) {
        let before = (cpu(), self.meter.read());
        let done = work.await;
        let server = self.meter.read().since(&before.1).cpu;
        let each = |time: Duration| time.as_secs_f64() * 1e6 / LOCKS as f64;
        (done, Cpu { client: each(cpu() - before.0), server: each(server) })
    }
}
