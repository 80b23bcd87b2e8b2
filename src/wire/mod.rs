//! The connections to the servers. The rest of the crate uses a [`Transport`] and sees no
//! connection.
//!
//! | file | concept |
//! |---|---|
//! | [`script`] | a script, a call of it ([`Invocation`]), and its [`Reply`] |
//! | [`answers`] | the result of one command, and what a failed one says about the connection |
//! | [`error`] | [`WireError`]: why a call has no reply, and whether a retry can succeed |
//! | [`url`], [`deployment`], [`tls`] | what a configuration says about the servers |
//! | [`node_id`] | which node of a cluster a server is |
//! | [`connection`] | the seam: what a driver must do, and what it must never do |
//! | `fred`, `redis_rs` | the drivers, each the only place that names its library |
//! | [`drivers`], [`tls_library`] | the driver that a user chose; the TLS library, for all drivers |
//! | `barrier` | for a driver that drops the server's confirmation of a subscription |
//! | `socket`, `resp`, `queue` | for drivers without their own: an open socket; a command as text; commands that wait for replies |
//! | [`session`], [`link`], [`node`] | one connection; a connection that is replaced when it breaks; one server with its connections |
//! | [`client_name`], [`set_name`] | the name of the connections in the server's list |
//! | [`replicas`], [`eviction`], [`clock`] | for one server: confirmation by replicas, the warning about evictions, the clock |
//! | [`topology`] | which server serves a key, and how that is kept up to date |
//! | [`transport`], [`connect`] | [`RedisTransport`]: all of it together, and how it is made |
//! | `raw` | with the feature `_servers`: commands that are no scripts |
//! | [`lazy`] | [`LazyTransport`]: the same, for servers that may not be up yet |
//!
//! A transport sends one copy of a call and returns its result. It never repeats a call that may
//! have run. The caller decides whether a second copy is safe, and until when.

mod answers;
#[cfg(feature = "fred")]
mod barrier;
mod breaks;
mod client_name;
mod clock;
mod connect;
mod connection;
mod deployment;
mod drivers;
mod error;
mod eviction;
#[cfg(feature = "fred")]
mod fred;
mod lazy;
mod link;
mod node;
mod node_id;
#[cfg(feature = "redis-rs")]
mod queue;
#[cfg(feature = "_servers")]
mod raw;
#[cfg(feature = "redis-rs")]
mod redis_rs;
mod replicas;
#[cfg(feature = "redis-rs")]
mod resp;
mod script;
mod session;
mod set_name;
#[cfg(feature = "redis-rs")]
mod socket;
mod tls;
mod tls_library;
mod topology;
mod transport;
mod url;

use std::{fmt, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use tokio::time::Instant;

use crate::options::Replicas;

pub use self::tls::Tls;

#[cfg(any(test, feature = "test-util"))]
pub(crate) use self::clock::ServerClock;
#[cfg(feature = "redisson-yaml")]
pub(crate) use self::url::percent_decoded;
#[cfg(any(feature = "redis-rs", feature = "redisson-yaml"))]
pub(crate) use self::url::socket_url;
pub(crate) use self::{
    connect::{ConnectOptions, check_tls},
    deployment::{Credentials, Deployment, Nat, PasswordFile, Servers},
    error::WireError,
    lazy::LazyTransport,
    script::{Arg, Invocation, Reply, Script},
    transport::RedisTransport,
    url::read_url,
};

/// Identifies a server within one client. When another server takes over its keys, they get another id.
pub(crate) type ServerId = u64;

/// A call under way. It runs on the server whether or not it is polled to its end.
pub(crate) type Flight = BoxFuture<'static, Result<Reply, WireError>>;

/// How replicas are to confirm a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Confirm {
    pub(crate) replicas: Replicas,
    /// How long the replicas may take.
    pub(crate) timeout: Duration,
    /// Whether the call had an effect to confirm, judged by its reply.
    pub(crate) needs_confirmation: fn(&Reply) -> bool,
}

