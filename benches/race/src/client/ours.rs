//! This crate, with and without local hand-off, and over the other driver.

use std::time::Instant;

use redisson_lock::{Client, Config, Driver, Lock, LockGuard};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::{
    job::{Job, Request},
    lock_client::LockClient,
};

pub(super) struct Ours(Client);

pub(super) struct OursAlone(Client);

pub(super) struct OursOverRedisRs(Client);

/// Holders and waiters that do what they are asked at once, as a program would. The test peer first sends each request to the
/// task of its owner.
pub(super) struct OurWakeups {
    client: Client,
    guard: Mutex<Option<LockGuard>>,
}

impl OurWakeups {
    pub(super) async fn connect(url: &str, driver: Driver) -> Self {
        Self { client: client(config(url).driver(driver)).await, guard: Mutex::default() }
    }
}

impl Job for OurWakeups {
    async fn perform(&self, request: Request) -> Value {
        match request.op.as_str() {
            "lock" => {
                let guard = self.client.lock(request.name).lock().await.expect("its turn");
                *self.guard.lock().await = Some(guard);
            }
            "unlock" => {
                let guard = self.guard.lock().await.take().expect("it holds the lock");
                guard.unlock().await.expect("a release");
            }
            _ => panic!("{request:?}"),
        }
        json!(true)
    }
}

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
        Self(client(config(url).reuse_holds(false)).await)
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
