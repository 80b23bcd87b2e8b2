//! The blocking API beside the async one: 64 threads against 64 tasks, on one server, in one run.
//!
//! `cargo run --release -p redisson-lock-race --bin blocking` prints two tables. The rounds are interleaved. A figure is the median of
//! the rounds, and a ratio the median of the ratios in each round. The client's CPU says more than the rate where others use the machine.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use futures::future::join_all;
use harness::RedisServer;
use nix::sys::{
    resource::{UsageWho, getrusage},
    time::TimeValLike,
};
use redisson_lock::{Client, Config, blocking};
use tokio::runtime::Runtime;

const CALLERS: usize = 64;
const ROUNDS: usize = 11;
const TIME: Duration = Duration::from_millis(700);

const NAMES: [&str; 3] =
    ["blocking, 64 threads", "async, 64 tasks with an owner each", "async, 64 tasks"];

fn main() {
    let server = RedisServer::start();
    let config = Config::from_url(server.url()).expect("a URL");
    let runtime = Runtime::new().expect("a runtime");
    let ours = runtime.block_on(Client::connect(config.clone())).expect("a client");
    let threads = blocking::Client::connect(config).expect("a client");
    for (title, is_shared) in [("a lock each", false), ("one lock", true)] {
        let name = |n: usize| if is_shared { "one".to_owned() } else { format!("own:{n}") };
        let mut rounds = Vec::new();
        for round in 0..=ROUNDS {
            let figures = [
                figure(|| of_threads(&threads, name)),
                figure(|| runtime.block_on(of_tasks(&ours, name, true))),
                figure(|| runtime.block_on(of_tasks(&ours, name, false))),
            ];
            // The first warms up.
            if round > 0 {
                rounds.push(figures);
            }
        }
        println!("\n{CALLERS} callers, {title}: median of {ROUNDS} rounds of {TIME:?}");
        println!(
            "  {:36} {:>9} {:>19} {:>21}",
            "", "pairs/s", "client CPU, µs/pair", "blocking: times this"
        );
        for (n, name) in NAMES.iter().enumerate() {
            let rate = median(rounds.iter().map(|round| round[n].rate));
            let cpu = median(rounds.iter().map(|round| round[n].cpu));
            let ratio = median(rounds.iter().map(|round| round[0].rate / round[n].rate));
            println!("  {name:36} {rate:>9.0} {cpu:>19.1} {ratio:>21.2}");
        }
    }
    threads.close().expect("to close");
    runtime.block_on(ours.close()).expect("to close");
}

/// Of one round: pairs of acquire and release a second, and the CPU of this process for one, in µs.
struct Figure {
    rate: f64,
    cpu: f64,
}

fn figure(run: impl FnOnce() -> u64) -> Figure {
    let (begun, before) = (Instant::now(), cpu());
    let pairs = run() as f64;
    Figure { rate: pairs / begun.elapsed().as_secs_f64(), cpu: (cpu() - before) / pairs }
}

/// What this process has used, in µs.
fn cpu() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("the usage");
    (usage.user_time() + usage.system_time()).num_microseconds() as f64
}

/// How many pairs the threads make.
fn of_threads(client: &blocking::Client, name: impl Fn(usize) -> String) -> u64 {
    let (stop, pairs) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for n in 0..CALLERS {
            let (lock, stop, pairs) = (client.lock(name(n)), &stop, &pairs);
            scope.spawn(move || {
                let mut made = 0;
                while !stop.load(Ordering::Relaxed) {
                    lock.lock().run().expect("a lock").unlock().expect("held");
                    made += 1;
                }
                pairs.fetch_add(made, Ordering::Relaxed);
            });
        }
        thread::sleep(TIME);
        stop.store(true, Ordering::Relaxed);
    });
    pairs.into_inner()
}

async fn of_tasks(client: &Client, name: impl Fn(usize) -> String, has_owner: bool) -> u64 {
    let stop = Arc::new(AtomicBool::new(false));
    let tasks = (0..CALLERS).map(|n| {
        let (lock, mut owner, stop) = (client.lock(name(n)), client.owner(), stop.clone());
        tokio::spawn(async move {
            let mut made = 0_u64;
            while !stop.load(Ordering::Relaxed) {
                let guard = match has_owner {
                    true => lock.lock().by(&mut owner).await,
                    false => lock.lock().await,
                };
                guard.expect("a lock").unlock().await.expect("held");
                made += 1;
            }
            made
        })
    });
    let tasks: Vec<_> = tasks.collect();
    tokio::time::sleep(TIME).await;
    stop.store(true, Ordering::Relaxed);
    join_all(tasks).await.into_iter().map(|made| made.expect("no panic")).sum()
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
