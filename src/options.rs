//! Option types of the public API: [`SpinBackoff`], [`Replicas`], [`ShardedPubsub`], [`Driver`].

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The options of one lock.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LockOptions {
    pub(crate) backoff: SpinBackoff,
    /// `None`: as the client's configuration says.
    pub(crate) replicas: Option<Replicas>,
    /// A reader does not share its hold with others of this process.
    pub(crate) apart: bool,
}

/// The pauses between the polls of a waiter on a spin lock or a plain lock.
///
/// They double from the first to the longest. Up to half of each pause is random, so that waiters
/// do not poll in step. Among the waiters of one process only the first polls. After each
/// acquisition the pauses start again at the shortest.
///
/// Pauses lie between 100 µs and 60 s, and the first is at most the longest. The acquisition
/// refuses other values with [`Error::Invalid`](crate::Error::Invalid).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "pauses do nothing by themselves: `client.spin_lock_with(name, pauses)`"]
pub struct SpinBackoff {
    pub(crate) first: Duration,
    pub(crate) most: Duration,
}

impl Default for SpinBackoff {
    /// Pauses from 1 ms to 128 ms, as in Redisson.
    fn default() -> Self {
        Self { first: Duration::from_millis(1), most: Duration::from_millis(128) }
    }
}

impl SpinBackoff {
    /// Pauses that double from `first` to `most`.
    pub fn exponential(first: Duration, most: Duration) -> Self {
        Self { first, most }
    }

    /// Pauses that do not grow. Each is between half of `pause` and `pause`, at random.
    pub fn constant(pause: Duration) -> Self {
        Self { first: pause, most: pause }
    }
}

/// How many replicas must confirm a hold before it is granted.
///
/// Redis replicates asynchronously. After a failover the new master may not know a lock that the
/// old one had just granted. Confirmation by replicas (`WAIT`) makes that less likely, but not
/// impossible:
/// - The promoted replica may not be one of those that confirmed. With [`All`](Self::All) it is
///   then one that was not connected to the master at that moment.
/// - After a failover the new master may have no replica for a while. A server that is cut off or
///   came back empty may take itself for a master without replicas. There `All` means none, and
///   `AtLeast(1)` is refused.
/// - Acquisitions and re-entries are confirmed, renewals are not. A promoted replica that missed a
///   renewal frees the lock at the end of the lease before, unless the holder renews it there in
///   time.
///
/// A hold that is [handed off](crate::Config::reuse_holds) or shared was confirmed when it was first granted.
///
/// If the new master missed a release, the lock stays held until its lease ends. That delays
/// others, but does not break exclusion.
///
/// Where two holders must not both write, the storage has to refuse one of them by its
/// [token](crate::FencedGuard::token). After a failover two holders may have the same token. The
/// storage then tells them apart by their holder ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Replicas {
    /// The master's answer is enough.
    #[default]
    None,
    /// At least this many.
    AtLeast(u32),
    /// All replicas that are connected to the master at that moment, which may be none.
    All,
    /// One of the replicas that are connected to the master at that moment, if there is one. All are
    /// asked, and have the [timeout](crate::Config::replica_timeout) to confirm. Redisson:
    /// `checkLockSyncedSlaves`.
    OneOfAll,
}

/// The replicas' answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Acknowledged {
    pub(crate) by: u32,
    pub(crate) needed: u32,
}

impl Acknowledged {
    pub(crate) fn is_enough(self) -> bool {
        self.by >= self.needed
    }
}

/// Whether a cluster's messages use sharded channels (`SPUBLISH`, Redis 7 and later).
///
/// All clients of a lock must use the same. A waiter on the other sort of channel gets no message,
/// and asks the server only every 3 s. Outside a cluster this has no effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ShardedPubsub {
    /// Sharded channels if the cluster supports them, as Redisson decides. The cluster is asked by
    /// `PUBSUB SHARDNUMSUB` when the client connects, and not again. After an upgrade of the cluster from
    /// Redis 6.2 to 7 restart all clients, Redisson's too: those that connected before go on with plain channels.
    /// Plain channels also where `PUBSUB` has another name.
    #[default]
    Auto,
    /// Sharded channels. Redisson: `shardedSubscriptionMode` is `ON`.
    On,
    /// Plain channels. Redisson: `shardedSubscriptionMode` is `OFF`, or does not exist yet.
    Off,
}

/// The library that carries commands and messages to the servers. It has only the drivers whose
/// features are compiled.
///
/// Locks mean the same with each. The crate itself decides what is sent, where, and how often. It
/// sets all timeouts, and reconnects. `docs/drivers.md` of the repository compares them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Driver {
    /// [fred](https://crates.io/crates/fred), with the feature `fred`.
    #[cfg(feature = "fred")]
    Fred,
    /// [redis-rs](https://crates.io/crates/redis), with the feature `redis-rs`.
    #[cfg(feature = "redis-rs")]
    RedisRs,
}

impl Default for Driver {
    /// fred, if it is compiled.
    fn default() -> Self {
        #[cfg(all(feature = "redis-rs", feature = "_driver_from_env"))]
        if std::env::var("DRIVER").is_ok_and(|name| name == "redis-rs") {
            return Self::RedisRs;
        }
        #[cfg(feature = "fred")]
        let driver = Self::Fred;
        #[cfg(all(feature = "redis-rs", not(feature = "fred")))]
        let driver = Self::RedisRs;
        #[cfg(not(any(feature = "fred", feature = "redis-rs")))]
        let driver = unreachable!("this does not compile");
        driver
    }
}

#[cfg(all(test, feature = "redis-rs"))]
mod tests {
    use super::*;

    /// Otherwise `make drivers` would run the tests over fred again.
    #[test]
    fn the_tests_run_over_the_driver_of_the_environment() {
        let wanted = std::env::var("DRIVER").is_ok_and(|name| name == "redis-rs");
        assert_eq!(Driver::default() == Driver::RedisRs, wanted || !cfg!(feature = "fred"));
    }
}
