//! Replies and errors of fred, converted to those of the seam.

use fred::{
    error::{Error, ErrorKind},
    types::Value,
};

use crate::{
    redis_error::RedisErrorKind,
    wire::{
        answers::{Answer, DEEPEST_REPLY, Failure, FailureKind},
        script::Reply,
    },
};

pub(super) fn answer(answer: Result<Value, Error>) -> Answer {
    answer.map_err(failure).and_then(reply)
}

fn reply(value: Value) -> Answer {
    reply_within(DEEPEST_REPLY, value)
}

fn reply_within(depth: usize, value: Value) -> Answer {
    Ok(match value {
        Value::Null => Reply::Nil,
        Value::Integer(n) => Reply::Int(n),
        Value::String(text) => Reply::Bytes(text.into_inner()),
        Value::Bytes(bytes) => Reply::Bytes(bytes),
        Value::Array(_) if depth == 0 => {
            return Err(Failure::unreadable("a reply with too many levels of arrays"));
        }
        Value::Array(values) => {
            let parts = values.into_iter().map(|part| reply_within(depth - 1, part));
            Reply::Array(parts.collect::<Result<_, _>>()?)
        }
        other => return Err(Failure::unreadable(format!("a reply of kind {}", other.kind()))),
    })
}

/// What fred says of a command without a connection, or after its task had been aborted.
const NOT_SENT: [&str; 3] =
    ["Failed to route command.", "Failed to send command to router.", "Client is not initialized."];

/// Converts an error: did the command run?
pub(super) fn failure(error: Error) -> Failure {
    let text = error.details();
    let kind = match error.kind() {
        ErrorKind::Timeout => return Failure::timed_out(),
        // fred ends the connection and gives the error to all commands under way. They may have run.
        ErrorKind::Protocol => return Failure::foreign(FailureKind::Gone, text),
        ErrorKind::Cluster if text.trim_start().starts_with("CLUSTERDOWN") => {
            return Failure::new(FailureKind::Gone, text.to_owned())
                .because(RedisErrorKind::ClusterDown);
        }
        ErrorKind::Parse => return Failure::unreadable(text.to_owned()),
        #[cfg(feature = "_tls")]
        ErrorKind::Tls => return Failure::of_tls(text.to_owned()),
        // It never left fred's queue.
        ErrorKind::Backpressure => FailureKind::Full,
        ErrorKind::IO | ErrorKind::Canceled => FailureKind::Gone,
        _ if NOT_SENT.contains(&text) => return Failure::not_sent("there is no connection"),
        // fred's task was aborted while it had the command.
        ErrorKind::Unknown if text == "channel closed" => return Failure::gone(),
        // A command of a lost connection may have run.
        ErrorKind::Routing => FailureKind::Gone,
        _ if text.contains("Too many failed write attempts") => FailureKind::Gone,
        ErrorKind::Cluster => FailureKind::Redirected,
        ErrorKind::Config | ErrorKind::Url => FailureKind::Config,
        _ => FailureKind::Refused,
    };
    Failure::new(kind, text.to_owned())
}

#[cfg(test)]
mod tests;
