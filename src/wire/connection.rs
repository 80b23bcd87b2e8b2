//! The seam between what knows servers and what drives sockets: one connection to one server.
//!
//! A driver is a Redis client library behind the traits [`Driver`] and [`Connection`]. Nothing else names it. A lock is only
//! as good as what follows, and the usual defaults of client libraries break it.
//!
//! A driver must
//! - answer each command once: with the reply to this command, or with a [`Failure`] whose kind says whether the command
//!   may have run. In doubt it may have;
//! - answer within the time given for a command, or within [`Options::command_timeout`], also while it connects again;
//! - answer all pending and all later commands soon after the connection has ended, with a failure;
//! - carry the connection in one task. Aborting this task closes the socket at once, whatever it is doing: it may be
//!   blocked by a peer that stopped reading;
//! - tell its listener of each message, of messages that it had to drop, of a connection that is lost, and of one that was
//!   made again;
//! - bound connecting, logging in, and closing;
//! - report a server that refuses the login without the server's words: they may repeat the password.
//!
//! A driver must never
//! - send a command twice, or send one again whose connection ended: the caller alone knows whether that is right;
//! - send a command late, after its caller was told that it was not sent;
//! - give a reply to another command than its own. A refused `SUBSCRIBE` must not shift the replies of others;
//! - wait without a bound, for a reply, for a place in its queue, or for a connection;
//! - lose a subscription or a message without telling its listener;
//! - follow redirects, or choose a server: the topology does;
//! - connect again when it was told not to ([`OnBreak::End`]).

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures::future::BoxFuture;
use tokio::{sync::Notify, task::AbortHandle};

use super::{
    EventSink,
    answers::{Answer, Failure},
    deployment::Endpoint,
    script::Arg,
};
use crate::runtime::ClientRuntime;

/// A Redis client library. It has been told how TLS connections are made.
pub(super) trait Driver: Send + Sync {
    /// Connects and logs in. Runs to its end in a task of its own on the client's runtime.
    fn connect(&self, endpoint: Endpoint, options: Options) -> Connecting;
}

/// A connection that is being made.
pub(super) type Connecting = BoxFuture<'static, Result<Connected, Failure>>;

/// How a driver is to connect.
pub(super) struct Options {
    /// Within this time a command without a time of its own is answered.
    pub(super) command_timeout: Duration,
    pub(super) on_break: OnBreak,
    /// For a subscriber connection.
    pub(super) listener: Option<Listener>,
}

/// Takes what a connection hears without having asked. Must not block.
pub(super) type Listener = Box<dyn FnMut(Heard) + Send + Sync>;

/// What a subscriber connection hears.
pub(super) enum Heard {
    /// A message on this channel.
    Message(String),
    /// So many messages had to be dropped.
    Dropped(u64),
    /// The connection is lost. May be told more than once.
    Lost,
    /// The driver has made it again.
    Reconnected,
}

/// A connection that a driver has made.
pub(super) struct Connected {
    pub(super) connection: Box<dyn Connection>,
    /// The task that carries it.
    pub(super) task: AbortHandle,
    /// Done when that task has ended.
    pub(super) end: BoxFuture<'static, ()>,
    /// What the driver does when it breaks: as it was told, or [`OnBreak::End`].
    pub(super) on_break: OnBreak,
}

/// What comes of a request that has no reply.
pub(super) type Done<'a> = BoxFuture<'a, Result<(), Failure>>;

/// What a driver does over one connection. See [the module](self) for what it must and must never do.
pub(super) trait Connection: Send + Sync {
    /// Sends one copy of the command, at the first poll. Without a time: [`Options::command_timeout`].
    fn send<'a>(&'a self, command: Command<'_>, within: Option<Duration>) -> BoxFuture<'a, Answer>;

    /// Subscribes to the channels. When it is done, the reply to a PING sent next is the server's confirmation.
    fn subscribe(&self, channels: Vec<String>, sharded: bool) -> Done<'_>;

    /// Ends subscriptions. When it is done, the reply to a PING sent next is the server's confirmation.
    fn unsubscribe(&self, channels: Vec<String>, sharded: bool) -> Done<'_>;

    /// Says goodbye to the server. The task ends then.
    fn quit(&self) -> BoxFuture<'_, ()>;
}

/// One command.
pub(super) struct Command<'a> {
    pub(super) name: &'static str,
    /// Of a script: its hash or its source, and how many of `args` are keys. They are sent before `args`.
    pub(super) script: Option<(Bytes, usize)>,
    pub(super) args: &'a [Arg],
    /// The sort of channels, for [`Arg::Publish`] and [`Arg::Listening`].
    pub(super) channels: Channels,
    /// Whether `ASKING` is sent before it, with no command between them: its slot is on the way to this server.
    pub(super) asking: bool,
}

/// The sort of channels that messages go by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Channels {
    Plain,
    /// Of Redis 7 and later: each belongs to a slot.
    Sharded,
}

impl Channels {
    /// The word by which scripts publish.
    pub(super) fn publish(self) -> &'static str {
        match self {
            Self::Plain => "publish",
            Self::Sharded => "spublish",
        }
    }

    /// The word by which PUBSUB counts who listens.
    pub(super) fn count_listeners(self) -> &'static str {
        match self {
            Self::Plain => "numsub",
            Self::Sharded => "shardnumsub",
        }
    }
}

/// What a driver does with a connection that breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnBreak {
    /// It may make it again, to the same address, without end.
    Reconnect,
    /// The connection has ended.
    End,
}

/// What all connections of one client have in common.
#[derive(Clone)]
pub(super) struct ConnectionSettings {
    pub(super) driver: Arc<dyn Driver>,
    /// What outlives a call runs here.
    pub(super) runtime: ClientRuntime,
    pub(super) command_timeout: Duration,
    /// The sort of channels that messages go by.
    pub(super) channels: Channels,
    /// Takes what subscribers hear.
    pub(super) sink: EventSink,
    /// Told when there is reason to look whether this is still the right server.
    pub(super) refresh_requested: Arc<Notify>,
    pub(super) on_break: OnBreak,
}
