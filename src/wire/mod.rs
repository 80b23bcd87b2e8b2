//! The way to the servers. The rest of the crate uses a [`Transport`] and sees no connection.
//!
//! | file | concept |
//! |---|---|
//! | [`script`] | a script, a call of it ([`Invocation`]), and its [`Reply`] |
//! | [`error`] | [`WireError`]: why a call has no reply, and whether another try is worth it |
//! | [`url`], [`deployment`], [`tls`] | what a configuration says of its servers |
//! | [`connection`] | the seam: what a driver must do, and must never do |
//! | [`fred`] | the driver over fred, the only place that names it |
//! | [`session`], [`link`], [`node`] | one connection; one that is replaced when it breaks; one server with its connections |
//! | [`replicas`], [`eviction`], [`clock`] | of one server: confirmation by replicas, a warning, its clock |
//! | [`topology`] | which server serves a key, and how that is kept true |
//! | [`transport`] | [`RedisTransport`]: all of it together |
//!
//! A transport sends one copy of a call and says what came of it. It never repeats a call that may
//! have run: whoever called knows whether a second copy is right, and until when.

mod answers;
mod clock;
mod connection;
mod deployment;
mod error;
mod eviction;
mod fred;
mod link;
mod node;
mod replicas;
mod script;
mod session;
mod tls;
mod topology;
mod transport;
mod url;

use std::{fmt, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::replicas::Replicas;

pub use self::tls::Tls;

#[cfg(test)]
pub(crate) use self::clock::ServerClock;
pub(crate) use self::{
    deployment::{Credentials, Deployment, Servers},
    error::WireError,
    script::{Arg, Invocation, Reply, Script},
    transport::{RedisTransport, check_tls},
    url::read_url,
};

/// Whether messages in a Redis Cluster go by sharded channels (`SPUBLISH`, Redis 7 and later). All who
/// share a lock must do the same: a waiter on the other sort of channel hears nothing, and looks
/// again every 3 s only. Elsewhere than in a cluster this has no effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ShardedPubsub {
    /// If the cluster has them (it answers `PUBSUB SHARDNUMSUB`), as Redisson decides.
    #[default]
    Auto,
    /// Yes: Redisson's `shardedSubscriptionMode` is `ON`.
    On,
    /// No: Redisson's `shardedSubscriptionMode` is `OFF`, or it is older than that.
    Off,
}

/// A call under way. It runs on the server whether or not it is polled to its end.
pub(crate) type Flight = BoxFuture<'static, Result<Reply, WireError>>;

/// How a call is to be confirmed by replicas.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Confirm {
    pub(crate) replicas: Replicas,
    /// How long they may take.
    pub(crate) timeout: Duration,
    /// Whether there is anything to confirm when this is the reply.
    pub(crate) is_due: fn(&Reply) -> bool,
}

/// The connections of one client.
pub(crate) trait Transport: fmt::Debug + Send + Sync + 'static {
    /// Sends one copy of the call, at the first poll.
    fn call(&self, call: Invocation) -> Flight;

    /// The same, for an answer until this moment. (Else that is up to the transport.)
    fn call_by(&self, call: Invocation, _by: Instant) -> Flight {
        self.call(call)
    }

    /// Sends one copy, and asks replicas to confirm it: the reply is a [`Reply::Confirmed`] then. Keeps no other
    /// caller waiting.
    fn call_confirmed(&self, call: Invocation, _confirm: Confirm) -> Flight {
        self.call(call)
    }

    /// The slot of a key: calls for several keys must stay within one. Always 0 but in a cluster.
    fn slot(&self, _key: &[u8]) -> u16 {
        0
    }

    /// Whether keys are spread over servers by slots.
    fn is_cluster(&self) -> bool {
        false
    }

    /// What the clock of the server that serves the key shows at this moment, as far as is known, in
    /// ms since the epoch.
    fn time_at(&self, key: &[u8], moment: Instant) -> u64;

    /// The server that serves the key has just told its time.
    fn observe(&self, key: &[u8], now: u64);

    /// Asks the server that serves the key for its time, and observes it.
    fn server_time(&self, key: &[u8]) -> BoxFuture<'static, Result<u64, WireError>>;

    /// Asks all servers for their time, and observes it.
    fn keep_time(&self) -> BoxFuture<'static, ()>;

    /// Subscribes to the channels; done when the server has confirmed it.
    fn subscribe(&self, channels: Vec<String>) -> BoxFuture<'static, Result<(), WireError>>;

    /// Ends subscriptions; done when the server has confirmed it.
    fn unsubscribe(&self, channels: Vec<String>) -> BoxFuture<'static, Result<(), WireError>>;

    /// Whether a subscription may be left that nobody knows of any more: after a gap on one server those
    /// on others are still there.
    fn may_be_subscribed(&self, _channel: &str) -> bool {
        false
    }

    /// Whether another server may take the place of one. Each time, [`Event::Gap`] follows.
    fn follows(&self) -> bool {
        false
    }

    /// The server that has a key, or on which a channel is subscribed.
    fn place(&self, _name: &str) -> u64 {
        0
    }

    /// Asks the subscriber connection to a server for a sign of life, and replaces it when there is
    /// none.
    fn probe(&self, place: u64) -> BoxFuture<'static, Result<(), WireError>>;

    /// A call for this key was given up before the transport itself would have done so.
    fn given_up(&self, _key: &[u8]) {}

    /// Closes all connections.
    fn quit(&self) -> BoxFuture<'static, ()>;
}

/// Takes the events of a subscriber connection. Must not block.
pub(crate) type EventSink = Arc<dyn Fn(Event) + Send + Sync>;

/// What comes from the subscriber connection without having been asked for.
#[derive(Debug)]
pub(crate) enum Event {
    /// A message on this channel.
    Message(String),
    /// Messages may have been missed, and subscriptions be gone.
    Gap,
}
