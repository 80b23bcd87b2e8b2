//! This crate, with and without local hand-off, and over the other driver.

use std::time::Instant;

use redisson_lock::{Client, Config, Driver, Lock};

use super::lock_client::LockClient;

pub(super) struct Ours(Client);

pub(super) struct OursAlone(Client);

pub(super) struct OursOverRedisRs(Client);

pub(super) async fn client(config: Config) -> Client {
    Client::connect(config).await.expect("a client")
}

pub(super) fn config(url: &str) -> Config {
    Config::from_url(url).expect("a URL")
}

async fn turn(lock: &Lock) -> Result<Instant, String> {
    let guard = lock.lock().await.map_err(|error| error.to_string())?;
    let granted = Instant::now();
    guard.unlock().await.map_err(|error| error.to_string())?;
    Ok(granted)
}

impl LockClient for Ours {
    type Lock = Lock;

    async fn connect(url: &str) -> Self {
        Self(client(config(url)).await)
    }

    fn lock(&self, name: &str) -> Lock {
        self.0.lock(name)
    }

    async fn turn(lock: &Lock) -> Result<Instant, String> {
        turn(lock).await
    }
}

impl LockClient for OursAlone {
    type Lock = Lock;

    async fn connect(url: &str) -> Self {
        Self(client(config(url).pass_on(false)).await)
    }

    fn lock(&self, name: &str) -> Lock {
        self.0.lock(name)
    }

    async fn turn(lock: &Lock) -> Result<Instant, String> {
        turn(lock).await
    }
}

impl LockClient for OursOverRedisRs {
    type Lock = Lock;

    async fn connect(url: &str) -> Self {
        Self(client(config(url).driver(Driver::RedisRs)).await)
    }

    fn lock(&self, name: &str) -> Lock {
        self.0.lock(name)
    }

    async fn turn(lock: &Lock) -> Result<Instant, String> {
        turn(lock).await
    }
}
