//! The seam between the code that knows servers and the driver that owns sockets: one connection to
//! one server.
//!
//! A driver is a Redis client library behind the traits [`Driver`] and [`Connection`]. Nothing else
//! names it. Locks rely on the rules below, and the usual defaults of client libraries break them.
//!
//! A driver must
//! - answer each command once: with the reply to this command, or with a [`Failure`] whose kind
//!   says whether the command may have run. If that is unknown, it may have run;
//! - answer within the time given for a command, or within [`Options::command_timeout`];
//! - answer all pending and all later commands with a failure soon after the connection has ended;
//! - run the connection in one task. Aborting this task closes the socket at once, even while it is
//!   blocked by a peer that stopped reading;
//! - tell its listener about each message, and about messages it dropped;
//! - bound the time of connecting, logging in and closing;
//! - report a refused login without the server's words, which may repeat the password.
//!
//! A driver must never
//! - send a command twice, or send it again after its connection ended: only the caller knows
//!   whether that is safe;
//! - send a command after its caller was told that it was not sent;
//! - give a command the reply to another one. A refused `SUBSCRIBE` must not shift later replies;
//! - wait without a bound, for a reply, for a place in its queue, or for a connection;
//! - lose a subscription or a message without telling its listener. The end of sharded subscriptions to a slot that
//!   moves need not be told: `topology` notices it by the epochs of the owners;
//! - follow redirections, or choose a server: `transport` and `topology` do that;
//! - reconnect: [`Link`](super::link::Link) makes the next connection, and knows whether to make one.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures::future::BoxFuture;
use tokio::{sync::Notify, task::AbortHandle, time::Instant};

use super::{
    EventSink,
    answers::{Answer, Failure},
    client_name::ClientName,
    deployment::Endpoint,
    script::Arg,
};
use crate::{redis_error::RedisErrorKind, runtime::ClientRuntime};

/// A Redis client library. It already knows how to make TLS connections.
pub(super) trait Driver: Send + Sync {
    /// Connects and logs in. The future runs to its end in a task of its own, on the client's
    /// runtime.
    fn connect(&self, endpoint: Endpoint, options: Options) -> Connecting;
}

/// A connection that is being made.
pub(super) type Connecting = BoxFuture<'static, Result<Connected, Failure>>;

/// How a driver is to connect.
pub(super) struct Options {
    /// The time for commands without a time of their own.
    pub(super) command_timeout: Duration,
    /// A connection without one has no subscriptions.
    pub(super) listener: Option<Listener>,
}

impl Options {
    /// For a connection without messages.
    pub(super) fn plain(command_timeout: Duration) -> Self {
        Self { command_timeout, listener: None }
    }
}

/// Receives the messages of a connection. Must not block.
pub(super) type Listener = Box<dyn FnMut(Heard) + Send + Sync>;

/// What came over a connection with subscriptions.
pub(super) enum Heard {
    /// A message on this channel.
    Message(String),
    /// This many messages were dropped.
    Dropped(u64),
}

/// A connection that a driver has made.
pub(super) struct Connected {
    pub(super) connection: Box<dyn Connection>,
    /// The task that runs the connection.
    pub(super) task: AbortHandle,
    /// Completes when that task has ended.
    pub(super) end: BoxFuture<'static, ()>,
}

/// The result of a request without a reply.
pub(super) type Done<'a> = BoxFuture<'a, Result<(), Failure>>;

/// One connection of a driver. See [the module](self) for what it must and must never do.
pub(super) trait Connection: Send + Sync {
    /// Sends one copy of the command, at the first poll. Without a time,
    /// [`Options::command_timeout`] applies.
    fn send<'a>(&'a self, command: Command<'_>, within: Option<Duration>) -> BoxFuture<'a, Answer>;

    /// Subscribes to the channels. Completes when the server has confirmed all of them, or refused one.
    /// May take several times the usual time. Calls of this and the next kind wait for each other, up to a bound.
    fn subscribe(&self, channels: Vec<String>, sharded: bool) -> Done<'_>;

