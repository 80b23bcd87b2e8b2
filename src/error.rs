//! [`Error`] and [`Loss`]: why an operation failed, and why a hold ended.

use std::fmt;

use crate::{options::Acknowledged, redis_error::RedisError};

/// Why an operation on a lock, a semaphore or a latch failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The hold was lost. Work under the guard may have run beside another holder's.
    #[error("no longer held: {why}")]
    NotHeld {
        /// Why the hold ended.
        why: Loss,
    },
    /// The key is not a lock, semaphore or latch of this kind. It was not changed.
    #[error("the key {key:?} is not a lock of this kind")]
    WrongKind {
        /// The key.
        key: String,
    },
    /// The owner would wait for itself. It holds a lock that cannot be re-entered, or it reads and
    /// wants to write. The server confirmed that the owner still holds it.
    #[error("the owner already holds {key:?} and would wait for itself")]
    WouldDeadlock {
        /// The lock's key.
        key: String,
    },
    /// A name, a lease, a wait or another argument is out of range, and nothing was changed.
    #[error("invalid argument: {0}")]
    Invalid(String),
    /// The configuration cannot be used.
    #[error("invalid configuration: {0}")]
    Config(String),
    /// Redis could not be reached, did not answer in time, or answered with an error.
    /// [`RedisError::kind`] says which of them.
    ///
    /// After a failed acquisition, what it may still do on the server is undone in the background.
    /// After a failed release, the release goes on in the background.
    ///
    /// Errors that may pass are waited for, within the bound of the call: no connection, no answer,
    /// `LOADING`, `BUSY`, `READONLY`, `MASTERDOWN`, `CLUSTERDOWN`, `TRYAGAIN`, `NOREPLICAS`,
    /// `MISCONF` (it cannot save), `OOM` (it is full), too many clients, too many calls at once
    /// ([`Overloaded`](crate::RedisErrorKind::Overloaded)), and in a cluster `MOVED` and `ASK`. So are
    /// credentials that have become wrong by the time when a client connects again.
    ///
    /// Every other error is returned at once: missing rights (`NOPERM`), wrong credentials of
    /// [`Client::connect`](crate::Client::connect) (`NOAUTH`, `WRONGPASS`), a request that Redis does
    /// not understand (`ERR`).
    #[error(transparent)]
    Redis(#[from] RedisError),
    /// Too few replicas confirmed the hold in time: see
    /// [`Config::replicas`](crate::Config::replicas). The lock is released in the background, unless the
    /// owner has held it before. Local callers of one lock share the requests of the first of them, and
    /// this error, if they ask for the same.
    #[error("{acknowledged} of {needed} required replicas confirmed it in time")]
    NotReplicated {
        /// How many replicas confirmed it.
        acknowledged: u32,
        /// How many replicas had to confirm it.
        needed: u32,
    },
    /// The client is closed.
    #[error("the client is closed")]
    Closed,
    /// A blocking call in async code. It would stop every other task of the thread. No request was
    /// sent. See [`blocking`](crate::blocking#async-code).
    #[cfg(feature = "blocking")]
    #[error(
        "a blocking call in async code: await the async API, or call this in tokio::task::spawn_blocking"
    )]
    InAsyncCode,
}

impl Error {
    /// No answer came in time.
    pub(crate) fn timed_out() -> Self {
        RedisError::timed_out().into()
    }

    /// Adds which server the error came from.
    pub(crate) fn said_by(self, server: &impl fmt::Display) -> Self {
        match self {
            Self::Redis(error) => Self::Redis(error.said_by(server)),
            other => other,
        }
    }

    /// Adds what was being done, to which object (its kind and name), on which server. The first
    /// context wins.
    pub(crate) fn about(
        self,
        doing: &'static str,
        object: Option<(&'static str, &str)>,
        server: &str,
    ) -> Self {
        match self {
            Self::Redis(error) => Self::Redis(error.about(doing, object, server)),
            other => other,
        }
    }
}

impl From<Acknowledged> for Error {
    fn from(Acknowledged { by, needed }: Acknowledged) -> Self {
        Self::NotReplicated { acknowledged: by, needed }
    }
}

/// Why a hold ended without being released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Loss {
    /// The lease expired, or could not be renewed in time. The holder is told before Redis frees
    /// the key.
    Expired,
    /// The key disappeared before the lease ended: by a force unlock, a `DEL` or `FLUSHALL`, or
    /// because the server came back without its data.
    Removed,
    /// Another holder has the lock.
    Taken,
    /// [`Client::close`](crate::Client::close) ended the renewals. The lock stays held until its
    /// lease ends.
    Closed,
    /// It is unknown whether the hold was lost. The answer to its release did not arrive, and the
    /// repeated release found no hold. Either the first release freed the lock, or it was lost
    /// before.
    Unknown,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "its lease expired",
            Self::Removed => "the key was removed before the lease ended",
            Self::Taken => "another holder has the lock",
            Self::Closed => "the client was closed",
            Self::Unknown => {
                "the answer to its release was lost, so it is unknown whether it was lost before"
            }
        })
    }
}
