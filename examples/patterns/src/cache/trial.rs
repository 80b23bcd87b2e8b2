//! The cache under load: the same reads by several processes, with the lock and without.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::future::try_join_all;
use harness::epoch_micros;
use serde::{Deserialize, Serialize};

use super::{Busy, Cache, Times};
use crate::{
    database::Database,
    error::Result,
    figures::{percentile, time},
    stage::{Servers, Stage},
    worker::{Orders, Worker, report},
};

/// How a caller that finds no fresh value goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Way {
    WithoutLock,
    OncePerProcess,
    WithLock,
}

/// What is read.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Reads {
    /// One key: the best sellers, for which the database adds up all its orders.
    Hot,
    /// Single rows of this many that exist, at random.
    Rows(u64),
    /// Single rows of this many that do not exist, at random.
    Absent(u64),
}

/// A run.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Plan {
    pub processes: usize,
    /// In each process. Each has one read under way at a time.
    pub tasks: usize,
    /// Each task is to read once in this time. If it is late, it goes on at once, and its reads count from when they
    /// were due.
    pub every: Duration,
    pub lasts: Duration,
    /// Rows of the table that [`Reads::Hot`] adds up.
    pub orders: u64,
    pub way: Way,
    pub reads: Reads,
    pub times: Times,
}

/// What the workers do.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Job {
    servers: Servers,
    plan: Plan,
}

/// What a worker has done.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Done {
    reads: Vec<Read>,
    queries: Vec<u64>,
    busy: u64,
    errors: Vec<String>,
}

/// One read that was answered.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Read {
    /// Microseconds since 1970.
    pub due: u64,
    /// In microseconds.
    pub took: u64,
}

/// What came of a run.
#[derive(Debug)]
pub struct Outcome {
    pub plan: Plan,
    pub reads: Vec<Read>,
    /// When the database was asked for a value, ascending, in microseconds since 1970.
    pub queries: Vec<u64>,
    /// Reads that failed with [`Busy`].
    pub busy: u64,
    /// Keys that have expired, as the server counts them.
    pub expired: u64,
    pub began: u64,
    pub took: Duration,
}

/// Runs a plan on servers of its own.
///
/// # Errors
/// When anything fails but a read with [`Busy`].
pub async fn run(program: &Path, plan: Plan) -> Result<Outcome> {
    let stage = Stage::set(program, &tables(&plan))?;
    run_on(&stage, plan).await
}

/// The tables of a plan.
#[must_use]
pub fn tables(plan: &Plan) -> String {
    let rows = if let Reads::Rows(rows) = plan.reads { rows } else { 1 };
    format!(
        "CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
         WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < {rows})
         INSERT INTO item SELECT i, 'item ' || i FROM n;
         CREATE TABLE orders (id INTEGER PRIMARY KEY, item INTEGER NOT NULL, quantity INTEGER NOT NULL);
         WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < {orders})
         INSERT INTO orders SELECT i, abs(random()) % 1000, 1 + abs(random()) % 9 FROM n;",
        orders = plan.orders,
    )
}

/// Runs a plan on these servers.
///
/// # Errors
/// When anything fails but a read with [`Busy`].
pub async fn run_on(stage: &Stage, plan: Plan) -> Result<Outcome> {
    let job = Job { servers: stage.servers(), plan };
    let mut workers = try_join_all((0..plan.processes).map(|_| start(stage, &job))).await?;
    let (began, clock) = (epoch_micros(), Instant::now());
    for worker in &mut workers {
        worker.order(&()).await?;
    }
    let done: Vec<Done> = try_join_all(workers.into_iter().map(Worker::finish)).await?;
    let took = clock.elapsed();
    if let Some(error) = done.iter().flat_map(|done| &done.errors).next() {
        return Err(format!("a read failed: {error}").into());
    }
    let mut queries: Vec<_> = done.iter().flat_map(|done| &done.queries).copied().collect();
    queries.sort_unstable();
    let mut reads: Vec<_> = done.iter().flat_map(|done| &done.reads).copied().collect();
    reads.sort_unstable_by_key(|read| read.due);
    let busy = done.iter().map(|done| done.busy).sum();
    Ok(Outcome { plan, reads, queries, busy, expired: expired(stage)?, began, took })
}

/// Starts a worker, which is ready when this returns.
async fn start(stage: &Stage, job: &Job) -> Result<Worker> {
    let mut worker = Worker::start(&stage.program, "cache", job).await?;
    worker.report::<()>().await?;
    Ok(worker)
}

/// How many keys have expired since the server was started.
fn expired(stage: &Stage) -> Result<u64> {
    let stats: String = redis::cmd("INFO").arg("stats").query(&mut stage.redis.client())?;
    let line = stats.lines().find_map(|line| line.strip_prefix("expired_keys:"));
    Ok(line.ok_or("no number of expired keys")?.trim().parse()?)
}

