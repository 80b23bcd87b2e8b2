//! [`WireError`]: why a call has no reply, and whether it may be retried.
//!
//! # Errors of Redis
//! A call is retried when the server may accept it a little later, without a change at this client.
//! Any other error is final, and the caller gets it at once. Releases, undos and renewals are retried
//! in the background after every error, until the lease that they concern has ended.
//!
//! | error | retried | because |
//! |---|---|---|
//! | `LOADING` | yes | the server reads its data and is about to serve |
//! | `BUSY` | yes | another script runs, and ends or is killed |
//! | `MASTERDOWN` | yes | a replica waits for its master; its role may change as well |
//! | `CLUSTERDOWN` | yes | a slot is being given to another node |
//! | `TRYAGAIN` | yes | some keys of a slot have moved and others not yet |
//! | `a non local key` | yes | the same, for a script, perhaps in its middle |
//! | `MOVED`, `ASK` | yes | the slot has moved again; a new map is on its way. (On one server: final, the URL is wrong) |
//! | `READONLY` | yes | the master was demoted, and its successor is looked for |
//! | `NOREPLICAS` | yes | replicas (`min-replicas-to-write`) come back |
//! | `MISCONF` | yes | the disk is full or fails; the server retries the save itself |
//! | `OOM` | yes | `maxmemory` is reached; keys expire |
//! | `ERR max number of clients` | yes | other clients leave |
//! | no connection | yes | reconnecting goes on without end |
//! | no answer | yes | a call may be sent twice, and counts once |
//! | `NOSCRIPT` | yes, at once | [`session`](super::session) sends the script's text |
//! | `NOPERM`, and a command that a script may not run | no | the user's rights have to be changed |
//! | `NOAUTH`, `WRONGPASS` | no | the credentials are wrong |
//! | `WRONGTYPE`, `ERR value is not an integer` | no | the key is not a lock or counter of this kind: [`Error::WrongKind`](crate::Error::WrongKind) |
//! | `CROSSSLOT`, any other `ERR`, unknown errors | no | the same call gets the same error again |
//!
//! Redis checks for `MISCONF`, `OOM`, `NOREPLICAS` and `READONLY` before the first write of a
//! script. Their state does not change while a script runs. A script that gets one of them has
//! changed nothing. A missing right may be found in the middle of a script. A wrong type is found
//! before a script takes anything. A script that gives something back may find it later.

use std::fmt;

use crate::{
    redis_error::{RedisError, RedisErrorKind, without_arguments},
    runtime::RuntimeEnded,
};

/// Why a call has no reply.
#[derive(Clone, Debug)]
pub(crate) enum WireError {
    /// No answer: the call may have run, and may still run.
    Unanswered(RedisError),
    /// A retry may succeed: the server is loading, failing over, full, or busy.
    NotNow(RedisError),
    /// The key holds another type. Nothing was taken.
    WrongType,
    /// The server refused the call, perhaps in its middle, and would refuse it again. Or its answer
    /// is unreadable.
    Refused(RedisError),
}

impl WireError {
    /// No answer came in time, for this reason.
    pub(crate) fn unanswered(text: &str) -> Self {
        Self::Unanswered(RedisError::new(RedisErrorKind::Timeout, text))
    }

    /// The answer cannot be read.
    pub(crate) fn unreadable(text: impl Into<String>) -> Self {
        Self::Refused(RedisError::new(RedisErrorKind::Protocol, text))
    }

    /// Classifies an error of a server. See [the table](self#errors-of-redis).
    pub(crate) fn from_server(text: &str) -> Self {
        Self::answered(kind_of(text), text)
    }

    /// Classifies an error of a server whose kind is known.
    pub(super) fn answered(kind: RedisErrorKind, text: &str) -> Self {
        use RedisErrorKind as Kind;

        let error = || RedisError::new(kind, text);
        match kind {
            Kind::Loading
            | Kind::ReadOnly
            | Kind::NoMaster
            | Kind::ClusterDown
            | Kind::Busy
            | Kind::Moved
            | Kind::NoReplicas
            | Kind::CannotSave
            | Kind::OutOfMemory
            | Kind::TooManyClients => Self::NotNow(error()),
            _ if code(text) == "WRONGTYPE"
                || without_script_prefix(text).starts_with(NO_INTEGER) =>
            {
                Self::WrongType
            }
            _ => Self::Refused(error()),
        }
    }

    /// The same error of a call that may have run.
    pub(crate) fn into_unanswered(self) -> Self {
        match self {
            Self::NotNow(error) | Self::Refused(error) => Self::Unanswered(error),
            Self::Unanswered(_) | Self::WrongType => self,
        }
    }

