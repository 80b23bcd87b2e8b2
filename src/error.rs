//! [`Error`] and [`Loss`]: why an operation failed, and why a hold ended.

use std::{fmt, io, sync::Arc};

use crate::options::Acknowledged;

/// Why an operation on a lock failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The hold was lost. Work under the guard may have run beside another holder's.
    #[error("the lock is not held: {why}")]
    NotHeld {
        /// Why the hold ended.
        why: Loss,
    },
    /// The key is not a lock of this kind. It was not changed.
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
    /// A name, a lease, a wait or another argument is out of range. No request was sent.
    #[error("invalid argument: {0}")]
    Invalid(String),
    /// The configuration cannot be used.
    #[error("invalid configuration: {0}")]
    Config(String),
    /// Redis could not be reached, did not answer in time, or answered with an error.
    ///
    /// After a failed acquisition, what it may still do on the server is undone in the background.
    /// After a failed release, the release goes on in the background.
    ///
    /// Errors that may pass are waited for, within the bound of the call: no connection, no answer,
    /// `LOADING`, `BUSY`, `READONLY`, `MASTERDOWN`, `CLUSTERDOWN`, `TRYAGAIN`, `NOREPLICAS`,
    /// `MISCONF` (it cannot save), `OOM` (it is full) and too many clients.
    ///
    /// Every other error is returned at once: missing rights (`NOPERM`), wrong credentials
    /// (`NOAUTH`, `WRONGPASS`), a request that Redis does not understand (`ERR`).
    #[error(transparent)]
    Redis(#[from] RedisError),
    /// Too few replicas confirmed the hold in time: see
    /// [`Config::replicas`](crate::Config::replicas). The lock is released in the background.
    #[error("{acknowledged} of {needed} required replicas confirmed the lock in time")]
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
    /// Adds which server the error came from.
    pub(crate) fn said_by(self, server: &impl fmt::Display) -> Self {
        match self {
            Self::Redis(error) => Self::Redis(RedisError {
                text: format!("{server}: {}", error.text).into(),
                ..error
            }),
            other => other,
        }
    }

    /// Adds what was being done, to which lock, on which server.
    pub(crate) fn about(self, doing: &'static str, lock: Option<&str>, server: &str) -> Self {
        match self {
            Self::Redis(error) if error.about.is_none() => {
                let lock = lock.map(Into::into);
                // Database 0 is the default, and is not shown.
                let server =
                    server.strip_suffix("/0").unwrap_or(server).replacen("/0?", "?", 1).into();
                let about = Some(Arc::new(About { doing, lock, server }));
                Self::Redis(RedisError { about, ..error })
            }
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

/// An error of Redis or of the connection to it, with the operation, the lock and the server.
///
/// It is opaque: log it, do not match on it. Its [source](std::error::Error::source) is the
/// operating system's error, if there was one.
#[derive(Clone)]
pub struct RedisError {
    text: Arc<str>,
    about: Option<Arc<About>>,
    source: Option<Arc<io::Error>>,
}

/// The operation during which the error occurred.
struct About {
    doing: &'static str,
    lock: Option<Box<str>>,
    server: Box<str>,
}

impl RedisError {
    pub(crate) fn new(text: impl Into<Arc<str>>) -> Self {
        let text = text.into();
        // A server that does not know a command repeats its arguments, which may be secret.
        if let Some((words, _)) = text.split_once(", with args beginning with") {
            return Self { text: words.into(), about: None, source: None };
        }
        let source = of_the_system(&text).map(Arc::new);
        let text = match &source {
            Some(error) => error.to_string().into(),
            None => text,
        };
        Self { text, about: None, source }
    }

    /// The error's own text, without the operation.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

/// The operating system's error, which a driver has written as `{:?}` does.
fn of_the_system(text: &str) -> Option<io::Error> {
    if let Some(rest) = text.strip_prefix("Os { code: ") {
        let (code, _) = rest.split_once(',')?;
        return Some(io::Error::from_raw_os_error(code.parse().ok()?));
    }
    // An example is the error for an unknown host.
    let (_, error) = text.strip_prefix("Custom { kind: ")?.split_once(", error: \"")?;
    Some(io::Error::other(error.strip_suffix("\" }")?))
}

impl fmt::Display for RedisError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(about) = &self.about else { return write!(f, "redis: {}", self.text) };
        f.write_str(about.doing)?;
        if let Some(lock) = &about.lock {
            write!(f, " lock {lock:?}")?;
        }
        write!(f, ": redis at {}: {}", about.server, self.text)
    }
}

impl fmt::Debug for RedisError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisError({:?})", self.to_string())
    }
}

impl std::error::Error for RedisError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|error| error as _)
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn an_error_says_what_was_done_to_which_lock_and_where() {
        let error = || Error::Redis(RedisError::new("no answer in time"));
        let about = error().about("acquiring", Some("order:42"), "h:1/0");
        let text = "acquiring lock \"order:42\": redis at h:1: no answer in time";
        assert_eq!(about.to_string(), text);
        // The first context wins.
        assert_eq!(about.about("closing", None, "h:1/0").to_string(), text);
        let connecting = error().said_by(&"i:2").about("connecting", None, "h:1,i:2/3");
        assert_eq!(
            connecting.to_string(),
            "connecting: redis at h:1,i:2/3: i:2: no answer in time"
        );
    }

    #[test]
    fn an_error_of_the_system_is_told_in_its_words_and_is_the_source() {
        let refused = io::Error::from_raw_os_error(111);
        let error = Error::Redis(RedisError::new(format!("{refused:?}")));
        assert_eq!(error.to_string(), format!("redis: {refused}"));
        assert_eq!(error.source().unwrap().to_string(), refused.to_string());
        let unknown = io::Error::other("no such host");
        let error = RedisError::new(format!("{unknown:?}"));
        assert_eq!(error.to_string(), "redis: no such host");
        assert!(RedisError::new("BUSY Os { code: 111").source().is_none());
    }
}