    /// Ends subscriptions. Completes when the server has confirmed it, or refused it. Takes as long.
    fn unsubscribe(&self, channels: Vec<String>, sharded: bool) -> Done<'_>;

    /// Says goodbye to the server, which ends the task.
    fn quit(&self) -> BoxFuture<'_, ()>;
}

/// Until when a call must be answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    pub(super) by: Instant,
    /// Whether the whole usual time is left. A driver has a timer for that anyway.
    pub(super) is_fresh: bool,
}

impl Bound {
    /// This long from now on.
    pub(super) fn of(time: Duration) -> Self {
        Self { by: Instant::now() + time, is_fresh: true }
    }

    /// Until this moment. Almost the usual time counts as the whole usual time.
    pub(super) fn until(by: Instant, usual: Duration) -> Self {
        let is_fresh = by.saturating_duration_since(Instant::now()) > usual - usual / 16;
        Self { by, is_fresh }
    }

    /// For what is sent after something else: the remaining time.
    pub(super) fn rest(self) -> Self {
        Self { is_fresh: false, ..self }
    }

    /// How long a command may take. `None` is the usual time. Fails when no time is left, and
    /// nothing is sent then.
    pub(super) fn within(self) -> Result<Option<Duration>, Failure> {
        if self.is_fresh {
            return Ok(None);
        }
        let left = self.by.saturating_duration_since(Instant::now());
        // Some drivers take zero for no bound.
        if left < Duration::from_millis(1) {
            return Err(Failure::not_sent("no time is left").because(RedisErrorKind::Timeout));
        }
        Ok(Some(left))
    }
}

/// One command.
pub(super) struct Command<'a> {
    pub(super) name: &'static str,
    /// For a script: its hash or its source, and how many of `args` are keys. Both are sent before
    /// `args`.
    pub(super) script: Option<(Bytes, usize)>,
    pub(super) args: &'a [Arg],
    /// The sort of channels, for [`Arg::Publish`] and [`Arg::Listening`].
    pub(super) channels: Channels,
    /// Whether `ASKING` is sent right before it, because its slot is being moved to this server.
    pub(super) asking: bool,
}

/// The sort of channels that carry the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Channels {
    Plain,
    /// Channels of Redis 7 and later, each of which belongs to a slot.
    Sharded,
}

impl Channels {
    pub(super) fn is_sharded(self) -> bool {
        self == Self::Sharded
    }

    /// The command by which scripts publish.
    pub(super) fn publish(self) -> &'static str {
        match self {
            Self::Plain => "publish",
            Self::Sharded => "spublish",
        }
    }

    /// The subcommand of PUBSUB that counts listeners.
    pub(super) fn count_listeners(self) -> &'static str {
        match self {
            Self::Plain => "numsub",
            Self::Sharded => "shardnumsub",
        }
    }
}

/// What a [`Link`](super::link::Link) does when its connection has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnBreak {
    /// It connects to the same address again, and tries without end.
    Reconnect,
    /// It is gone.
    End,
}

/// What all connections of one client share.
#[derive(Clone)]
pub(super) struct ConnectionSettings {
    pub(super) driver: Arc<dyn Driver>,
    /// Everything that outlives a call runs here.
    pub(super) runtime: ClientRuntime,
    pub(super) command_timeout: Duration,
    /// The sort of channels that carry the messages.
    pub(super) channels: Channels,
    /// The name of the connections.
    pub(super) client_name: Option<ClientName>,
    /// Receives the events of subscribers.
    pub(super) sink: EventSink,
    /// Notified when another server may serve the keys.
    pub(super) refresh_requested: Arc<Notify>,
    pub(super) on_break: OnBreak,
}

#[cfg(test)]
impl ConnectionSettings {
    /// Plain channels, and nobody who hears their events.
    pub(super) fn for_tests(driver: Arc<dyn Driver>, on_break: OnBreak) -> Self {
        Self {
            driver,
            runtime: ClientRuntime::current(),
            command_timeout: Duration::from_secs(3),
            channels: Channels::Plain,
            client_name: None,
            sink: Arc::new(drop),
            refresh_requested: Arc::default(),
            on_break,
        }
    }
}
