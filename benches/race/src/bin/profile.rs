//! A fixed number of pairs or renewals in one thread, for callgrind, `perf` and the CPU that a process uses: see `benches/PROFILE.md`.
//!
//! - `profile URL DRIVER pairs TASKS PAIRS` acquires and releases. Each task has a lock of its own.
//! - `profile URL DRIVER turns TASKS TURNS` does so with one lock for all tasks.
//! - `profile URL DRIVER renewals HOLDS SECONDS WATCHDOG` holds locks for so long. The watchdog's time is in s.
//!
//! DRIVER is fred or redis-rs. With `OBSERVER=metrics` in the environment, the client has a `MetricsObserver`. No recorder is installed.

use std::{env, time::Duration};

use futures::future::join_all;
use redisson_lock::{Client, Config, Driver, metrics::MetricsObserver};
use tokio::time::sleep;

const USAGE: &str = "profile URL fred|redis-rs pairs|turns|renewals NUMBER...";

/// The holds are taken by so many at a time.
const TAKERS: u64 = 64;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let [url, driver, what, numbers @ ..] = &arguments[..] else { panic!("{USAGE}") };
    let driver = match &driver[..] {
        "fred" => Driver::Fred,
        "redis-rs" => Driver::RedisRs,
        _ => panic!("{USAGE}"),
    };
    let numbers: Vec<u64> = numbers.iter().map(|n| n.parse().expect("a number")).collect();
    let config = Config::from_url(url).expect("a URL").driver(driver);
    let config = match env::var("OBSERVER").as_deref() {
        Ok("metrics") => config.observer(MetricsObserver::new()),
        Ok(other) => panic!("OBSERVER={other}"),
        Err(_) => config,
    };
    match (&what[..], &numbers[..]) {
        ("pairs", [tasks, pairs]) => self::pairs(config, *tasks, *pairs, |n| n).await,
        ("turns", [tasks, turns]) => self::pairs(config, *tasks, *turns, |_| 0).await,
        ("renewals", [holds, time, watchdog]) => {
            let [time, watchdog] = [time, watchdog].map(|s| Duration::from_secs(*s));
            renewals(config.watchdog(watchdog), *holds, time).await;
        }
        _ => panic!("{USAGE}"),
    }
}

async fn pairs(config: Config, tasks: u64, pairs: u64, lock_of: impl Fn(u64) -> u64) {
    let client = Client::connect(config).await.expect("a client");
    let each = pairs / tasks;
    let tasks = (0..tasks).map(|n| {
        let lock = client.lock(format!("own:{}", lock_of(n)));
        tokio::spawn(async move {
            for _ in 0..each {
                lock.lock().await.expect("a lock").unlock().await.expect("a release");
            }
        })
    });
    join_all(tasks).await;
}

async fn renewals(config: Config, holds: u64, time: Duration) {
    let client = Client::connect(config).await.expect("a client");
    let takers = (0..TAKERS).map(async |taker| {
        let mut guards = Vec::new();
        for n in (taker..holds).step_by(TAKERS as usize) {
            guards.push(client.lock(format!("held:{n}")).lock().await.expect("a lock"));
        }
        guards
    });
    let guards = join_all(takers).await;
    sleep(time).await;
    assert!(guards.iter().flatten().all(|guard| guard.is_held()), "a hold was lost");
}
