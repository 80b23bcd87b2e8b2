//! What it costs to keep a thousand locks renewed.
//!
//! `cargo bench --bench watchdog` holds 1 000 locks with the default watchdog of 30 s for two minutes, and
//! counts what the server was asked and what CPU this process used, less what it uses while
//! it holds none.

use std::time::Duration;

use harness::{RedisServer, redis};
use nix::sys::resource::{UsageWho, getrusage};
use redisson_lock::{Client, Config};
use tokio::time::sleep;

const HOLDS: usize = 1_000;
const IDLE: Duration = Duration::from_secs(20);
const BUSY: Duration = Duration::from_secs(120);

#[tokio::main]
async fn main() {
    let server = RedisServer::start();
    let client = Client::connect(Config::from_url(server.url()).unwrap()).await.unwrap();

    let before = cpu();
    sleep(IDLE).await;
    let idle = (cpu() - before).as_secs_f64() / IDLE.as_secs_f64();

    let mut guards = Vec::new();
    for i in 0..HOLDS {
        guards.push(client.lock(format!("held:{i}")).lock().await.unwrap());
    }
    let (before, calls) = (cpu(), scripts(&server));
    sleep(BUSY).await;
    let calls = scripts(&server) - calls;
    let used = (cpu() - before).as_secs_f64() - idle * BUSY.as_secs_f64();
    assert!(guards.iter().all(|guard| guard.is_held()));

    let minutes = BUSY.as_secs_f64() / 60.0;
    // Every third of the watchdog, less up to a tenth of that by jitter.
    let renewals = HOLDS as f64 * BUSY.as_secs_f64() / 10.0;
    println!("{HOLDS} holds, watchdog 30 s, {BUSY:?}");
    println!("script calls a minute: {:.0}", calls as f64 / minutes);
    println!(
        "client CPU a renewal:  {:.1} µs (at least {renewals:.0} renewals)",
        used * 1e6 / renewals
    );
    println!("client CPU when idle:  {:.2} ms a second", idle * 1e3);
    drop(guards);
    client.close().await.unwrap();
}

/// What CPU this process has used so far.
fn cpu() -> Duration {
    let usage = getrusage(UsageWho::RUSAGE_SELF).unwrap();
    [usage.user_time(), usage.system_time()]
        .iter()
        .map(|time| {
            Duration::new(time.tv_sec() as u64, 0) + Duration::from_micros(time.tv_usec() as u64)
        })
        .sum()
}

/// How many scripts the server has run.
fn scripts(server: &RedisServer) -> u64 {
    let stats: String = redis::cmd("INFO").arg("commandstats").query(&mut server.client()).unwrap();
    stats
        .lines()
        .filter_map(|line| {
            line.strip_prefix("cmdstat_eval")?.split_once("calls=")?.1.split_once(',')
        })
        .map(|(calls, _)| calls.parse::<u64>().unwrap())
        .sum()
}
