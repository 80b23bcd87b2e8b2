//! Readers and writers in several processes, and a checker in each reader: does the read show what was committed before
//! it began?

use std::{
    path::Path,
    time::{Duration, Instant},
};

use futures::future::try_join_all;
use redisson_lock::Client;
use serde::{Deserialize, Serialize};

use super::{Item, Items, Terms};
use crate::{
    database::Database,
    error::Result,
    figures::{percentile, time},
    stage::{Servers, Stage},
    worker::{Orders, Worker, report},
};

/// A run.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Plan {
    pub processes: usize,
    /// In each process.
    pub readers: usize,
    /// In each process.
    pub writers: usize,
    /// How many rows are read and written, at random.
    pub rows: u64,
    /// A pause after each write, so that copies are read meanwhile.
    pub write_every: Duration,
    /// How often all of them begin. When they have come to rest, each copy is compared with its row.
    pub rounds: u64,
    /// Of each round.
    pub lasts: Duration,
    pub terms: Terms,
    /// The watchdog of the locks. What a process that dies has locked is free after this time.
    pub watchdog: Duration,
}

/// What a worker does.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    pub servers: Servers,
    pub plan: Plan,
}

/// What an order to a worker is.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Task {
    /// All readers and writers of the plan, for as long as it lasts. Reported: [`Done`].
    Run,
    /// Reported: the [`Item`].
    Read(u64),
    /// Sets the price of a row. Reported: the [`Item`].
    Write(u64, u64),
}

/// What a worker's readers and writers have done.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Done {
    pub reads: Vec<u64>,
    pub writes: Vec<u64>,
    pub stale: u64,
    pub errors: Vec<String>,
}

/// What came of a run. Times are in microseconds, ascending.
#[derive(Debug)]
pub struct Outcome {
    pub plan: Plan,
    pub reads: Vec<u64>,
    pub writes: Vec<u64>,
    /// Reads that showed an older version than one that was committed before they began.
    pub stale: u64,
    /// Copies that differed from their rows when nobody read or wrote, over all rounds.
    pub differ_at_rest: u64,
}

/// The tables of a plan.
#[must_use]
pub fn tables(plan: &Plan) -> String {
    format!(
        "CREATE TABLE item (id INTEGER PRIMARY KEY, price INTEGER NOT NULL, version INTEGER NOT NULL);
         WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < {})
         INSERT INTO item SELECT i, 100, 1 FROM n;",
        plan.rows
    )
}

/// Runs a plan on servers of its own.
///
/// # Errors
/// When anything fails.
pub async fn run(program: &Path, plan: Plan) -> Result<Outcome> {
    let stage = Stage::set(program, &tables(&plan))?;
    let job = Job { servers: stage.servers(), plan };
    let mut workers = try_join_all((0..plan.processes).map(|_| start(program, &job))).await?;
    let (items, locks) = open(&job).await?;
    let (mut all, mut differ_at_rest) = (Done::default(), 0);
    for _ in 0..plan.rounds {
        for worker in &mut workers {
            worker.order(&Task::Run).await?;
        }
        for worker in &mut workers {
            all.add(worker.report().await?);
        }
        if let Some(error) = all.errors.first() {
            return Err(format!("a read or a write failed: {error}").into());
        }
        for id in 0..plan.rows {
            let (row, copy) = (items.row(id).await?, items.copy(id).await?);
            differ_at_rest += u64::from(copy.is_some_and(|copy| copy != row));
        }
    }
    for worker in workers {
        worker.end().await?;
    }
    locks.close().await?;
    all.reads.sort_unstable();
    all.writes.sort_unstable();
    Ok(Outcome { plan, reads: all.reads, writes: all.writes, stale: all.stale, differ_at_rest })
}

/// Starts a worker, which is ready when this returns.
///
/// # Errors
/// When it does not start.
pub async fn start(program: &Path, job: &Job) -> Result<Worker> {
    let mut worker = Worker::start(program, "read_write", job).await?;
    worker.report::<()>().await?;
    Ok(worker)
}

/// Opens the rows, and the client for their locks, which is to be closed.
///
/// # Errors
/// Those of the servers.
pub async fn open(job: &Job) -> Result<(Items, Client)> {
    let Job { servers, plan } = job;
    let locks = servers.locks(plan.watchdog).await?;
    let database = Database::open(&servers.database)?;
    Ok((Items::new(database, servers.connect().await?, locks.clone(), plan.terms), locks))
}

/// A worker's part.
///
/// # Errors
/// Those of the servers.
pub async fn work() -> Result<()> {
    let mut orders = Orders::new();
    let job: Job = orders.expect().await?;
    let (items, locks) = open(&job).await?;
    report(&())?;
    while let Some(task) = orders.next().await? {
        match task {
            Task::Run => report(&run_all(&items, job.plan).await?)?,
            Task::Read(id) => report(&items.read(id).await?)?,
            Task::Write(id, price) => report(&items.write(id, price).await?)?,
        }
    }
    Ok(locks.close().await?)
}

async fn run_all(items: &Items, plan: Plan) -> Result<Done> {
    let readers = (0..plan.readers).map(|_| tokio::spawn(read_on_and_on(items.clone(), plan)));
    let writers = (0..plan.writers).map(|_| tokio::spawn(write_on_and_on(items.clone(), plan)));
    let tasks: Vec<_> = readers.chain(writers).collect();
    let mut all = Done::default();
    for done in try_join_all(tasks).await? {
        all.add(done);
    }
    Ok(all)
}

async fn read_on_and_on(items: Items, plan: Plan) -> Done {
    let mut done = Done::default();
    let end = Instant::now() + plan.lasts;
    while Instant::now() < end {
        match read_and_check(&items, fastrand::u64(..plan.rows)).await {
            Ok((took, is_stale)) => {
                done.reads.push(took);
                done.stale += u64::from(is_stale);
            }
            Err(error) => {
                done.errors.push(error.to_string());
                break;
            }
        }
    }
    done
}

/// The checker: no clock is compared. What the database shows before the read begins, was committed before.
async fn read_and_check(items: &Items, id: u64) -> Result<(u64, bool)> {
    let committed: Item = items.row(id).await?;
    let begun = Instant::now();
    let read = items.read(id).await?;
    Ok((begun.elapsed().as_micros() as u64, read.version < committed.version))
}

async fn write_on_and_on(items: Items, plan: Plan) -> Done {
    let mut done = Done::default();
    let end = Instant::now() + plan.lasts;
    while Instant::now() < end {
        let begun = Instant::now();
        match items.write(fastrand::u64(..plan.rows), fastrand::u64(1..1_000)).await {
            Ok(_) => done.writes.push(begun.elapsed().as_micros() as u64),
            Err(error) => {
                done.errors.push(error.to_string());
                break;
            }
        }
        tokio::time::sleep(plan.write_every).await;
    }
    done
}

impl Done {
    fn add(&mut self, other: Self) {
        self.reads.extend(other.reads);
        self.writes.extend(other.writes);
        self.stale += other.stale;
        self.errors.extend(other.errors);
    }
}

impl Outcome {
    /// A row of a table: reads, writes, stale reads, rows that differ at rest, p50 and p99 of a read, p50 of a write.
    #[must_use]
    pub fn row(&self) -> [String; 7] {
        [
            self.reads.len().to_string(),
            self.writes.len().to_string(),
            self.stale.to_string(),
            self.differ_at_rest.to_string(),
            time(percentile(&self.reads, 50)),
            time(percentile(&self.reads, 99)),
            time(percentile(&self.writes, 50)),
        ]
    }
}
