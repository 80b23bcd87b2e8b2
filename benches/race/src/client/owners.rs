//! Many owners that acquire and release a lock repeatedly, for a given time.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use serde::Serialize;
use serde_json::Value;
use tokio::{runtime::Handle, sync::Barrier, time::sleep};

use super::{
    job::{Job, Request, cpu, micros},
    lock_client::LockClient,
};
use crate::figures::percentile;

/// After a failure.
const BACKOFF: Duration = Duration::from_millis(10);

pub(super) struct Owners<C>(pub(super) C);

#[derive(Default)]
struct Owner {
    acquisitions: Vec<Duration>,
    turns: Vec<Duration>,
    errors: u64,
}

/// The names of the fields are those of the answer.
#[derive(Serialize)]
struct Report {
    acquired: usize,
    refused: usize,
    errors: u64,
    min_per_owner: usize,
    max_per_owner: usize,
    acquire_us: Summary,
    turn_us: Summary,
    cpu_us: u64,
    per_owner: Vec<OwnerReport>,
}

#[derive(Serialize)]
struct OwnerReport {
    acquired: usize,
    acquire_us: Summary,
}

#[derive(Serialize)]
struct Summary {
    p50: u64,
    p99: u64,
    max: u64,
}

impl<C: LockClient> Job for Owners<C> {
    async fn perform(&self, request: Request) -> Value {
        assert_eq!(request.op, "loop", "contestants loop");
        let time = Duration::from_millis(request.millis);
        let start = Arc::new(Barrier::new(request.owners + 1));
        let mut tasks = Vec::new();
        for number in 0..request.owners {
            let name = match request.each {
                true => format!("{}:{number}", request.name),
                false => request.name.clone(),
            };
            let (lock, start) = (self.0.lock(&name), Arc::clone(&start));
            let owner = async move {
                start.wait().await;
                Owner::default().run::<C>(&lock, Instant::now() + time).await
            };
            tasks.push(match C::BLOCKS {
                true => tokio::task::spawn_blocking(|| Handle::current().block_on(owner)),
                false => tokio::spawn(owner),
            });
        }
        let before = cpu();
        start.wait().await;
        let mut owners = Vec::new();
        for task in tasks {
            owners.push(task.await.expect("an owner"));
        }
        let report = Report::of(&owners, cpu() - before);
        serde_json::to_value(report).expect("a report as JSON")
    }
}

impl Owner {
    async fn run<C: LockClient>(mut self, lock: &C::Lock, end: Instant) -> Self {
        let mut last_error = None;
        let mut now = Instant::now();
        while now < end {
            let begun = now;
            match C::turn(lock).await {
                Ok(granted) => {
                    now = Instant::now();
                    self.acquisitions.push(granted - begun);
                    self.turns.push(now - begun);
                }
                Err(error) => {
                    self.errors += 1;
                    last_error = Some(error);
                    sleep(BACKOFF).await;
                    now = Instant::now();
                }
            }
        }
        if let Some(error) = last_error {
            eprintln!("{} errors, such as: {error}", self.errors);
        }
        self
    }
}

impl Report {
    fn of(owners: &[Owner], cpu: Duration) -> Self {
        let acquired = || owners.iter().map(|owner| owner.acquisitions.len());
        Self {
            acquired: acquired().sum(),
            refused: 0,
            errors: owners.iter().map(|owner| owner.errors).sum(),
            min_per_owner: acquired().min().unwrap_or(0),
            max_per_owner: acquired().max().unwrap_or(0),
            acquire_us: Summary::of(owners.iter().map(|owner| &owner.acquisitions)),
            turn_us: Summary::of(owners.iter().map(|owner| &owner.turns)),
            cpu_us: micros(cpu),
            per_owner: owners.iter().map(OwnerReport::of).collect(),
        }
    }
}

impl OwnerReport {
    fn of(owner: &Owner) -> Self {
        Self {
            acquired: owner.acquisitions.len(),
            acquire_us: Summary::of([&owner.acquisitions].into_iter()),
        }
    }
}

impl Summary {
    fn of<'a>(parts: impl Iterator<Item = &'a Vec<Duration>>) -> Self {
        let mut sorted: Vec<_> = parts.flatten().copied().map(micros).collect();
        sorted.sort_unstable();
        let at = |percent| percentile(&sorted, percent);
        Self { p50: at(50), p99: at(99), max: at(100) }
    }
}
