//! [`Items`]: rows of a database, with a copy of each in Redis that never shows less than the database.
//!
//! [`Items::read`] and [`Items::write`] are the pattern. [`Terms`] turns its parts off, for the comparison.

pub mod trial;

use std::{fmt, time::Duration};

use redis::aio::MultiplexedConnection;
use redisson_lock::{Client, ReadWriteLock};
use serde::{Deserialize, Serialize};

use crate::{database::Database, error::Result};

/// A row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    pub id: u64,
    pub price: u64,
    /// How often it was written.
    pub version: u64,
}

/// What a writer does with the copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// It deletes the copy, commits, and writes the new copy.
    DeleteFirst,
    /// It commits, and then deletes the copy.
    CommitFirst,
}

/// How rows and copies are kept.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Terms {
    pub locked: bool,
    pub order: Order,
    /// How long a copy lasts that nobody replaces.
    pub copy_lasts: Duration,
}

/// Reads and writes rows.
#[derive(Clone)]
pub struct Items {
    database: Database,
    redis: MultiplexedConnection,
    locks: Client,
    terms: Terms,
}

impl Items {
    #[must_use]
    pub fn new(
        database: Database,
        redis: MultiplexedConnection,
        locks: Client,
        terms: Terms,
    ) -> Self {
        Self { database, redis, locks, terms }
    }

    fn lock(&self, id: u64) -> ReadWriteLock {
        self.locks.read_write_lock(format!("lock:item:{id}"))
    }

    /// Returns a row. A copy in Redis is returned without a lock.
    ///
    /// # Errors
    /// Those of Redis, of the database and of the lock.
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    pub async fn read(&self, id: u64) -> Result<Item> {
        if let Some(copy) = self.copy(id).await? {
            return Ok(copy);
        }
        if !self.terms.locked {
            return self.fill(id).await;
        }
        let reading = self.lock(id).read().await?; // waits while somebody writes
        let item = reading.while_held(self.fill(id)).await??;
        reading.unlock().await?;
        Ok(item)
    }

    /// Sets the price of a row, and returns the row.
    ///
    /// # Errors
    /// Those of Redis, of the database and of the lock. The price may have been set.
    ///
    /// # Cancel safety
    /// May be dropped at any time. What has begun goes on.
    pub async fn write(&self, id: u64, price: u64) -> Result<Item> {
        if !self.terms.locked {
            return self.change(id, price).await;
        }
        // A task of its own: a caller that is dropped must not release the lock before the commit.
        let items = self.clone();
        tokio::spawn(async move { items.write_alone(id, price).await }).await?
    }

    async fn write_alone(&self, id: u64, price: u64) -> Result<Item> {
        let writing = self.lock(id).write().await?;
        let item = writing.while_held(self.change(id, price)).await??;
        writing.unlock().await?;
        Ok(item)
    }

    async fn fill(&self, id: u64) -> Result<Item> {
        if let Some(copy) = self.copy(id).await? {
            return Ok(copy); // another reader was first
        }
        let item = self.row(id).await?;
        self.put(&item).await?;
        Ok(item)
    }

    async fn change(&self, id: u64, price: u64) -> Result<Item> {
        match self.terms.order {
            Order::DeleteFirst => {
                self.delete(id).await?; // from now on every reader needs the lock
                let item = self.update(id, price).await?;
                self.put(&item).await?;
                Ok(item)
            }
            Order::CommitFirst => {
                let item = self.update(id, price).await?;
                self.delete(id).await?;
                Ok(item)
            }
        }
    }

    /// What the database has.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn row(&self, id: u64) -> Result<Item> {
        let select = move |database: &rusqlite::Connection| {
            let mut row =
                database.prepare_cached("SELECT id, price, version FROM item WHERE id = ?1")?;
            row.query_row([id], item)
        };
        self.database.run(select).await
    }

    async fn update(&self, id: u64, price: u64) -> Result<Item> {
        let update = move |database: &rusqlite::Connection| {
            let mut row = database.prepare_cached(
                "UPDATE item SET price = ?2, version = version + 1 WHERE id = ?1 RETURNING id, price, version",
            )?;
            row.query_row([id, price], item)
        };
        self.database.run(update).await
    }

    /// What Redis has.
    ///
    /// # Errors
    /// Those of Redis.
    pub async fn copy(&self, id: u64) -> Result<Option<Item>> {
        let mut get = redis::cmd("GET");
        let text: Option<String> = get.arg(key(id)).query_async(&mut self.redis.clone()).await?;
        Ok(text.map(|text| serde_json::from_str(&text)).transpose()?)
    }

    async fn put(&self, item: &Item) -> Result<()> {
        let lasts = u64::try_from(self.terms.copy_lasts.as_millis())?;
        let mut set = redis::cmd("SET");
        set.arg(key(item.id)).arg(serde_json::to_string(item)?).arg("PX").arg(lasts);
        Ok(set.exec_async(&mut self.redis.clone()).await?)
    }

    async fn delete(&self, id: u64) -> Result<()> {
        Ok(redis::cmd("DEL").arg(key(id)).exec_async(&mut self.redis.clone()).await?)
    }
}

fn key(id: u64) -> String {
    format!("item:{id}")
}

fn item(row: &rusqlite::Row<'_>) -> rusqlite::Result<Item> {
    Ok(Item { id: row.get(0)?, price: row.get(1)?, version: row.get(2)? })
}

impl fmt::Debug for Items {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Items").field("terms", &self.terms).finish_non_exhaustive()
    }
}
