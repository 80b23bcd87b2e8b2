//! [`Answer`]: the result of one command. A [`Failure`] says whether the command may have run.

use std::{borrow::Cow, fmt};

use super::{
    error::{WireError, kind_of},
    script::Reply,
};
use crate::{
    error::Error,
    redis_error::{RedisError, RedisErrorKind, without_arguments},
};

/// The result of one command.
pub(super) type Answer = Result<Reply, Failure>;

/// Why there is no reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) kind: FailureKind,
    pub(super) text: Cow<'static, str>,
    /// What the caller is told, where `kind` and `text` do not say it.
    because: Option<RedisErrorKind>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FailureKind {
    /// Nothing was sent, and nothing will be: there is no connection, or no time is left.
    NotSent,
    /// Nothing was sent, although the connection works: too many commands wait for it.
    Full,
    /// No reply came in time. The command may have run, and may still run.
    TimedOut,
    /// The connection ended before a reply came. The command may have run.
    Gone,
    /// The server named another server (`MOVED`, `ASK`). Nothing ran.
    Redirected,
    /// The server answered with an error, or with an unreadable reply. The error says what may have
    /// run.
    Refused,
    /// The configuration allows no connection.
    Config,
}

const GONE: &str = "the connection is gone";

/// The most levels of arrays in a reply. This crate's scripts answer with three at most.
pub(super) const DEEPEST_REPLY: usize = 8;

impl Failure {
    pub(super) fn new(kind: FailureKind, text: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, text: text.into(), because: None }
    }

    /// A failure without anything sent, for this reason.
    pub(super) fn not_sent(why: impl Into<Cow<'static, str>>) -> Self {
        Self::new(FailureKind::NotSent, why)
    }

    /// A server that answers what nobody asked.
    #[cfg(feature = "redis-rs")]
    pub(super) fn unasked() -> Self {
        let text = "the server answers what nobody asked";
        Self::new(FailureKind::Gone, text).because(RedisErrorKind::Protocol)
    }

    /// The end of a connection by a server that refuses it in these words.
    #[cfg(feature = "redis-rs")]
    pub(super) fn refuses_connection(self) -> Self {
        let kind = self.error_kind();
        Self { kind: FailureKind::Gone, ..self }.because(kind)
    }

    /// The same end of a connection, for a command that was not sent before it.
    #[cfg(feature = "redis-rs")]
    pub(super) fn unsent(&self) -> Self {
        Self { kind: FailureKind::NotSent, ..self.clone() }
    }

    /// What came is not the Redis protocol. `text`: what the driver says about it.
    pub(super) fn foreign(kind: FailureKind, text: &str) -> Self {
        let text = format!("the server does not speak the Redis protocol ({text})");
        Self::new(kind, text).because(RedisErrorKind::Protocol)
    }

    /// A reply that cannot be read.
    pub(super) fn unreadable(text: impl Into<Cow<'static, str>>) -> Self {
        Self::refused(text).because(RedisErrorKind::Protocol)
    }

    /// A handshake of TLS that failed.
    #[cfg(feature = "_tls")]
    pub(super) fn of_tls(text: impl Into<Cow<'static, str>>) -> Self {
        Self::refused(text).because(RedisErrorKind::Tls)
    }

    /// No source names a master that can be used.
    pub(super) fn no_master(text: &'static str) -> Self {
        Self::refused(text).because(RedisErrorKind::NoMaster)
    }

    /// The failure of a client whose URL names no sentinel, if this answer to `INFO server` comes
    /// from one.
    pub(super) fn of_sentinel(info: &Answer) -> Option<Self> {
        let text = info.as_ref().ok()?.as_text()?;
        let is_one = info_field(&text, "redis_mode") == Some("sentinel");
        let why = "the server is a sentinel: use a redis-sentinel:// URL";
        is_one.then(|| Self::new(FailureKind::Config, why))
    }

    /// The same failure, of which the caller is told this.
    pub(super) fn because(self, kind: RedisErrorKind) -> Self {
        Self { because: Some(kind), ..self }
    }

    /// A failure of a session that could not be made.
    pub(super) fn while_connecting(self) -> Self {
        match self.kind {
            FailureKind::Gone | FailureKind::NotSent if self.because.is_none() => {
                // So rustls says that a handshake failed.
                let is_of_tls = self.text.starts_with("Custom { kind: InvalidData");
                self.because(match is_of_tls {
                    true => RedisErrorKind::Tls,
                    false => RedisErrorKind::Unreachable,
                })
            }
            _ => self,
        }
    }

    pub(super) fn timed_out() -> Self {
        Self::new(FailureKind::TimedOut, "no answer in time")
    }

    /// The connection has ended under a command, which may have run.
    pub(super) fn gone() -> Self {
        Self::new(FailureKind::Gone, GONE)
    }

    /// The connection had ended before. Nothing was sent.
    pub(super) fn gone_before_sending() -> Self {
        Self::not_sent(GONE)
    }

    pub(super) fn refused(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(FailureKind::Refused, text)
    }

    /// Whether the server says that it is not a master.
    pub(super) fn is_read_only(&self) -> bool {
        self.text.contains("READONLY")
    }

    /// Whether the server says that its cluster is down. Over fred such an answer ends the connection.
    pub(super) fn is_cluster_down(&self) -> bool {
        self.error_kind() == RedisErrorKind::ClusterDown
    }

    /// Whether it is the answer to PING of a server that cannot save, and still serves.
    pub(super) fn cannot_save(&self) -> bool {
        self.kind == FailureKind::Refused && self.text.starts_with("MISCONF")
    }

    /// Whether the connection is gone or may be, so that no reply will come over it.
    pub(super) fn is_of_connection(&self) -> bool {
        matches!(self.kind, FailureKind::NotSent | FailureKind::TimedOut | FailureKind::Gone)
    }

    /// What the caller is told.
    pub(super) fn error_kind(&self) -> RedisErrorKind {
        self.because.unwrap_or_else(|| match self.kind {
            FailureKind::NotSent => RedisErrorKind::Unreachable,
            FailureKind::Full => RedisErrorKind::Overloaded,
            FailureKind::TimedOut => RedisErrorKind::Timeout,
            FailureKind::Gone => RedisErrorKind::Disconnected,
            FailureKind::Redirected | FailureKind::Refused | FailureKind::Config => {
                kind_of(&self.text)
            }
        })
    }

    pub(super) fn error(&self) -> RedisError {
        RedisError::new(self.error_kind(), &*self.text)
    }

    /// The error that a caller gets when a first connection fails.
    pub(super) fn into_connect_error(self) -> Error {
        match self.kind {
            FailureKind::Config if self.text.contains("cluster support disabled") => {
                Error::Config("the server is not a Redis Cluster: use a redis:// URL".into())
            }
            FailureKind::Config => Error::Config(self.text.into_owned()),
            // In quotes of one kind or another.
            FailureKind::Refused
                if self.text.contains("unknown command") && self.text.contains("SENTINEL") =>
            {
                let why = "the server is no sentinel: use a redis:// or redis-cluster:// URL";
                Error::Config(why.into())
            }
            _ => Error::Redis(self.while_connecting().error()),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(without_arguments(&self.text))
    }
}

