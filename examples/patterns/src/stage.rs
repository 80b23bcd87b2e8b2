//! [`Stage`]: a Redis server and a database, both new, for one trial.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use harness::RedisServer;
use redis::{AsyncConnectionConfig, aio::MultiplexedConnection};
use redisson_lock::Config;
use serde::{Deserialize, Serialize};

use crate::{database, error::Result};

/// Gone when dropped.
#[derive(Debug)]
pub struct Stage {
    /// This program, of which the workers are processes.
    pub program: PathBuf,
    pub redis: RedisServer,
    directory: tempfile::TempDir,
}

/// What a worker connects to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Servers {
    pub redis: String,
    pub database: PathBuf,
}

impl Stage {
    /// Starts a `redis-server` on a free port, and makes a database with these tables and rows.
    ///
    /// # Errors
    /// Those of SQLite and of the file system.
    ///
    /// # Panics
    /// When there is no `redis-server`.
    pub fn set(program: &Path, sql: &str) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let stage = Self { program: program.to_owned(), redis: RedisServer::start(), directory };
        database::create(&stage.database(), sql)?;
        Ok(stage)
    }

    /// The database's file.
    #[must_use]
    pub fn database(&self) -> PathBuf {
        self.directory.path().join("shop.sqlite")
    }

    #[must_use]
    pub fn servers(&self) -> Servers {
        Servers { redis: self.redis.url(), database: self.database() }
    }
}

impl Servers {
    /// A connection whose commands wait as long as the process lives: a machine that stands still for a while, or a
    /// network that is away, is no error in a trial.
    ///
    /// # Errors
    /// When the server does not let it in.
    pub async fn connect(&self) -> Result<MultiplexedConnection> {
        let patient = AsyncConnectionConfig::new();
        let patient = patient.set_response_timeout(None).set_connection_timeout(None);
        let client = redis::Client::open(self.redis.as_str())?;
        Ok(client.get_multiplexed_async_connection_with_config(&patient).await?)
    }

    /// A client for locks, as patient.
    ///
    /// # Errors
    /// When the server does not let it in.
    pub async fn locks(&self, watchdog: Duration) -> Result<redisson_lock::Client> {
        let minute = Duration::from_secs(60);
        let config = Config::from_url(&self.redis)?.watchdog(watchdog);
        Ok(redisson_lock::Client::connect(config.command_timeout(minute).retry_timeout(minute))
            .await?)
    }
}
