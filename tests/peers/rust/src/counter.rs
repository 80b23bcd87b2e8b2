//! A decimal number in Redis that is incremented by a GET and a SET: wrong at once if two do so at the same time.

use redis::{RedisError, cmd};
use tokio::sync::OnceCell;

use crate::answers::Failure;
use crate::connection::Connection;
use crate::room::Room;

/// The counters of one server. Connects when the first is used.
#[derive(Debug)]
pub(crate) struct Counters {
    url: Option<String>,
    prefix: String,
    connection: OnceCell<Connection>,
}

/// One owner's view of a counter.
#[derive(Debug)]
pub(crate) struct Counter {
    connection: Connection,
    key: String,
    until: u64,
    counted: u64,
    seen: Option<u64>,
}

impl Counters {
    pub(crate) fn new(url: Option<String>, prefix: String) -> Self {
        Self { url, prefix, connection: OnceCell::new() }
    }

    pub(crate) async fn counter(&self, name: &str, until: u64) -> Result<Counter, Failure> {
        let (connection, key) = (self.connection().await?, self.key(name));
        Ok(Counter { connection, key, until, counted: 0, seen: None })
    }

    pub(crate) async fn room(&self, name: &str) -> Result<Room, Failure> {
        Ok(Room::new(self.connection().await?, self.key(name)))
    }

    async fn connection(&self) -> Result<Connection, Failure> {
        let url = self.url.as_ref();
        let url = url.ok_or_else(|| Failure::invalid("counters need --redis or --counters"))?;
        Ok(self.connection.get_or_try_init(|| Connection::open(url)).await?.clone())
    }

    fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }
}

impl Counter {
    /// Adds one; false when the number has been reached that it counts to.
    pub(crate) async fn count(&mut self) -> Result<bool, RedisError> {
        let number = self.get().await?.unwrap_or(0);
        if number >= self.until {
            return Ok(false);
        }
        cmd("SET").arg(&self.key).arg(number + 1).exec_async(&mut self.connection.0).await?;
        self.counted += 1;
        Ok(true)
    }

    /// Remembers the number, for [`Self::is_torn`].
    pub(crate) async fn read(&mut self) -> Result<(), RedisError> {
        self.seen = self.get().await?;
        Ok(())
    }

    /// Whether somebody has counted since [`Self::read`].
    pub(crate) async fn is_torn(&mut self) -> Result<bool, RedisError> {
        Ok(self.get().await? != self.seen)
    }

    async fn get(&mut self) -> Result<Option<u64>, RedisError> {
        cmd("GET").arg(&self.key).query_async(&mut self.connection.0).await
    }

    pub(crate) fn counted(&self) -> u64 {
        self.counted
    }
}
