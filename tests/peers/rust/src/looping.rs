//! Many owners that take and release a lock, over and over, for so long.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use redisson_lock::{Client, Lock, LockGuard};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::Barrier;
use tokio::task::{JoinSet, yield_now};
use tokio::time::sleep;

use crate::answers::Failure;
use crate::counter::{Counter, Counters};
use crate::latencies::{Latencies, Summary};
use crate::locks;
use crate::request::{Kind, Request};

const FIRST_BACKOFF: Duration = Duration::from_millis(10);
const LAST_BACKOFF: Duration = Duration::from_millis(500);
/// Timers tell no shorter times apart.
const TICK: Duration = Duration::from_millis(1);

/// What a loop is to do.
#[derive(Debug)]
pub(crate) struct Plan {
    /// One a owner.
    locks: Vec<LoopLock>,
    time: Duration,
    hold: Duration,
    counter: Option<(String, u64)>,
}

/// The lock of a loop's owner, or the lack of one.
#[derive(Debug)]
enum LoopLock {
    None,
    Some { lock: Lock, wait: Option<Duration>, lease: Option<Duration> },
}

/// What a loop answers; the names of the fields are those of the answer.
#[derive(Debug, Serialize)]
struct Report {
    acquired: usize,
    refused: usize,
    errors: usize,
    counted: u64,
    min_per_owner: usize,
    max_per_owner: usize,
    acquire_us: Summary,
    release_us: Summary,
}

#[derive(Debug)]
struct LoopOwner {
    lock: LoopLock,
    counter: Option<Counter>,
    hold: Duration,
    acquires: Latencies,
    releases: Latencies,
    refused: usize,
    errors: usize,
    counter_reached: bool,
}

impl Plan {
    pub(crate) fn of(request: &Request, client: &Client) -> Result<Self, Failure> {
        if request.until.is_some() && request.counter.is_none() {
            return Err(Failure::invalid("until needs a counter"));
        }
        let lock = |number: usize| {
            let lock = match request.kind {
                Kind::None => return Ok(LoopLock::None),
                _ if request.each => {
                    locks::named(client, request.kind, &format!("{}:{number}", request.name()?))?
                }
                _ => locks::lock(client, request)?,
            };
            Ok(LoopLock::Some { lock, wait: request.wait(), lease: request.lease() })
        };
        Ok(Self {
            locks: (0..request.owners()?).map(lock).collect::<Result<_, Failure>>()?,
            time: request.time()?,
            hold: request.hold(),
            counter: request.counter.clone().map(|key| (key, request.until.unwrap_or(u64::MAX))),
        })
    }
}

/// Runs the loop until its time is over or `stop` is set, and reports.
pub(crate) async fn run(
    plan: Plan,
    counters: Arc<Counters>,
    stop: Arc<AtomicBool>,
) -> Result<Value, Failure> {
    let start = Arc::new(Barrier::new(plan.locks.len()));
    let mut owners = Vec::new();
    for lock in plan.locks {
        let counter = match &plan.counter {
            Some((key, until)) => Some(counters.counter(key, *until).await?),
            None => None,
        };
        owners.push(LoopOwner::new(lock, counter, plan.hold));
    }
    let mut tasks = JoinSet::new();
    for owner in owners {
        let (start, stop) = (start.clone(), stop.clone());
        tasks.spawn(async move {
            start.wait().await;
            let end = Instant::now() + plan.time;
            owner.run(|| stop.load(Ordering::Relaxed) || Instant::now() >= end).await
        });
    }
    let report = Report::of(tasks.join_all().await);
    Ok(serde_json::to_value(report).expect("a report as JSON"))
}

impl LoopLock {
    /// `Some(None)`: granted, with nothing to give back. `None`: refused.
    async fn acquire(&self) -> Result<Option<Option<LockGuard>>, Failure> {
        let Self::Some { lock, wait, lease } = self else {
            return Ok(Some(None));
        };
        let guard = match wait {
            Some(wait) => {
                let mut acquire = lock.try_lock().wait(*wait);
                if let Some(lease) = lease {
                    acquire = acquire.lease(*lease);
                }
                acquire.await?
            }
            None => {
                let mut acquire = lock.lock();
                if let Some(lease) = lease {
                    acquire = acquire.lease(*lease);
                }
                Some(acquire.await?)
            }
        };
        Ok(guard.map(Some))
    }
}

impl LoopOwner {
    fn new(lock: LoopLock, counter: Option<Counter>, hold: Duration) -> Self {
        Self {
            lock,
            counter,
            hold,
            acquires: Latencies::default(),
            releases: Latencies::default(),
            refused: 0,
            errors: 0,
            counter_reached: false,
        }
    }

    async fn run(mut self, is_over: impl Fn() -> bool) -> Self {
        let mut backoff = FIRST_BACKOFF;
        while !is_over() && !self.counter_reached {
            if self.take_turn().await.is_ok() {
                backoff = FIRST_BACKOFF;
            } else {
                self.errors += 1;
                sleep(backoff).await;
                backoff = LAST_BACKOFF.min(2 * backoff);
            }
        }
        self
    }

    /// Takes the lock, uses it and releases it.
    async fn take_turn(&mut self) -> Result<(), Failure> {
        let start = Instant::now();
        let Some(guard) = self.lock.acquire().await? else {
            self.refused += 1;
            return Ok(());
        };
        self.acquires.add_since(start);
        let used = self.use_it().await;
        let start = Instant::now();
        if let Some(guard) = guard {
            guard.unlock().await?;
        }
        self.releases.add_since(start);
        used
    }

    async fn use_it(&mut self) -> Result<(), Failure> {
        if let Some(counter) = &mut self.counter {
            self.counter_reached = !counter.count().await?;
        }
        if !self.counter_reached {
            pass(self.hold).await;
        }
        Ok(())
    }
}

/// Sleeps, more exactly than timers do.
async fn pass(time: Duration) {
    let end = Instant::now() + time;
    if time > TICK {
        sleep(time - TICK).await;
    }
    while Instant::now() < end {
        yield_now().await;
    }
}

impl Report {
    fn of(owners: Vec<LoopOwner>) -> Self {
        let acquired = || owners.iter().map(|owner| owner.acquires.count());
        Self {
            acquired: acquired().sum(),
            refused: owners.iter().map(|owner| owner.refused).sum(),
            errors: owners.iter().map(|owner| owner.errors).sum(),
            counted: owners
                .iter()
                .filter_map(|owner| owner.counter.as_ref())
                .map(Counter::counted)
                .sum(),
            min_per_owner: acquired().min().unwrap_or(0),
            max_per_owner: acquired().max().unwrap_or(0),
            acquire_us: Latencies::summary(owners.iter().map(|owner| &owner.acquires)),
            release_us: Latencies::summary(owners.iter().map(|owner| &owner.releases)),
        }
    }
}
