//! Answers of fred: which reply it is, and what an error means.

use fred::{
    error::{Error as FredError, ErrorKind},
    types::Value,
};

use super::{error::WireError, script::Reply};
use crate::error::{Error, RedisError};

/// So begins the error of a call that was not sent, in fred's words too.
pub(super) const NOT_SENT: &str = "Failed to route command";

/// So many levels of arrays a reply may have. No script of ours answers more than three.
const DEEPEST_REPLY: usize = 8;

/// What fred answers.
pub(super) type RawAnswer = Result<Value, FredError>;

/// The same, as a reply.
pub(super) type Answer = Result<Reply, FredError>;

/// Nothing was sent, for this reason.
pub(super) fn not_sent(why: &str) -> FredError {
    FredError::new(ErrorKind::Routing, format!("{NOT_SENT}: {why}"))
}

pub(super) fn timed_out() -> FredError {
    FredError::new(ErrorKind::Timeout, "no answer in time")
}

/// Whether the server says that it is no master.
pub(super) fn is_read_only(error: &FredError) -> bool {
    error.details().contains("READONLY")
}

/// Whether the connection is gone, or may be: there is or will be no answer over it.
pub(super) fn is_of_connection(error: &FredError) -> bool {
    matches!(
        error.kind(),
        ErrorKind::IO | ErrorKind::Timeout | ErrorKind::Canceled | ErrorKind::Routing
    ) || is_of_ended_task(error)
        || is_deaf(error)
}

/// fred's task was ended with the call in hand.
fn is_of_ended_task(error: &FredError) -> bool {
    *error.kind() == ErrorKind::Unknown && error.details() == "channel closed"
}

/// fred's task had been ended before.
fn is_deaf(error: &FredError) -> bool {
    matches!(error.details(), "Failed to send command to router." | "Client is not initialized.")
}

pub(super) fn reply(value: Value) -> Answer {
    reply_within(DEEPEST_REPLY, value)
}

fn reply_within(depth: usize, value: Value) -> Answer {
    Ok(match value {
        Value::Null => Reply::Nil,
        Value::Integer(n) => Reply::Int(n),
        Value::String(text) => Reply::Bytes(text.into_inner()),
        Value::Bytes(bytes) => Reply::Bytes(bytes),
        Value::Array(_) if depth == 0 => {
            return Err(FredError::new(ErrorKind::Parse, "a reply with too many levels of arrays"));
        }
        Value::Array(values) => {
            let parts = values.into_iter().map(|part| reply_within(depth - 1, part));
            Reply::Array(parts.collect::<Result<_, _>>()?)
        }
        other => {
            let what = format!("a reply of kind {}", other.kind());
            return Err(FredError::new(ErrorKind::Parse, what));
        }
    })
}

/// Did the call run, and is another try worth it?
pub(super) fn classify(error: FredError) -> WireError {
    let details = error.details();
    match error.kind() {
        // Never left fred's queue.
        ErrorKind::Backpressure => return WireError::NotNow(opaque(&error)),
        ErrorKind::IO | ErrorKind::Timeout | ErrorKind::Canceled => {
            return WireError::Unanswered(opaque(&error));
        }
        _ => {}
    }
    if details.starts_with(NOT_SENT) || is_deaf(&error) {
        // There was no connection: it never left.
        WireError::NotNow(opaque(&error))
    } else if is_of_ended_task(&error) {
        WireError::unanswered("the connection is gone")
    } else if details.contains("Too many failed write attempts") {
        // A command of a connection that is gone may have run.
        WireError::Unanswered(opaque(&error))
    } else {
        WireError::said(details)
    }
}

/// Why a first connection failed, as a caller is told of it.
pub(super) fn connecting_failed(error: FredError) -> Error {
    match error.kind() {
        ErrorKind::Config if error.details().contains("cluster support disabled") => {
            Error::Config("this server is no Redis Cluster: use a redis:// URL".into())
        }
        ErrorKind::Config | ErrorKind::Url => Error::Config(error.details().into()),
        _ => Error::Redis(opaque(&error)),
    }
}

pub(super) fn opaque(error: &FredError) -> RedisError {
    RedisError::new(match error.kind() {
        ErrorKind::Timeout => "no answer in time".to_owned(),
        _ => error.details().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_has_a_bounded_number_of_levels() {
        let nested = |levels: usize| {
            (0..levels).fold(Value::Integer(1), |inner, _| Value::Array(vec![inner]))
        };
        assert!(reply(nested(DEEPEST_REPLY)).is_ok());
        for levels in [DEEPEST_REPLY + 1, 1_000] {
            let error = reply(nested(levels)).unwrap_err();
            assert!(matches!(classify(error), WireError::Refused(_)));
        }
    }
}
