//! Clerks in several processes sell one stock. One of them is stopped again and again between its look at the stock and
//! its sale, for longer than its lease.

use std::{path::Path, time::Duration};

use futures::future::try_join_all;
use redisson_lock::{Error, FencedGuard, FencedLock};
use serde::{Deserialize, Serialize};

use super::{Sale, Stamp, Till, tables};
use crate::{
    error::Result,
    stage::{Servers, Stage},
    worker::{Orders, Worker, report},
};

/// How a clerk sells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Way {
    WithoutLock,
    WithLock,
    WithTokens,
    /// By one statement, without a lock.
    ByOneStatement,
}

/// A run.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Plan {
    pub way: Way,
    pub stock: u64,
    /// Clerks beside the one who is stopped.
    pub clerks: usize,
    /// How often that one is stopped.
    pub pauses: u64,
    /// What each other clerk sells during a pause.
    pub sales_in_a_pause: u64,
    pub lease: Duration,
}

/// What a clerk works with.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    pub servers: Servers,
    pub clerk: String,
    pub way: Way,
    pub lease: Duration,
}

/// What a clerk is told.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Task {
    /// So many sales, or until there is nothing left. Reported: how many were sold.
    Sell(u64),
    /// Takes the lock and looks at the stock. Reported when that is done.
    Begin,
    /// Sells what was begun. It does not ask its guard again: a pause may always come right after such a question. Reported: the [`Sale`].
    Finish,
}

/// What came of a run.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    pub plan: Plan,
    /// What customers have bought.
    pub sold: u64,
    /// Sales by the clerk who came back, that were accepted.
    pub late: u64,
    /// The same, refused.
    pub refused: u64,
}

impl Outcome {
    #[must_use]
    pub fn oversold(&self) -> i64 {
        self.sold as i64 - self.plan.stock as i64
    }

    /// A row of a table: the stock, sold, oversold, late sales accepted and refused.
    #[must_use]
    pub fn row(&self) -> [String; 5] {
        let plan = &self.plan;
        [
            plan.stock.to_string(),
            self.sold.to_string(),
            self.oversold().to_string(),
            format!("{} of {}", self.late, plan.pauses),
            format!("{} of {}", self.refused, plan.pauses),
        ]
    }
}

/// Runs a plan on servers of its own.
///
/// # Errors
/// When anything fails.
pub async fn run(program: &Path, plan: Plan) -> Result<Outcome> {
    let stage = Stage::set(program, &tables(plan.stock))?;
    let job =
        |clerk: String| Job { servers: stage.servers(), clerk, way: plan.way, lease: plan.lease };
    let mut sleeper = start(program, &job("the sleeper".into())).await?;
    let jobs: Vec<_> = (1..=plan.clerks).map(|n| job(format!("clerk {n}"))).collect();
    let mut clerks = try_join_all(jobs.iter().map(|job| start(program, job))).await?;
    let (mut late, mut refused) = (0, 0);
    for _ in 0..plan.pauses {
        sleeper.order(&Task::Begin).await?;
        sleeper.report::<()>().await?;
        sleeper.pause()?;
        sleeper.order(&Task::Finish).await?; // it reads this when it goes on
        sell(&mut clerks, plan.sales_in_a_pause).await?; // with a lock: when the lease has ended
        sleeper.resume()?;
        match sleeper.report().await? {
            Sale::Sold => late += 1,
            Sale::Refused => refused += 1,
            Sale::SoldOut => return Err("the stock is too small for this plan".into()),
        }
    }
    sell(&mut clerks, u64::MAX).await?;
    for clerk in clerks.into_iter().chain([sleeper]) {
        clerk.end().await?;
    }
    let sold = Till::open(&stage.database(), "the boss")?.sales()?;
    Ok(Outcome { plan, sold, late, refused })
}

/// Starts a clerk, who is ready when this returns.
///
/// # Errors
/// When it does not start.
pub async fn start(program: &Path, job: &Job) -> Result<Worker> {
    let mut worker = Worker::start(program, "sale", job).await?;
    worker.report::<()>().await?;
    Ok(worker)
}

/// All of them sell at once.
async fn sell(clerks: &mut [Worker], most: u64) -> Result<()> {
    for clerk in &mut *clerks {
        clerk.order(&Task::Sell(most)).await?;
    }
    for clerk in clerks {
        clerk.report::<u64>().await?;
    }
    Ok(())
}

/// A worker's part.
///
/// # Errors
/// Those of the servers.
pub async fn work() -> Result<()> {
    let mut orders = Orders::new();
    let Job { servers, clerk, way, lease } = orders.expect().await?;
    let client = servers.locks(Duration::from_secs(30)).await?;
    let till = Till::open(&servers.database, &clerk)?;
    let mut clerk = Clerk { till, lock: client.fenced_lock("till"), way, lease };
    let mut begun = None;
    report(&())?;
    while let Some(task) = orders.next().await? {
        match task {
            Task::Sell(most) => report(&clerk.sell_up_to(most).await?)?,
            Task::Begin => {
                begun = Some(clerk.begin().await?);
                report(&())?;
            }
            Task::Finish => {
                let (guard, unsold) = begun.take().ok_or("nothing was begun")?;
                report(&clerk.finish(guard, unsold).await?)?;
            }
        }
    }
    Ok(client.close().await?)
}

struct Clerk {
    till: Till,
    lock: FencedLock,
    way: Way,
    lease: Duration,
}

impl Clerk {
    async fn sell_up_to(&mut self, most: u64) -> Result<u64> {
        let mut sold = 0;
        while sold < most {
            let (guard, unsold) = self.begin().await?;
            match self.finish(guard, unsold).await? {
                Sale::Sold => sold += 1,
                Sale::SoldOut => break,
                Sale::Refused => {} // it was slower than its lease: once more
            }
        }
        Ok(sold)
    }

    /// The hold, if there is a lock, and how many are left. `None`: a later holder has entered already.
    async fn begin(&mut self) -> Result<(Option<FencedGuard>, Option<u64>)> {
        match self.way {
            Way::WithoutLock | Way::ByOneStatement => Ok((None, Some(self.till.look()?))),
            Way::WithLock => {
                let guard = self.hold().await?;
                let unsold = self.till.look()?;
                Ok((Some(guard), Some(unsold)))
            }
            Way::WithTokens => {
                let guard = self.hold().await?;
                let unsold = self.till.enter(stamp(&guard))?;
                Ok((Some(guard), unsold))
            }
        }
    }

    async fn hold(&self) -> Result<FencedGuard, Error> {
        loop {
            match self.lock.lock().lease(self.lease).await {
                Err(Error::NotHeld { .. }) => {} // granted, but the lease ended before the answer came
                granted => return granted,
            }
        }
    }

    async fn finish(&mut self, guard: Option<FencedGuard>, unsold: Option<u64>) -> Result<Sale> {
        let sale = match (self.way, unsold) {
            (_, None) => Sale::Refused,
            (Way::ByOneStatement, _) => self.till.sell_if_there_is_one()?,
            (Way::WithoutLock | Way::WithLock, Some(unsold)) => self.till.sell_blindly(unsold)?,
            (Way::WithTokens, Some(unsold)) => {
                let guard = guard.as_ref().ok_or("there is a lock")?;
                self.till.sell(unsold, stamp(guard))?
            }
        };
        drop(guard); // released in the background, if it is still held
        Ok(sale)
    }
}

fn stamp(guard: &FencedGuard) -> Stamp<'_> {
    Stamp { token: guard.token().value(), holder: guard.holder() }
}
