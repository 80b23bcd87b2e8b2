//! A process that takes part: it is told what to do as the test peers are (`tests/peers/README.md`).

mod bare;
mod contestant;
#[cfg(feature = "crates")]
mod crates;
mod hoard;
mod looping;
mod ours;

use std::{
    io::{Write, stdin, stdout},
    process::exit,
    sync::Arc,
    time::{Duration, Instant},
};

use harness::epoch_micros;
use nix::sys::resource::{UsageWho, getrusage};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

use crate::entrant::Entrant;
use bare::{Bare, Wakeups};
use contestant::Contestant;
use hoard::Hoard;
use looping::Looping;
use ours::{Ours, OursAlone};

pub(crate) use hoard::{HOLDS, Hoarded};

/// Parts that are no contestants: what a wake-up costs at least, and holding very many locks.
pub(crate) const WAKEUPS: &str = "wakeups";
pub(crate) const HOARD: &str = "hoard";

/// Locks that need a lease get the watchdog's default.
const LEASE: Duration = Duration::from_secs(30);

/// More than any cell has owners: those that block need a thread each.
const BLOCKING_THREADS: usize = 2_000;

/// What a contender can be asked for.
trait Part: Send + Sync + 'static {
    /// The value of the answer.
    fn perform(&self, request: Request) -> impl Future<Output = Value> + Send;
}

#[derive(Debug, Deserialize)]
struct Request {
    id: u64,
    op: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    owner: String,
    #[serde(default)]
    owners: usize,
    #[serde(default)]
    millis: u64,
    #[serde(default)]
    each: bool,
}

/// Serves until the end of stdin.
pub(crate) fn run(mut arguments: impl Iterator<Item = String>) -> ! {
    let mut value_of = |option: &str| match (arguments.next(), arguments.next()) {
        (Some(given), Some(value)) if given == option => value,
        _ => panic!("{option} is missing"),
    };
    let (url, name) = (value_of("--redis"), value_of("--as"));
    let runtime = Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .build()
        .expect("a runtime");
    let _entered = runtime.enter();
    match name.as_str() {
        HOARD => serve(Hoard { url }),
        WAKEUPS => serve(runtime.block_on(Wakeups::connect(&url))),
        _ => {}
    }
    match Entrant::named(&name) {
        Entrant::Ours => race::<Ours>(&runtime, &url),
        Entrant::OursAlone => race::<OursAlone>(&runtime, &url),
        Entrant::Bare => race::<Bare>(&runtime, &url),
        Entrant::Redisson => panic!("Redisson is a peer in Java"),
        #[cfg(feature = "crates")]
        Entrant::RsLock => race::<crates::RsLock>(&runtime, &url),
        #[cfg(feature = "crates")]
        Entrant::RLock => race::<crates::RLock>(&runtime, &url),
        #[cfg(feature = "crates")]
        Entrant::RedisLock => race::<crates::RedisLock>(&runtime, &url),
        #[cfg(feature = "crates")]
        Entrant::RedLock => race::<crates::RedLock>(&runtime, &url),
    }
}

fn race<C: Contestant>(runtime: &Runtime, url: &str) -> ! {
    serve(Looping(runtime.block_on(C::connect(url))))
}

/// A part that panics ends the process: what it said is then in the log.
fn serve(part: impl Part) -> ! {
    let part = Arc::new(part);
    for line in stdin().lines() {
        let request: Request = serde_json::from_str(&line.expect("a line")).expect("a request");
        let part = Arc::clone(&part);
        let task = tokio::spawn(async move { answer(&*part, request).await });
        tokio::spawn(async move {
            if task.await.is_err() {
                exit(1)
            }
        });
    }
    exit(0)
}

async fn answer(part: &impl Part, request: Request) {
    let (id, closes, begun) = (request.id, request.op == "close", Instant::now());
    let value = match request.op.as_str() {
        "hello" => json!({ "impl": "contender", "version": "", "client": "" }),
        "close" => Value::Null,
        _ => part.perform(request).await,
    };
    // In this order: `at` less `us` is never later than it was begun.
    let at = epoch_micros();
    let us = micros(begun.elapsed());
    let line = json!({ "id": id, "ok": true, "value": value, "us": us, "at": at }).to_string();
    let mut out = stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).expect("somebody to read");
    if closes {
        exit(0)
    }
}

/// What CPU this process has used so far.
fn cpu() -> Duration {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("its own usage");
    [usage.user_time(), usage.system_time()]
        .iter()
        .map(|time| {
            let seconds = time.tv_sec().try_into().expect("seconds");
            let micros = time.tv_usec().try_into().expect("microseconds");
            Duration::from_secs(seconds) + Duration::from_micros(micros)
        })
        .sum()
}

fn micros(time: Duration) -> u64 {
    time.as_micros().try_into().expect("a time of this age")
}