/// Whether the call ran, and whether a retry can succeed.
impl From<Failure> for WireError {
    fn from(failure: Failure) -> Self {
        match failure.kind {
            FailureKind::NotSent | FailureKind::Full => Self::NotNow(failure.error()),
            FailureKind::TimedOut | FailureKind::Gone => Self::Unanswered(failure.error()),
            FailureKind::Redirected | FailureKind::Refused | FailureKind::Config => {
                Self::answered(failure.error_kind(), &failure.text)
            }
        }
    }
}

/// What a server means by refusing a login. Its own words may repeat the password.
pub(super) fn refusal_of_login(said: &str) -> &'static str {
    let says = |words: &str| said.contains(words);
    match said.split_whitespace().next().unwrap_or_default() {
        "WRONGPASS" => "WRONGPASS the user or the password is wrong",
        "NOAUTH" => "NOAUTH a password is needed",
        "NOPERM" if says("'select'") => "NOPERM the user may not run SELECT",
        "NOPERM" => "NOPERM the user may not do what is needed to connect",
        "LOADING" => "LOADING the server is loading its data",
        "MASTERDOWN" => "MASTERDOWN the replica has lost its master",
        "BUSY" => "BUSY the server runs a script",
        "DENIED" => "DENIED the server is in protected mode",
        "ERR" if says("DB index is out of range") => "ERR DB index is out of range",
        "ERR" if says("cluster support disabled") => "ERR cluster support disabled",
        "ERR" if says("max number of clients") => "ERR max number of clients reached",
        "ERR" if says("unknown command") => "ERR the server does not know AUTH",
        "ERR" if says("without any password") || says("no password is set") => {
            "ERR the server has no password"
        }
        _ => {
            "the server refuses the connection (its words may repeat the password, and are not shown)"
        }
    }
}

/// The value of a field in the answer to `INFO`.
pub(super) fn info_field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::trim))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_taken_for_a_sentinel_is_named_so_by_each_version() {
        for words in ["ERR unknown command 'SENTINEL'", "ERR unknown command `SENTINEL`"] {
            let failure = Failure::refused(format!("{words}, with args beginning with: "));
            assert!(matches!(failure.into_connect_error(), Error::Config(_)), "{words}");
        }
    }

    /// Of AUTH they are secret.
    #[test]
    fn a_failure_does_not_show_the_arguments_that_a_server_repeats() {
        let words = "ERR unknown command 'AUTH'";
        let failure = Failure::refused(format!("{words}, with args beginning with: 'secret' "));
        assert_eq!(failure.to_string(), words);
    }
}
