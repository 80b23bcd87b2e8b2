//! [`RedisError`]: an error of Redis or of the connection to it, and its [kind](RedisErrorKind).

use std::{fmt, io, sync::Arc};

/// What went wrong between this client and Redis.
///
/// The kind says what a caller or an operator can do about it. The text of the error says more, and
/// may change with versions of Redis and of this crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RedisErrorKind {
    /// There is no connection: the server refuses connections, its host is not known, or a broken
    /// connection is not back yet.
    Unreachable,
    /// No answer came in time. The request may have run.
    Timeout,
    /// The connection ended before the answer came. The request may have run.
    Disconnected,
    /// The TLS handshake failed, for example because a certificate is not trusted.
    Tls,
    /// The credentials are wrong or missing: `NOAUTH`, `WRONGPASS`, a server in protected mode, or
    /// a password file that cannot be read.
    Auth,
    /// The user may not do this: `NOPERM`, or a command that a script may not run.
    NoPermission,
    /// The server takes no writes because it is a replica: `READONLY`.
    ReadOnly,
    /// The server reads its data and is about to serve: `LOADING`.
    Loading,
    /// The server runs another script: `BUSY`.
    Busy,
    /// The server is full: `OOM`.
    OutOfMemory,
    /// The server cannot save its data: `MISCONF`.
    CannotSave,
    /// Too few replicas are connected to the server: `NOREPLICAS`.
    NoReplicas,
    /// There is no master now: `MASTERDOWN`, or sentinels that know none, are choosing another, or do not name another one
    /// again after it was connected to.
    NoMaster,
    /// No node serves the slot of the key: `CLUSTERDOWN`.
    ClusterDown,
    /// The slot of the key moves, or has moved, to another node: `MOVED`, `ASK`, `TRYAGAIN`. On one
    /// server: it is a node of a cluster, and the URL has to begin with `redis-cluster://`.
    Moved,
    /// The server has too many clients.
    TooManyClients,
    /// Too many requests of this client wait for its connection. The request was not sent.
    Overloaded,
    /// The server refuses the request with another error. It would refuse it again.
    Refused,
    /// The reply cannot be read: the server is not a Redis server, or a proxy changes replies.
    Protocol,
    /// The tokio runtime on which the client was connected has ended, or the thread of a blocking
    /// client could not be started, or the thread of a blocking call is ending.
    RuntimeEnded,
}

/// An error of Redis or of the connection to it, with the operation, the lock and the server.
///
/// [`kind`](RedisError::kind) is what to match on. The text is for a log. Its
/// [source](std::error::Error::source) is the operating system's error, if there was one.
///
/// # Examples
/// ```no_run
/// # async fn f(lock: redisson_lock::Lock) -> Result<(), redisson_lock::Error> {
/// use redisson_lock::{Error, RedisErrorKind};
///
/// match lock.try_lock().await {
///     Err(Error::Redis(error)) => match error.kind() {
///         RedisErrorKind::Unreachable | RedisErrorKind::Timeout => println!("later: {error}"),
///         RedisErrorKind::Auth | RedisErrorKind::NoPermission => println!("ask an operator: {error}"),
///         _ => return Err(error.into()),
///     },
///     other => println!("{:?}", other?),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RedisError(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    kind: RedisErrorKind,
    text: Box<str>,
    about: Option<Arc<About>>,
    source: Option<Arc<io::Error>>,
}

/// The operation during which the error occurred.
struct About {
    doing: &'static str,
    /// What it was done to, and its name.
    object: Option<(&'static str, Box<str>)>,
    server: Box<str>,
}

/// The text of a server's error without the arguments that it repeats of a command it does not
/// know. They may be secret, or any name of a lock.
pub(crate) fn without_arguments(text: &str) -> &str {
    text.split_once(", with args beginning with").map_or(text, |(words, _)| words)
}

impl RedisError {
    pub(crate) fn new(kind: RedisErrorKind, text: impl Into<String>) -> Self {
        let text = text.into();
        let (text, source) = match of_the_system(&text) {
            Some(error) => (error.to_string(), Some(Arc::new(error))),
            None => (without_arguments(&text).to_owned(), None),
        };
        Self(Arc::new(Inner { kind, text: text.into(), about: None, source }))
    }