/// A worker's part.
///
/// # Errors
/// Those of the servers.
pub async fn work() -> Result<()> {
    let mut orders = Orders::new();
    let Job { servers, plan } = orders.expect().await?;
    let locks = servers.locks(Duration::from_secs(30)).await?;
    let reader = Arc::new(Reader {
        cache: Cache::new(servers.connect().await?, locks.clone(), plan.times),
        database: Database::open(&servers.database)?,
        plan,
    });
    report(&())?;
    orders.expect::<()>().await?;
    let tasks = (0..plan.tasks).map(|_| tokio::spawn(reader.clone().read_on_and_on()));
    let mut all = Done::default();
    for done in try_join_all(tasks.collect::<Vec<_>>()).await? {
        all.reads.extend(done.reads);
        all.queries.extend(done.queries);
        all.busy += done.busy;
        all.errors.extend(done.errors);
    }
    locks.close().await?;
    report(&all)
}

/// What the tasks of a worker share.
struct Reader {
    cache: Cache,
    database: Database,
    plan: Plan,
}

impl Reader {
    async fn read_on_and_on(self: Arc<Self>) -> Done {
        let mut done = Done::default();
        let begun = tokio::time::Instant::now();
        let epoch = epoch_micros();
        // Tasks are out of step with each other.
        let mut due = self.plan.every.mul_f64(fastrand::f64());
        while due < self.plan.lasts {
            tokio::time::sleep_until(begun + due).await;
            match self.read(&mut done.queries).await {
                Ok(()) => {
                    let took = (begun.elapsed() - due).as_micros() as u64;
                    done.reads.push(Read { due: epoch + due.as_micros() as u64, took });
                }
                Err(error) if error.is::<Busy>() => done.busy += 1,
                Err(error) => {
                    done.errors.push(error.to_string());
                    break;
                }
            }
            due += self.plan.every;
        }
        done
    }

    async fn read(&self, queries: &mut Vec<u64>) -> Result<()> {
        let (key, row) = match self.plan.reads {
            Reads::Hot => ("best sellers".to_owned(), None),
            Reads::Rows(rows) => row(fastrand::u64(..rows)),
            Reads::Absent(rows) => row(1_000_000 + fastrand::u64(..rows)),
        };
        let load = async || {
            queries.push(epoch_micros());
            match row {
                Some(id) => self.name(id).await,
                None => self.best_sellers().await.map(Some),
            }
        };
        let value = match self.plan.way {
            Way::WithoutLock => self.cache.read_without_lock(&key, load).await?,
            Way::OncePerProcess => self.cache.read_once_per_process(&key, load).await?,
            Way::WithLock => self.cache.read(&key, load).await?,
        };
        if value.is_none() == matches!(self.plan.reads, Reads::Absent(_)) {
            Ok(())
        } else {
            Err(format!("{key} is {value:?}").into())
        }
    }

    async fn name(&self, id: u64) -> Result<Option<String>> {
        let name = move |database: &rusqlite::Connection| {
            let mut rows = database.prepare_cached("SELECT name FROM item WHERE id = ?1")?;
            rows.query_map([id], |row| row.get(0))?.next().transpose()
        };
        self.database.run(name).await
    }

    async fn best_sellers(&self) -> Result<String> {
        let add_up = |database: &rusqlite::Connection| {
            let mut rows = database.prepare_cached(
                "SELECT item, sum(quantity) AS sold FROM orders GROUP BY item ORDER BY sold DESC LIMIT 10",
            )?;
            let items = rows.query_map([], |row| row.get(0))?;
            items.collect::<rusqlite::Result<Vec<u64>>>()
        };
        Ok(serde_json::to_string(&self.database.run(add_up).await?)?)
    }
}

fn row(id: u64) -> (String, Option<u64>) {
    (format!("item:{id}"), Some(id))
}

impl Outcome {
    /// The most queries that began within this time.
    #[must_use]
    pub fn most_queries_within(&self, span: Duration) -> usize {
        let span = span.as_micros() as u64;
        let until = |from: u64| self.queries.partition_point(|&at| at < from + span);
        self.queries.iter().enumerate().map(|(n, &at)| until(at) - n).max().unwrap_or(0)
    }

    /// The times of all reads, ascending, in microseconds.
    #[must_use]
    pub fn times(&self) -> Vec<u64> {
        let mut times: Vec<_> = self.reads.iter().map(|read| read.took).collect();
        times.sort_unstable();
        times
    }

    /// The slowest read that was due in each of these spans, as `(seconds, milliseconds)`.
    #[must_use]
    pub fn slowest_of_each(&self, span: Duration) -> Vec<(f64, f64)> {
        let micros = span.as_micros() as u64;
        let mut slowest = vec![0; (self.plan.lasts.as_micros() as u64).div_ceil(micros) as usize];
        for read in &self.reads {
            let at = (read.due.saturating_sub(self.began) / micros) as usize;
            if let Some(slowest) = slowest.get_mut(at) {
                *slowest = read.took.max(*slowest);
            }
        }
        let second = |at: usize| (at as f64 + 0.5) * span.as_secs_f64();
        slowest.iter().enumerate().map(|(at, &took)| (second(at), took as f64 / 1e3)).collect()
    }

    /// A row of a table: reads, queries, p50, p99, the slowest, busy.
    #[must_use]
    pub fn row(&self) -> [String; 6] {
        let times = self.times();
        [
            self.reads.len().to_string(),
            self.queries.len().to_string(),
            time(percentile(&times, 50)),
            time(percentile(&times, 99)),
            time(percentile(&times, 100)),
            self.busy.to_string(),
        ]
    }
}