    /// Whether the call has certainly taken nothing, and never will.
    pub(crate) fn did_nothing(&self) -> bool {
        match self {
            Self::NotNow(error) => !is_of_absent_key(error.text()),
            // A server that names another one has run nothing.
            Self::Refused(error) if error.kind() == RedisErrorKind::Moved => true,
            // An error in the middle of a script names the script. Before the script, it concerns
            // the user.
            Self::Refused(error) => {
                let text = error.text();
                let codes = ["NOPERM", "NOAUTH", "WRONGPASS"];
                // What a script answers instead of an error does not name it.
                let in_script = ["user_script", "failure in script"];
                codes.iter().any(|code| text.contains(code))
                    && !in_script.iter().any(|words| text.contains(words))
            }
            Self::WrongType => true,
            Self::Unanswered(_) => false,
        }
    }

    /// Whether the call may have changed something, in part or completely, and a retry can succeed.
    pub(crate) fn is_unclear(&self) -> bool {
        match self {
            Self::Unanswered(_) => true,
            Self::NotNow(_) => !self.did_nothing(),
            Self::WrongType | Self::Refused(_) => false,
        }
    }

    /// Whether the call did not run because its slot moves and its keys are on two servers.
    pub(crate) fn is_of_keys_apart(&self) -> bool {
        matches!(self, Self::NotNow(error) if is_of_keys_apart(error.text()))
    }

    /// The error for the caller.
    pub(crate) fn into_error(self, key: &str) -> crate::Error {
        match self {
            Self::WrongType => crate::Error::WrongKind { key: key.into() },
            Self::Unanswered(error) | Self::NotNow(error) | Self::Refused(error) => {
                crate::Error::Redis(error)
            }
        }
    }
}

impl From<RuntimeEnded> for WireError {
    fn from(ended: RuntimeEnded) -> Self {
        Self::Unanswered(ended.into())
    }
}

/// A string that is no number. A counter is one.
const NO_INTEGER: &str = "ERR value is not an integer";

/// Whether it is the error of a script that looks for a key of a slot that moves. It may come in the
/// script's middle. The second wording is that of Redis 7.4 and Valkey 8.
fn is_of_absent_key(error: &str) -> bool {
    error.contains("a non local key")
        || error.contains("undeclared keys were accessed during rehashing of the slot")
}

pub(super) fn is_of_keys_apart(error: &str) -> bool {
    let error = without_arguments(error);
    code(error) == "TRYAGAIN" || is_of_absent_key(error)
}

/// What an error of a server says, by its code.
pub(super) fn kind_of(text: &str) -> RedisErrorKind {
    use RedisErrorKind as Kind;

    let text = without_arguments(text);
    if is_of_keys_apart(text) {
        return Kind::Moved;
    }
    match code(text) {
        "NOAUTH" | "WRONGPASS" | "DENIED" => Kind::Auth,
        "NOPERM" => Kind::NoPermission,
        "READONLY" => Kind::ReadOnly,
        "LOADING" => Kind::Loading,
        "BUSY" => Kind::Busy,
        "OOM" => Kind::OutOfMemory,
        "MISCONF" => Kind::CannotSave,
        "NOREPLICAS" => Kind::NoReplicas,
        "MASTERDOWN" => Kind::NoMaster,
        "CLUSTERDOWN" => Kind::ClusterDown,
        "MOVED" | "ASK" => Kind::Moved,
        "ERR" if text.starts_with("ERR max number of clients") => Kind::TooManyClients,
        // A sentinel's.
        "ERR" if text.starts_with("ERR No such master") => Kind::NoMaster,
        // The server has no password, or does not know AUTH.
        "ERR" if text.contains("AUTH") || text.contains("password") => Kind::Auth,
        // With `cluster-allow-reads-when-down`, of a script's first write.
        _ if text.contains("write command while the cluster is down") => Kind::ClusterDown,
        // A command, a key or a channel.
        _ if text.contains("executing the script can't") => Kind::NoPermission,
        _ => Kind::Refused,
    }
}

/// The code of an error: its first word.
fn code(text: &str) -> &str {
    without_script_prefix(text).split_whitespace().next().unwrap_or_default()
}

/// An error without what Redis 6 puts before it: the number of a line, perhaps twice, and other
/// words before that:
///
/// ```text
/// WRONGTYPE Operation against a key ...
/// OOM command not allowed ... script: d47ed46b, on @user_script:1.
/// ERR Error running script (call to f_d47ed46b): @user_script:1: WRONGTYPE Operation ...
/// ERR Error running script (call to f_d47ed46b): @user_script:1: @user_script: 1: -OOM command ...
/// =[C]: -1: -OOM command not allowed ...
/// ```
fn without_script_prefix(text: &str) -> &str {
    let words = ["ERR Error running script", "@user_script", "=[C]"];
    let said = match words.iter().any(|words| text.starts_with(words)) {
        true => text.rsplit_once("@user_script").map_or(text, |(_, said)| said),
        false => text,
    };
    said.trim_start_matches("=[C]")
        .trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, ':' | ' ' | '-'))
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WrongType => f.write_str("the key holds another type"),
            Self::Unanswered(error) | Self::NotNow(error) | Self::Refused(error) => error.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests;
