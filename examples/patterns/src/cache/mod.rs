//! [`Cache`]: values of a database, kept in Redis for a while. When one expires, one caller rebuilds it.
//!
//! [`Cache::read`] is the pattern. [`Cache::read_without_lock`] and [`Cache::read_once_per_process`] are what it is
//! compared with.

pub mod trial;

use std::{collections::HashMap, fmt, sync::Mutex, time::Duration};

use redis::aio::MultiplexedConnection;
use redisson_lock::Client;
use serde::{Deserialize, Serialize};

use crate::error::Result;

/// How long things last.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Times {
    /// For how long a value is served without a rebuild.
    pub fresh: Duration,
    /// Each value is fresh for up to this longer, at random: values that were written together do not expire together.
    pub jitter: Duration,
    /// For how long after that it may be served while another rebuilds it.
    pub stale: Duration,
    /// For how long it is known that there is no such row. `None`: that is not kept.
    pub empty: Option<Duration>,
    /// For how long a caller without any value waits for the one who rebuilds it.
    pub wait: Duration,
}

/// Reads a value and rebuilds it when needed.
pub struct Cache {
    redis: MultiplexedConnection,
    locks: Client,
    times: Times,
    /// Who rebuilds what in this process: for [`Cache::read_once_per_process`] alone.
    flights: Mutex<HashMap<String, std::sync::Arc<tokio::sync::Mutex<()>>>>,
}

/// What the cache has.
enum Found {
    Fresh(Option<String>),
    Stale(Option<String>),
    Nothing,
}

/// There is no value, and the caller who rebuilds it has not come to an end in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;

/// Stands for a row that does not exist. A value begins with [`VALUE`].
const EMPTY: &str = "-";
const VALUE: &str = "+";

impl Cache {
    #[must_use]
    pub fn new(redis: MultiplexedConnection, locks: Client, times: Times) -> Self {
        Self { redis, locks, times, flights: Mutex::default() }
    }

    /// Returns the value of this key, or `None` if there is no such row. `load` asks the database.
    ///
    /// # Errors
    /// [`Busy`], and those of Redis and of `load`. Not while there is a stale value: that is returned then. A real program
    /// logs why.
    ///
    /// # Cancel safety
    /// May be dropped at any time. A lock that it has is released in the background.
    pub async fn read(
        &self,
        key: &str,
        load: impl AsyncFnOnce() -> Result<Option<String>>,
    ) -> Result<Option<String>> {
        let (stale, wait) = match self.look(key).await? {
            Found::Fresh(value) => return Ok(value),
            Found::Stale(value) => (Some(value), Duration::ZERO), // served if another rebuilds
            Found::Nothing => (None, self.times.wait),
        };
        match (self.rebuild(key, wait, load).await, stale) {
            (Err(_), Some(value)) => Ok(value), // an error of the lock or the database, too
            (rebuilt, _) => rebuilt,
        }
    }

    async fn rebuild(
        &self,
        key: &str,
        wait: Duration,
        load: impl AsyncFnOnce() -> Result<Option<String>>,
    ) -> Result<Option<String>> {
        let lock = self.locks.lock(format!("rebuild:{key}"));
        let guard = lock.try_lock().wait(wait).await?;
        // Another may have rebuilt it while this one waited, or still has the lock.
        if let Found::Fresh(value) = self.look(key).await? {
            return Ok(value);
        }
        let Some(_guard) = guard else { return Err(Busy.into()) };
        let value = load().await?;
        self.keep(key, value.as_deref()).await?;
        Ok(value) // the guard is dropped: the lock is released in the background
    }

    /// The same without a lock.
    ///
    /// # Errors
    /// Those of Redis and of `load`.
    pub async fn read_without_lock(
        &self,
        key: &str,
        load: impl AsyncFnOnce() -> Result<Option<String>>,
    ) -> Result<Option<String>> {
        if let Found::Fresh(value) = self.look(key).await? {
            return Ok(value);
        }
        let value = load().await?;
        self.keep(key, value.as_deref()).await?;
        Ok(value)
    }

    /// The same with a lock of this process: each process rebuilds once.
    ///
    /// # Errors
    /// Those of Redis and of `load`.
    pub async fn read_once_per_process(
        &self,
        key: &str,
        load: impl AsyncFnOnce() -> Result<Option<String>>,
    ) -> Result<Option<String>> {
        if let Found::Fresh(value) = self.look(key).await? {
            return Ok(value);
        }
        let flight =
            self.flights.lock().expect("no panic").entry(key.to_owned()).or_default().clone();
        let _alone = flight.lock().await;
        self.read_without_lock(key, load).await
    }

    /// One round trip. The server's clock decides what is fresh: those of the callers may differ.
    async fn look(&self, key: &str) -> Result<Found> {
        let mut both = redis::pipe();
        both.atomic().get(key).pttl(key);
        let (text, left): (Option<String>, i64) = both.query_async(&mut self.redis.clone()).await?;
        let Some(text) = text else { return Ok(Found::Nothing) };
        let value = text.strip_prefix(VALUE).map(str::to_owned);
        let is_fresh = left > millis(self.times.stale);
        Ok(if is_fresh { Found::Fresh(value) } else { Found::Stale(value) })
    }

    async fn keep(&self, key: &str, value: Option<&str>) -> Result<()> {
        let Times { fresh, jitter, stale, empty, .. } = self.times;
        let (text, lasts) = match (value, empty) {
            (Some(value), _) => {
                (format!("{VALUE}{value}"), fresh + jitter.mul_f64(fastrand::f64()))
            }
            (None, Some(empty)) => (EMPTY.to_owned(), empty),
            (None, None) => return Ok(()),
        };
        let mut set = redis::cmd("SET");
        set.arg(key).arg(text).arg("PX").arg(millis(lasts + stale));
        Ok(set.exec_async(&mut self.redis.clone()).await?)
    }
}

fn millis(time: Duration) -> i64 {
    time.as_millis().try_into().unwrap_or(i64::MAX)
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").field("times", &self.times).finish_non_exhaustive()
    }
}

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the value is being rebuilt, and was not ready in time")
    }
}

impl std::error::Error for Busy {}
