//! Many owners that acquire and release a lock repeatedly, for a given time.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use redisson_lock::{Client, ExpirablePermit, ExpirableSemaphore, Permit, Semaphore};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::Barrier;
use tokio::task::{JoinSet, yield_now};
use tokio::time::sleep;

use crate::answers::Failure;
use crate::counter::{Counter, Counters};
use crate::latencies::{Latencies, Summary};
use crate::locks::{AnyGuard, AnyLock, Terms};
use crate::request::{Kind, Request};
use crate::room::Room;
use crate::synchronizers;

const FIRST_BACKOFF: Duration = Duration::from_millis(10);
const LAST_BACKOFF: Duration = Duration::from_millis(500);
/// Timers tell no shorter times apart.
const TICK: Duration = Duration::from_millis(1);

/// What a loop is to do.
#[derive(Debug)]
pub(crate) struct Plan {
    /// One a owner.
    locks: Vec<LoopLocks>,
    time: Duration,
    hold: Duration,
    counter: Option<(String, u64)>,
    room: Option<String>,
}

/// The locks of a loop's owner.
#[derive(Debug)]
enum LoopLocks {
    None,
    One {
        lock: AnyLock,
        terms: Terms,
    },
    Both {
        read: AnyLock,
        write: AnyLock,
        terms: Terms,
        write_percent: u8,
    },
    /// One permit a turn.
    Semaphore {
        semaphore: Semaphore,
        wait: Option<Duration>,
    },
    /// One permit with a lease a turn.
    Leased {
        semaphore: ExpirableSemaphore,
        wait: Option<Duration>,
        lease: Option<Duration>,
    },
}

/// What an owner has to give back at the end of its turn.
#[derive(Debug)]
enum Held {
    Nothing,
    Lock(AnyGuard),
    Permit(Permit),
    Leased(ExpirablePermit),
}

/// What an owner does with the lock in one turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Read,
    Write,
}

/// What a loop answers; the names of the fields are those of the answer.
#[derive(Debug, Serialize)]
struct Report {
    acquired: usize,
    refused: usize,
    errors: usize,
    counted: u64,
    torn: usize,
    overlaps: usize,
    min_per_owner: usize,
    max_per_owner: usize,
    acquire_us: Summary,
    release_us: Summary,
    reads: usize,
    writes: usize,
    read_us: Summary,
    write_us: Summary,
}

#[derive(Debug)]
struct LoopOwner {
    locks: LoopLocks,
    counter: Option<Counter>,
    room: Option<Room>,
    hold: Duration,
    reads: Latencies,
    /// Those of all acquisitions, but of a read/write lock only of the write lock.
    writes: Latencies,
    releases: Latencies,
    refused: usize,
    errors: usize,
    torn: usize,
    counter_reached: bool,
}

