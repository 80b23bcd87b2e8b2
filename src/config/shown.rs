//! What a [`Config`] shows: the values that are no secrets.

use std::{collections::BTreeMap, fmt, time::Duration};

use super::Config;
use crate::options::{Replicas, ShardedPubsub};

impl Config {
    /// The scheme and the servers of the URL, without its user and its password.
    pub fn get_server(&self) -> String {
        self.deployment().map_or("(unusable URL)".into(), |it| it.shown())
    }

    /// The value of [`nat_map`](Self::nat_map).
    pub fn get_nat_map(&self) -> &BTreeMap<String, String> {
        &self.nat_map
    }

    /// The value of [`prefix`](Self::prefix).
    pub fn get_prefix(&self) -> &str {
        &self.prefix
    }

    /// The value of [`watchdog`](Self::watchdog).
    pub fn get_watchdog(&self) -> Duration {
        self.watchdog
    }

    /// The value of [`command_timeout`](Self::command_timeout).
    pub fn get_command_timeout(&self) -> Duration {
        self.command_timeout
    }

    /// The value of [`retry_timeout`](Self::retry_timeout).
    pub fn get_retry_timeout(&self) -> Duration {
        self.retry_timeout
    }

    /// The value of [`fair_wait`](Self::fair_wait).
    pub fn get_fair_wait(&self) -> Duration {
        self.fair_wait
    }

    /// The value of [`redisson_fair_wait`](Self::redisson_fair_wait).
    pub fn get_redisson_fair_wait(&self) -> Duration {
        self.redisson_fair_wait
    }

    /// The value of [`sharded_pubsub`](Self::sharded_pubsub).
    pub fn get_sharded_pubsub(&self) -> ShardedPubsub {
        self.sharded_pubsub
    }

    /// The value of [`replicas`](Self::replicas).
    pub fn get_replicas(&self) -> Replicas {
        self.replicas
    }

    /// The value of [`replica_timeout`](Self::replica_timeout).
    pub fn get_replica_timeout(&self) -> Duration {
        self.replica_timeout
    }

    /// The value of [`reuse_holds`](Self::reuse_holds).
    pub fn get_reuse_holds(&self) -> bool {
        self.reuse_holds
    }

    /// The value of [`lazy_connect`](Self::lazy_connect).
    pub fn get_lazy_connect(&self) -> bool {
        self.lazy_connect
    }

    /// The value of [`announce`](Self::announce).
    pub fn get_announce(&self) -> Option<&str> {
        self.announce.as_deref()
    }
}

/// Shows the scheme and the server, but no user and no password.
impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("server", &self.get_server())
            .field("nat_map", &self.nat_map)
            .field("driver", &self.get_driver())
            .field("prefix", &self.prefix)
            .field("watchdog", &self.watchdog)
            .field("command_timeout", &self.command_timeout)
            .field("retry_timeout", &self.retry_timeout)
            .field("fair_wait", &self.fair_wait)
            .field("redisson_fair_wait", &self.redisson_fair_wait)
            .field("sharded_pubsub", &self.sharded_pubsub)
            .field("replicas", &self.replicas)
            .field("replica_timeout", &self.replica_timeout)
            .field("reuse_holds", &self.reuse_holds)
            .field("lazy_connect", &self.lazy_connect)
            .field("observer", &self.observer.is_some())
            .field("announce", &self.announce)
            .finish()
    }
}