    /// No answer came in time.
    pub(crate) fn timed_out() -> Self {
        Self::new(RedisErrorKind::Timeout, "no answer in time")
    }

    /// Returns what went wrong.
    #[must_use]
    pub fn kind(&self) -> RedisErrorKind {
        self.0.kind
    }

    /// The error's own text, without the operation.
    pub(crate) fn text(&self) -> &str {
        &self.0.text
    }

    /// Adds which server the error came from.
    pub(crate) fn said_by(mut self, server: &impl fmt::Display) -> Self {
        let inner = Arc::make_mut(&mut self.0);
        inner.text = format!("{server}: {}", inner.text).into();
        self
    }

    /// Adds what was being done, to which object (its kind and name), on which server. The first
    /// context wins.
    pub(crate) fn about(
        mut self,
        doing: &'static str,
        object: Option<(&'static str, &str)>,
        server: &str,
    ) -> Self {
        if self.0.about.is_none() {
            let object = object.map(|(what, name)| (what, name.into()));
            // Database 0 is the default, and is not shown.
            let server = server.strip_suffix("/0").unwrap_or(server).replacen("/0?", "?", 1).into();
            Arc::make_mut(&mut self.0).about = Some(Arc::new(About { doing, object, server }));
        }
        self
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
        let Inner { text, about, .. } = &*self.0;
        let Some(about) = about else { return write!(f, "redis: {text}") };
        f.write_str(about.doing)?;
        if let Some((what, name)) = &about.object {
            write!(f, " {what} {name:?}")?;
        }
        write!(f, ": redis at {}: {text}", about.server)
    }
}

impl fmt::Debug for RedisError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisError({:?}, {:?})", self.kind(), self.to_string())
    }
}

impl std::error::Error for RedisError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|error| error as _)
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    fn timed_out() -> RedisError {
        RedisError::timed_out()
    }

    #[test]
    fn an_error_says_what_was_done_to_which_lock_and_where() {
        let about = timed_out().about("acquiring", Some(("lock", "order:42")), "h:1/0");
        let text = "acquiring lock \"order:42\": redis at h:1: no answer in time";
        assert_eq!(about.to_string(), text);
        assert_eq!(about.about("closing", None, "h:1/0").to_string(), text);
        let connecting = timed_out().said_by(&"i:2").about("connecting", None, "h:1,i:2/3");
        assert_eq!(
            connecting.to_string(),
            "connecting: redis at h:1,i:2/3: i:2: no answer in time"
        );
        assert_eq!(connecting.kind(), RedisErrorKind::Timeout);
    }

    #[test]
    fn what_is_added_to_an_error_is_not_added_to_its_copies() {
        let error = timed_out();
        let about = error.clone().about("acquiring", Some(("lock", "a")), "h:1/0");
        assert_ne!(about.to_string(), error.to_string());
        assert_eq!(error.to_string(), "redis: no answer in time");
    }

    #[test]
    fn an_error_of_the_system_is_told_in_its_words_and_is_the_source() {
        let new = |text: String| RedisError::new(RedisErrorKind::Unreachable, text);
        let refused = io::Error::from_raw_os_error(111);
        let error = new(format!("{refused:?}"));
        assert_eq!(error.to_string(), format!("redis: {refused}"));
        assert_eq!(error.source().unwrap().to_string(), refused.to_string());
        let unknown = io::Error::other("no such host");
        let error = new(format!("{unknown:?}"));
        assert_eq!(error.to_string(), "redis: no such host");
        assert!(new("BUSY Os { code: 111".into()).source().is_none());
    }

    /// Errors go through the results of many callers.
    #[test]
    fn an_error_is_one_pointer() {
        assert_eq!(size_of::<RedisError>(), size_of::<usize>());
    }
}
