//! The process of one contestant. It speaks the protocol of the test peers (`tests/peers/README.md`).

mod bare;
#[cfg(feature = "crates")]
mod crates;
mod job;
mod local;
mod lock_client;
mod many_holds;
mod many_waiters;
mod ours;
mod owners;

use std::{
    io::{Write, stdin, stdout},
    process::exit,
    sync::Arc,
    time::Instant,
};

use harness::epoch_micros;
use redisson_lock::Driver;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

use crate::contestant::Contestant;
use bare::{Bare, Wakeups};
use job::{Job, Request, micros};
use local::LocalSemaphore;
use lock_client::LockClient;
use many_holds::ManyHolds;
use many_waiters::ManyWaiters;
use ours::{OurWakeups, Ours, OursAlone, OursOverRedisRs};
use owners::Owners;

pub(crate) use local::{HOLD, PERMITS};
pub(crate) use many_holds::{HOLDS, HoldCosts};
pub(crate) use many_waiters::{Cpu, LOCKS, WaiterCosts};

/// Jobs that are no contestants: what a wake-up costs at least, by PUBLISH alone and by the scripts; holding very many locks,
/// and waiting for them; a semaphore without Redis.
pub(crate) const WAKEUPS: &str = "wakeups";
pub(crate) const WAKEUPS_BY_SCRIPT: &str = "wakeups by script";
pub(crate) const OUR_WAKEUPS: &str = "our wakeups";
pub(crate) const OUR_WAKEUPS_OVER_REDIS_RS: &str = "our wakeups over redis-rs";
pub(crate) const MANY_HOLDS: &str = "many holds";
pub(crate) const MANY_WAITERS: &str = "many waiters";
pub(crate) const LOCAL_SEMAPHORE: &str = "local semaphore";

/// More than any table has owners: those that block need a thread each.
const BLOCKING_THREADS: usize = 2_000;

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
        MANY_HOLDS => serve(ManyHolds { url }),
        MANY_WAITERS => serve(ManyWaiters { url }),
        WAKEUPS => serve(runtime.block_on(Wakeups::connect(&url, false))),
        OUR_WAKEUPS => serve(runtime.block_on(OurWakeups::connect(&url, Driver::Fred))),
        OUR_WAKEUPS_OVER_REDIS_RS => {
            serve(runtime.block_on(OurWakeups::connect(&url, Driver::RedisRs)))
        }
        LOCAL_SEMAPHORE => race::<LocalSemaphore>(&runtime, &url),
        WAKEUPS_BY_SCRIPT => serve(runtime.block_on(Wakeups::connect(&url, true))),
        _ => {}
    }
    match Contestant::named(&name) {
        Contestant::Ours => race::<Ours>(&runtime, &url),
        Contestant::OursAlone => race::<OursAlone>(&runtime, &url),
        Contestant::OursOverRedisRs => race::<OursOverRedisRs>(&runtime, &url),
        Contestant::Bare => race::<Bare>(&runtime, &url),
        Contestant::Redisson => panic!("Redisson is a peer in Java"),
        #[cfg(feature = "crates")]
        Contestant::RsLock => race::<crates::RsLock>(&runtime, &url),
        #[cfg(feature = "crates")]
        Contestant::RLock => race::<crates::RLock>(&runtime, &url),
        #[cfg(feature = "crates")]
        Contestant::RedisLock => race::<crates::RedisLock>(&runtime, &url),
        #[cfg(feature = "crates")]
        Contestant::RedLock => race::<crates::RedLock>(&runtime, &url),
    }
}

fn race<C: LockClient>(runtime: &Runtime, url: &str) -> ! {
    serve(Owners(runtime.block_on(C::connect(url))))
}

/// A job that panics ends the process: what it said is then in the log.
fn serve(job: impl Job) -> ! {
    let job = Arc::new(job);
    for line in stdin().lines() {
        let request: Request = serde_json::from_str(&line.expect("a line")).expect("a request");
        let job = Arc::clone(&job);
        let task = tokio::spawn(async move { answer(&*job, request).await });
        tokio::spawn(async move {
            if task.await.is_err() {
                exit(1)
            }
        });
    }
    exit(0)
}

async fn answer(job: &impl Job, request: Request) {
    let (id, closes, begun) = (request.id, request.op == "close", Instant::now());
    let value = match request.op.as_str() {
        "hello" => json!({ "impl": "client", "version": "", "client": "" }),
        "close" => Value::Null,
        _ => job.perform(request).await,
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
