//! Other lock crates, each used as its documentation says, with a lease of 30 s.

use std::{sync::Arc, time::Instant};

use redis_lock::{LockAcrossOptions, lock_across};
use redis_of_redis_lock::{Client as RedisClient, aio::MultiplexedConnection};
use rlock::AcquireOptions;
use rslock::LockManager;
use tokio::sync::Mutex;

use super::{job::LEASE, lock_client::LockClient};

pub(super) struct RsLock(LockManager);

pub(super) struct RLock(rlock::async_lock::RLock);

pub(super) struct RedisLock(MultiplexedConnection);

pub(super) struct RedLock(redlock::RedLock);

impl LockClient for RsLock {
    type Lock = (LockManager, String);

    async fn connect(url: &str) -> Self {
        Self(LockManager::new(vec![url]))
    }

    fn lock(&self, name: &str) -> Self::Lock {
        (self.0.clone(), name.into())
    }

    async fn turn((manager, name): &Self::Lock) -> Result<Instant, String> {
        let guard = manager.acquire(name.as_str(), LEASE).await.map_err(told)?;
        let granted = Instant::now();
        guard.release().await;
        Ok(granted)
    }
}

impl LockClient for RLock {
    type Lock = (rlock::async_lock::RLock, String);

    async fn connect(url: &str) -> Self {
        Self(rlock::async_lock::RLock::new(url).await.expect("a connection"))
    }

    fn lock(&self, name: &str) -> Self::Lock {
        (self.0.clone(), name.into())
    }

    async fn turn((client, name): &Self::Lock) -> Result<Instant, String> {
        let options = AcquireOptions::builder().ttl(LEASE).build().map_err(told)?;
        let mut guard = client.acquire_mutex_with_options(name, options).await.map_err(told)?;
        let granted = Instant::now();
        guard.release().await.map_err(told)?;
        Ok(granted)
    }
}

/// `lock_across`, as its documentation advises for a single lock. Each owner has a handle of the one connection, so
/// that their commands travel together.
impl LockClient for RedisLock {
    type Lock = ([Arc<Mutex<MultiplexedConnection>>; 1], String);

    async fn connect(url: &str) -> Self {
        let client = RedisClient::open(url).expect("a URL");
        Self(client.get_multiplexed_async_connection().await.expect("a connection"))
    }

    fn lock(&self, name: &str) -> Self::Lock {
        ([Arc::new(Mutex::new(self.0.clone()))], name.into())
    }

    async fn turn((connections, name): &Self::Lock) -> Result<Instant, String> {
        let options = LockAcrossOptions { ttl: LEASE, ..LockAcrossOptions::default() };
        lock_across(connections, name, async { Instant::now() }, options).await.map_err(told)
    }
}

/// Connects for every command, and blocks.
impl LockClient for RedLock {
    type Lock = (redlock::RedLock, String);

    const BLOCKS: bool = true;

    async fn connect(url: &str) -> Self {
        Self(redlock::RedLock::new(vec![url]))
    }

    fn lock(&self, name: &str) -> Self::Lock {
        (self.0.clone(), name.into())
    }

    async fn turn((manager, name): &Self::Lock) -> Result<Instant, String> {
        let lease = LEASE.as_millis().try_into().expect("a lease");
        let guard = manager.acquire(name.as_bytes(), lease).map_err(told)?;
        let granted = Instant::now();
        drop(guard);
        Ok(granted)
    }
}

fn told(error: impl std::fmt::Display) -> String {
    error.to_string()
}
