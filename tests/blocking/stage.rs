//! The setting of each test: a server and clients, seen from a thread.

use std::{
    thread,
    time::{Duration, Instant},
};

use harness::{Inspector, PATIENCE, RedisServer, assert_nothing_left};
use redisson_lock::{Config, Error, Loss, blocking::Client};
use tokio::runtime::{Builder, Runtime};

pub(crate) const LOCK: &str = "order:42";

/// Much longer than anything here may take.
pub(crate) const LEASE: Duration = Duration::from_secs(600);

pub(crate) struct Stage {
    pub(crate) server: RedisServer,
    pub(crate) redis: Inspector,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let server = RedisServer::start();
        Self { redis: server.inspector(), server }
    }

    pub(crate) fn config(&self) -> Config {
        Config::from_url(self.server.url()).unwrap()
    }

    pub(crate) fn client(&self) -> Client {
        connect(&self.config())
    }

    /// Waits until the lock is not held.
    pub(crate) fn free(&self, lock: &str) {
        eventually("the lock to be free", || (!self.redis.exists(lock)).then_some(()));
    }

    /// The last line of a test: the clients close in peace and nothing is left.
    pub(crate) fn end(&self, clients: impl IntoIterator<Item = Client>) {
        for client in clients {
            client.close().unwrap();
        }
        flavour_of_one_thread().block_on(assert_nothing_left(&self.server));
    }
}

/// Connects; on a busy machine perhaps not at the first try.
pub(crate) fn connect(config: &Config) -> Client {
    let mut last = None;
    for _ in 0..5 {
        match Client::connect(config.clone()) {
            Ok(client) => return client,
            Err(error) => last = Some(error),
        }
    }
    panic!("cannot connect: {last:?}");
}

/// Looks until `look` sees something.
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(begun.elapsed() < PATIENCE, "waited {PATIENCE:?} in vain for {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

pub(crate) fn flavour_of_one_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// A runtime of each flavour.
pub(crate) fn flavours() -> [Runtime; 2] {
    let many = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    [many, flavour_of_one_thread()]
}

pub(crate) fn why_not_held<T: std::fmt::Debug>(result: Result<T, Error>) -> Loss {
    match result {
        Err(Error::NotHeld { why }) => why,
        other => panic!("not a lock that is not held, but {other:?}"),
    }
}
