//! What can go wrong, and why a hold ended.

use std::{fmt, sync::Arc};

use crate::replicas::Acknowledged;

/// Why an operation on a lock failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The lock was not held any more. What ran under the guard may have run beside another holder.
    #[error("the lock is not held: {why}")]
    NotHeld {
        /// How the hold came to its end.
        why: Loss,
    },
    /// The key holds something that is not this kind of lock. It was left as it is.
    #[error("the key {key:?} holds something else than this kind of lock")]
    WrongKind {
        /// The key in question.
        key: String,
    },
    /// The owner waits for itself: it holds a lock that cannot be entered again, or wants to write
    /// while it reads. Nothing was sent.
    #[error("the owner holds {key:?} already, and would wait for itself")]
    WouldDeadlock {
        /// The lock's key.
        key: String,
    },
    /// A name, a lease or a waiting time that cannot be meant. Nothing was sent.
    #[error("invalid argument: {0}")]
    Invalid(String),
    /// The configuration cannot be used. Nothing was sent.
    #[error("invalid configuration: {0}")]
    Config(String),
    /// Redis could not be reached, did not answer in time, or answered with an error.
    ///
    /// What an acquisition may still do on the server is undone in the background, and a release goes on
    /// there, whatever the error.
    ///
    /// Before a caller is told, what may pass is waited for, within the bound of its call: no connection,
    /// no answer, `LOADING`, `BUSY`, `READONLY`, `MASTERDOWN`, `CLUSTERDOWN`, `TRYAGAIN`, `NOREPLICAS`,
    /// `MISCONF` (it cannot save), `OOM` (it is full) and too many clients. All else is told at once:
    /// missing rights (`NOPERM`), wrong credentials (`NOAUTH`, `WRONGPASS`), a request that Redis does not
    /// understand (`ERR`).
    #[error(transparent)]
    Redis(#[from] RedisError),
    /// Too few replicas confirmed the hold in time ([`Config::replicas`](crate::Config::replicas)).
    /// What was taken is released in the background.
    #[error("{acknowledged} of {needed} replicas confirmed the lock")]
    NotReplicated {
        /// How many confirmed it.
        acknowledged: u32,
        /// How many had to.
        needed: u32,
    },
    /// The client was closed.
    #[error("the client is closed")]
    Closed,
}

impl Error {
    /// Says from which server it came.
    pub(crate) fn said_by(self, server: &impl fmt::Display) -> Self {
        match self {
            Self::Redis(error) => Self::Redis(RedisError::new(format!("{server}: {}", error.text))),
            other => other,
        }
    }
}

impl From<Acknowledged> for Error {
    fn from(Acknowledged { by, needed }: Acknowledged) -> Self {
        Self::NotReplicated { acknowledged: by, needed }
    }
}

/// How a hold came to its end without having been released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Loss {
    /// The lease ran out, or could not be renewed in time. Told before Redis frees the key.
    Expired,
    /// The key was gone before its lease could end: a force unlock, a `DEL` or `FLUSHALL`, or a
    /// server that came back without its data.
    Removed,
    /// Another holds the lock by now.
    Taken,
    /// [`Client::close`](crate::Client::close) ended the renewals.
    Closed,
    /// Perhaps it did not end too soon. It was being released, the answer was lost, and when Redis was asked
    /// again the hold was gone: released by the first request, or removed before that.
    Unknown,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "its lease ran out",
            Self::Removed => "the key was removed before the lease ended",
            Self::Taken => "another holds it by now",
            Self::Closed => "the client was closed",
            Self::Unknown => {
                "the answer to its release was lost, and whether it was held until then is unknown"
            }
        })
    }
}

/// What Redis, or the way to it, had to say. Opaque: read it, log it, do not match on it.
#[derive(Clone)]
pub struct RedisError {
    text: Arc<str>,
}

impl RedisError {
    pub(crate) fn new(text: impl Into<Arc<str>>) -> Self {
        let text = text.into();
        // Whoever does not know a command repeats its arguments.
        match text.split_once(", with args beginning with") {
            Some((words, _)) => Self { text: words.into() },
            None => Self { text },
        }
    }
}

impl fmt::Display for RedisError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "redis: {}", self.text)
    }
}

impl fmt::Debug for RedisError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisError({:?})", self.text)
    }
}

impl std::error::Error for RedisError {}
