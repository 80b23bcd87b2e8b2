//! The way to the server. Only this module names fred; all else sees a [`Transport`].
//!
//! A transport sends one copy of a call and says what came of it. It never repeats a call that may
//! have run: whoever called knows whether a second copy is right, and until when.

mod fred_client;
mod pubsub;
mod script;

use std::fmt;

use futures::future::BoxFuture;

use crate::error::RedisError;

pub use self::fred_client::FredConfig;
pub(crate) use self::{
    fred_client::{FredTransport, check_url, server_name},
    script::{Arg, Invocation, Reply, Script},
};

/// A call under way. It runs on the server whether or not it is polled to its end.
pub(crate) type Flight = BoxFuture<'static, Result<Reply, WireError>>;

/// The connections of one client.
pub(crate) trait Transport: fmt::Debug + Send + Sync + 'static {
    /// Sends one copy of the call, at the first poll.
    fn call(&self, call: Invocation) -> Flight;

    /// The server's clock, in ms since the epoch.
    fn server_time(&self) -> BoxFuture<'static, Result<u64, WireError>>;

    /// Subscribes to the channels; done when the server has confirmed it.
    fn subscribe(&self, channels: Vec<String>) -> BoxFuture<'static, Result<(), WireError>>;

    /// Ends subscriptions; done when the server has confirmed it.
    fn unsubscribe(&self, channels: Vec<String>) -> BoxFuture<'static, Result<(), WireError>>;

    /// Asks the subscriber connection for a sign of life, and replaces it when there is none.
    fn probe(&self) -> BoxFuture<'static, Result<(), WireError>>;

    /// A call was given up before the transport itself would have done so.
    fn given_up(&self) {}

    /// Closes all connections.
    fn quit(&self) -> BoxFuture<'static, ()>;
}

/// What comes from the subscriber connection without having been asked for.
#[derive(Debug)]
pub(crate) enum Event {
    /// A message on this channel.
    Message(String),
    /// Messages may have been missed, and subscriptions be gone.
    Gap,
}

/// Why a call gave no reply.
#[derive(Clone, Debug)]
pub(crate) enum WireError {
    /// No answer: the call may have run, and may still run.
    Unanswered(RedisError),
    /// It did not run, but may the next time: the server is loading, failing over, or busy.
    NotNow(RedisError),
    /// The key holds another type. Nothing was changed.
    WrongType,
    /// The server refused it for good, or answered what cannot be understood.
    Refused(RedisError),
}

impl WireError {
    pub(crate) fn unanswered(text: &str) -> Self {
        Self::Unanswered(RedisError::new(text))
    }

    pub(crate) fn refused(text: impl Into<String>) -> Self {
        Self::Refused(RedisError::new(text.into()))
    }

    /// As a caller is told of it.
    pub(crate) fn into_error(self, key: &str) -> crate::Error {
        match self {
            Self::WrongType => crate::Error::WrongKind { key: key.into() },
            Self::Unanswered(error) | Self::NotNow(error) | Self::Refused(error) => {
                crate::Error::Redis(error)
            }
        }
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WrongType => f.write_str("the key holds another type"),
            Self::Unanswered(error) | Self::NotNow(error) | Self::Refused(error) => error.fmt(f),
        }
    }
}
