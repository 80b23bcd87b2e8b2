//! The server that all clients of a test share.

use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use harness::{Inspector, Messages, RedisServer};

use crate::engine::Subscriptions;

/// How long one way over the network takes.
pub(crate) const ONE_WAY: Duration = Duration::from_millis(3);

/// A real server, and who listens there.
pub(crate) struct World {
    pub(super) server: RedisServer,
    pub(super) inspector: Mutex<Inspector>,
    listeners: Mutex<Vec<Listener>>,
}

/// One client's subscription.
pub(super) struct Listener {
    /// How much longer messages to it take.
    pub(super) late_by: Arc<Mutex<Duration>>,
    pub(super) client: Arc<Subscriptions>,
    pub(super) channel: String,
    pub(super) messages: Messages,
}

impl World {
    pub(super) fn new() -> Arc<Self> {
        let server = RedisServer::start();
        let inspector = Mutex::new(server.inspector());
        Arc::new(Self { server, inspector, listeners: Mutex::default() })
    }

    /// What a client that was closed did not release.
    pub(super) fn forget(&self, lock: &str) {
        self.inspector.lock().unwrap().query::<()>(redis::cmd("DEL").arg(lock));
    }

    /// A master that knows of this hold, and of nothing since.
    pub(super) fn forget_since(&self, lock: &str, holder: &str) {
        let inspector = self.inspector.lock().unwrap();
        inspector.query::<()>(redis::cmd("DEL").arg(lock));
        inspector.query::<()>(redis::cmd("HSET").arg(lock).arg(holder).arg(1));
        inspector.query::<()>(redis::cmd("PEXPIRE").arg(lock).arg(3_600_000));
    }

    pub(super) fn pttl(&self, key: &str) -> i64 {
        self.inspector.lock().unwrap().query(redis::cmd("PTTL").arg(key))
    }

    pub(super) fn write(&self, key: &str, value: &str) {
        self.inspector.lock().unwrap().query::<()>(redis::cmd("SET").arg(key).arg(value));
    }

    pub(super) fn listeners(&self) -> MutexGuard<'_, Vec<Listener>> {
        self.listeners.lock().unwrap()
    }
}
