//! A room with a counter at its door: each that enters learns whether another is inside.

use redis::{RedisError, cmd};

use crate::connection::Connection;

/// One owner's view of it.
#[derive(Debug)]
pub(crate) struct Room {
    connection: Connection,
    key: String,
    overlaps: usize,
}

impl Room {
    pub(crate) fn new(connection: Connection, key: String) -> Self {
        Self { connection, key, overlaps: 0 }
    }

    /// Comes in.
    pub(crate) async fn enter(&mut self) -> Result<(), RedisError> {
        let inside: i64 = cmd("INCR").arg(&self.key).query_async(&mut self.connection.0).await?;
        self.overlaps += usize::from(inside != 1);
        Ok(())
    }

    /// Goes out.
    pub(crate) async fn leave(&mut self) -> Result<(), RedisError> {
        cmd("DECR").arg(&self.key).exec_async(&mut self.connection.0).await
    }

    /// How often it found somebody inside.
    pub(crate) fn overlaps(&self) -> usize {
        self.overlaps
    }
}
