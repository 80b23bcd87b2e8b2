//! [`Settings`]: the values of a [`Config`](super::Config), checked.

use std::time::Duration;

use crate::options::{Replicas, ShardedPubsub};

/// Cuts to whole milliseconds, the server's unit. A lease is trusted for no longer than the server
/// was told.
pub(crate) fn whole_ms(duration: Duration) -> Duration {
    Duration::from_millis(duration.as_millis() as u64)
}

/// A checked configuration.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The name of the server or servers. It is equal for all clients that name them alike.
    pub(crate) server: String,
    pub(crate) prefix: String,
    pub(crate) watchdog: Duration,
    pub(crate) command_timeout: Duration,
    pub(crate) retry_timeout: Duration,
    pub(crate) fair_wait: Duration,
    pub(crate) redisson_fair_wait: Duration,
    pub(crate) sharded_pubsub: ShardedPubsub,
    pub(crate) replicas: Replicas,
    pub(crate) replica_timeout: Duration,
    pub(crate) pass_on: bool,
}
