//! What can go wrong, and why a hold ended.

use std::{fmt, io, sync::Arc};

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
    /// while it reads. The server has said that it still holds it.
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
            Self::Redis(error) => Self::Redis(RedisError {
                text: format!("{server}: {}", error.text).into(),
                ..error
            }),
            other => other,
        }
    }

    /// Says what was being done to which lock, on which server.
    pub(crate) fn about(self, doing: &'static str, lock: Option<&str>, server: &str) -> Self {
        match self {
            Self::Redis(error) if error.about.is_none() => {
                let lock = lock.map(Into::into);
                // The usual database goes without saying.
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

/// What Redis, or the way to it, had to say, and what was being done. Opaque: read it, log it, do not
/// match on it. Its [source](std::error::Error::source) is the error of the operating system, if there was
/// one.
#[derive(Clone)]
pub struct RedisError {
    text: Arc<str>,
    about: Option<Arc<About>>,
    source: Option<Arc<io::Error>>,
}

/// In the course of what it happened.
struct About {
    doing: &'static str,
    lock: Option<Box<str>>,
    server: Box<str>,
}

impl RedisError {
    pub(crate) fn new(text: impl Into<Arc<str>>) -> Self {
        let text = text.into();
        // Whoever does not know a command repeats its arguments.
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

    /// What there was to say, and nothing of what was being done.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

/// The error of the operating system that a driver wrote down as `{:?}` does.
fn of_the_system(text: &str) -> Option<io::Error> {
    if let Some(rest) = text.strip_prefix("Os { code: ") {
        let (code, _) = rest.split_once(',')?;
        return Some(io::Error::from_raw_os_error(code.parse().ok()?));
    }
    // Such as that of a host that is not known.
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
        // Whoever was nearest to it knows best.
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
