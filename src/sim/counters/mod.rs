//! Semaphores and latches: futures that are dropped at any moment, replies that are lost, and waiters
//! of different sizes.

mod cuts;
mod late;
mod leased;
mod leases;
mod random;
mod unpolled;
mod values;
mod waiters;

use harness::redis::cmd;

use super::{Sim, ms};
use crate::{CountDownLatch, ExpirableSemaphore, Semaphore};

pub(super) const NAME: &str = "pool";
pub(super) const CHANNEL: &str = "redisson_sc:{pool}";
pub(super) const GATE: &str = "redisson_countdownlatch__channel__{pool}";
pub(super) const REQUESTS: &str = "redisson_lock_requests:{pool}";

impl Sim {
    pub(super) fn pool(&self) -> Semaphore {
        self.client.semaphore(NAME)
    }

    pub(super) fn leased(&self) -> ExpirableSemaphore {
        self.client.expirable_semaphore(NAME)
    }

    pub(super) fn gate(&self) -> CountDownLatch {
        self.client.count_down_latch(NAME)
    }

    /// The value on the server, once everything that was begun has come to rest. Nobody may listen
    /// then.
    pub(super) async fn at_rest(&self) -> Option<i64> {
        let left = self.left().await;
        let ours = |key: &String| key == NAME || key.starts_with("redisson_lock_requests:");
        let other: Vec<_> = left.iter().filter(|key| !ours(key)).collect();
        assert!(other.is_empty(), "left {other:?}");
        self.value()
    }

    pub(super) fn value(&self) -> Option<i64> {
        self.world.inspector.lock().unwrap().query(cmd("GET").arg(NAME))
    }

    /// How many ids of requests the server keeps.
    pub(super) fn requests(&self) -> i64 {
        self.world.inspector.lock().unwrap().query(cmd("ZCARD").arg(REQUESTS))
    }

    pub(super) fn publish(&self, channel: &str, message: &str) {
        let inspector = self.world.inspector.lock().unwrap();
        inspector.query::<()>(cmd("PUBLISH").arg(channel).arg(message));
    }
}