impl Plan {
    pub(crate) fn of(request: &Request, client: &Client) -> Result<Self, Failure> {
        if request.until.is_some() && request.counter.is_none() {
            return Err(Failure::invalid("until needs a counter"));
        }
        let write_percent = request.write_percent()?;
        let locks = |number: usize| LoopLocks::of(request, client, number, write_percent);
        Ok(Self {
            locks: (0..request.owners()?).map(locks).collect::<Result<_, Failure>>()?,
            time: request.time()?,
            hold: request.hold(),
            counter: request.counter.clone().map(|key| (key, request.until.unwrap_or(u64::MAX))),
            room: request.room()?.map(Into::into),
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
    for locks in plan.locks {
        let counter = match &plan.counter {
            Some((key, until)) => Some(counters.counter(key, *until).await?),
            None => None,
        };
        let room = match &plan.room {
            Some(key) => Some(counters.room(key).await?),
            None => None,
        };
        owners.push(LoopOwner::new(locks, counter, room, plan.hold));
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

impl LoopLocks {
    fn of(
        request: &Request,
        client: &Client,
        number: usize,
        write_percent: Option<u8>,
    ) -> Result<Self, Failure> {
        if request.kind == Kind::None {
            return Ok(Self::None);
        }
        let mut names = request.names()?;
        if request.each {
            names.iter_mut().for_each(|name| *name = format!("{name}:{number}"));
        }
        if request.kind == Kind::Semaphore {
            let semaphore = client.semaphore(&names[0]);
            return Ok(Self::Semaphore { semaphore, wait: request.wait() });
        }
        if request.kind == Kind::ExpirableSemaphore {
            let semaphore = client.expirable_semaphore(&names[0]);
            return Ok(Self::Leased { semaphore, wait: request.wait(), lease: request.lease() });
        }
        let lock = |kind| AnyLock::named(client, kind, &names);
        let terms = Terms::of(request);
        Ok(match write_percent {
            None => Self::One { lock: lock(request.kind)?, terms },
            Some(write_percent) => Self::Both {
                read: lock(Kind::Read)?,
                write: lock(Kind::Write)?,
                terms,
                write_percent,
            },
        })
    }

    fn next_turn(&self) -> Turn {
        match self {
            Self::Both { write_percent, .. } if dice() >= *write_percent => Turn::Read,
            _ => Turn::Write,
        }
    }

    /// `None`: refused.
    async fn acquire(&self, turn: Turn) -> Result<Option<Held>, Failure> {
        let (lock, terms) = match self {
            Self::None => return Ok(Some(Held::Nothing)),
            Self::Semaphore { semaphore, wait } => {
                let permit = match wait {
                    None => Some(semaphore.acquire(1).await?),
                    Some(wait) => semaphore.try_acquire(1).wait(*wait).await?,
                };
                return Ok(permit.map(Held::Permit));
            }
            Self::Leased { semaphore, wait, lease } => {
                let permit = synchronizers::take_leased(semaphore, 1, *wait, *lease).await?;
                return Ok(permit.map(Held::Leased));
            }
            Self::One { lock, terms } => (lock, terms),
            Self::Both { read, write, terms, .. } => {
                (if turn == Turn::Read { read } else { write }, terms)
            }
        };
        Ok(lock.acquire(None, *terms).await?.map(Held::Lock))
    }
}

impl Held {
    async fn give_back(self) -> Result<(), Failure> {
        match self {
            Self::Nothing => {}
            Self::Lock(guard) => guard.unlock().await?,
            Self::Permit(permit) => permit.release().await?,
            Self::Leased(permit) => permit.release().await?,
        }
        Ok(())
    }
}

impl LoopOwner {
    fn new(locks: LoopLocks, counter: Option<Counter>, room: Option<Room>, hold: Duration) -> Self {
        Self {
            locks,
            counter,
            room,
            hold,
            reads: Latencies::default(),
            writes: Latencies::default(),
            releases: Latencies::default(),
            refused: 0,
            errors: 0,
            torn: 0,
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
        let turn = self.locks.next_turn();
        let Some(held) = self.locks.acquire(turn).await? else {
            self.refused += 1;
            return Ok(());
        };
        match turn {
            Turn::Read => self.reads.add_since(start),
            Turn::Write => self.writes.add_since(start),
        }
        let used = match turn {
            Turn::Read => self.read().await,
            Turn::Write => self.write().await,
        };
        let start = Instant::now();
        held.give_back().await?;
        self.releases.add_since(start);
        used
    }

    async fn write(&mut self) -> Result<(), Failure> {
        if let Some(room) = &mut self.room {
            room.enter().await?;
        }
        let counted = self.count().await;
        if let Some(room) = &mut self.room {
            room.leave().await?;
        }
        counted
    }

    async fn count(&mut self) -> Result<(), Failure> {
        if let Some(counter) = &mut self.counter {
            self.counter_reached = !counter.count().await?;
        }
        if !self.counter_reached {
            pass(self.hold).await;
        }
        Ok(())
    }

    async fn read(&mut self) -> Result<(), Failure> {
        if let Some(counter) = &mut self.counter {
            counter.read().await?;
        }
        pass(self.hold).await;
        if let Some(counter) = &mut self.counter {
            self.torn += usize::from(counter.is_torn().await?);
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

/// From 0 to 99. Anything will do that is not in step with other owners.
fn dice() -> u8 {
    let hash = RandomState::new().hash_one(());
    u8::try_from(hash % 100).expect("less than 100")
}

impl Report {
    fn of(owners: Vec<LoopOwner>) -> Self {
        let acquired = || owners.iter().map(|owner| owner.reads.count() + owner.writes.count());
        let (reads, writes) =
            (owners.iter().map(|owner| &owner.reads), owners.iter().map(|owner| &owner.writes));
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
            torn: owners.iter().map(|owner| owner.torn).sum(),
            overlaps: owners
                .iter()
                .filter_map(|owner| owner.room.as_ref())
                .map(Room::overlaps)
                .sum(),
            acquire_us: Latencies::summary(reads.clone().chain(writes.clone())),
            release_us: Latencies::summary(owners.iter().map(|owner| &owner.releases)),
            reads: reads.clone().map(Latencies::count).sum(),
            writes: writes.clone().map(Latencies::count).sum(),
            read_us: Latencies::summary(reads),
            write_us: Latencies::summary(writes),
        }
    }
}