/// Commands to one server that are no scripts.
#[cfg(feature = "_servers")]
pub(crate) trait RawServer: fmt::Debug + Send + Sync + 'static {
    /// The address.
    fn name(&self) -> &str;

    /// Whether messages use channels of slots.
    fn is_sharded(&self) -> bool;

    /// Sends one copy of a command. In a cluster it follows redirections.
    fn command(&self, name: &'static str, args: Vec<bytes::Bytes>) -> Flight;
}

/// The servers that have locks.
#[cfg(feature = "_servers")]
#[derive(Debug, Default)]
pub(crate) struct RawServers {
    pub(crate) connected: Vec<Arc<dyn RawServer>>,
    /// The addresses of masters to which there is no connection.
    pub(crate) missing: Vec<String>,
}

/// The connections of one client.
pub(crate) trait Transport: fmt::Debug + Send + Sync + 'static {
    /// Sends one copy of the call, at the first poll.
    fn call(&self, call: Invocation) -> Flight;

    /// Sends one copy, for an answer by `by`. Otherwise the transport sets the bound.
    fn call_by(&self, call: Invocation, by: Instant) -> Flight;

    /// Sends one copy, and asks replicas to confirm it. The reply is then a [`Reply::Confirmed`].
    /// Delays no other caller.
    fn call_confirmed(&self, call: Invocation, confirm: Confirm) -> Flight;

    /// The slot of a key. The keys of one call must share a slot. Outside a cluster it is always 0.
    fn slot(&self, _key: &[u8]) -> u16 {
        0
    }

    /// Whether keys are spread over servers by slots.
    fn is_cluster(&self) -> bool {
        false
    }

    /// The server time in ms since the epoch at this moment, as far as known, of the server that
    /// serves the key.
    fn time_at(&self, key: &[u8], moment: Instant) -> u64;

    /// Notes the server time of the server that serves the key, just received.
    fn observe(&self, key: &[u8], now: u64);

    /// Asks the server that serves the key for its time, and observes it.
    fn server_time(&self, key: &[u8]) -> BoxFuture<'static, Result<u64, WireError>>;

    /// Asks all servers for their time, and observes it.
    fn keep_time(&self) -> BoxFuture<'static, ()>;

    /// Subscribes to the channels. Completes when the server has confirmed it.
    fn subscribe(&self, channels: Vec<String>) -> BoxFuture<'static, Result<(), WireError>>;

    /// Ends subscriptions. Completes when the server has confirmed it.
    fn unsubscribe(&self, channels: Vec<String>) -> BoxFuture<'static, Result<(), WireError>>;

    /// Whether a subscription may remain that the client has forgotten. After a gap on one server,
    /// subscriptions on other servers remain.
    fn may_be_subscribed(&self, _channel: &str) -> bool {
        false
    }

    /// Whether another server may replace a server. [`Event::Gap`] follows each time.
    fn may_replace_servers(&self) -> bool {
        false
    }

    /// The server that has a key, or on which a channel is subscribed.
    fn server_id(&self, _name: &str) -> ServerId {
        0
    }

    /// Asks for a sign of life on the subscriber connection to a server. Replaces the connection if
    /// there is none.
    fn probe(&self, server: ServerId) -> BoxFuture<'static, Result<(), WireError>>;

    /// A call for this key was given up before the transport's own bound, without an answer for so long.
    fn given_up(&self, _key: &[u8], _silence: Duration) {}

    /// The servers that have locks.
    #[cfg(feature = "_servers")]
    fn servers(&self) -> RawServers {
        RawServers::default()
    }

    /// The server that has this key.
    #[cfg(feature = "_servers")]
    fn server_of(&self, _key: &[u8]) -> Option<Arc<dyn RawServer>> {
        None
    }

    /// Closes all connections.
    fn quit(&self) -> BoxFuture<'static, ()>;
}

/// Receives the events of a subscriber connection. Must not block.
pub(crate) type EventSink = Arc<dyn Fn(Event) + Send + Sync>;

/// An event of the subscriber connection.
#[derive(Debug)]
pub(crate) enum Event {
    /// A message on this channel.
    Message(String),
    /// Messages may have been missed, and subscriptions may be gone.
    Gap,
}
