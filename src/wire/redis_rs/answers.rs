//! Replies and errors of redis-rs, converted to those of the seam.

use std::{error::Error, sync::Arc};

use redis::{ErrorKind, RedisError, ServerError, Value};

use crate::wire::{
    answers::{Answer, DEEPEST_REPLY, Failure, FailureKind},
    script::Reply,
    socket::broken,
};

/// The answer to one command.
pub(super) fn answer(value: Value) -> Answer {
    reply_within(DEEPEST_REPLY, value)
}

fn reply_within(depth: usize, value: Value) -> Answer {
    Ok(match value {
        Value::Nil => Reply::Nil,
        Value::Int(n) => Reply::Int(n),
        Value::BulkString(bytes) => Reply::Bytes(bytes.into()),
        Value::SimpleString(text) => Reply::Bytes(text.into()),
        Value::Okay => Reply::Bytes("OK".into()),
        Value::ServerError(error) => return Err(refusal(&error)),
        Value::Array(_) if depth == 0 => {
            return Err(Failure::unreadable("a reply with too many levels of arrays"));
        }
        Value::Array(values) => {
            let parts = values.into_iter().map(|part| reply_within(depth - 1, part));
            Reply::Array(parts.collect::<Result<_, _>>()?)
        }
        _ => return Err(Failure::unreadable("a reply of a kind that RESP2 does not have")),
    })
}

/// Converts a server's refusal.
fn refusal(error: &ServerError) -> Failure {
    let code = error.code();
    let text = error.details().map_or_else(|| code.to_owned(), |more| format!("{code} {more}"));
    let kind = match code {
        "MOVED" | "ASK" | "CLUSTERDOWN" => FailureKind::Redirected,
        // No other try helps.
        "ERR" if text.contains("instance has cluster support disabled") => FailureKind::Config,
        _ => FailureKind::Refused,
    };
    Failure::new(kind, text)
}

/// Why no reply can be read any more.
pub(super) fn unread(error: &RedisError) -> Failure {
    if error.kind() == ErrorKind::Parse {
        // The connection ends, and what was sent over it may have run.
        return Failure::foreign(FailureKind::Gone, "its answer is not RESP2");
    }
    let source = error.source().and_then(|it| it.downcast_ref::<Arc<dyn Error + Send + Sync>>());
    match source.and_then(|error| error.downcast_ref()) {
        Some(error) => broken(error),
        None => Failure::new(FailureKind::Gone, error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use redis::parse_redis_value;

    use super::*;

    fn read(text: &str) -> Answer {
        answer(parse_redis_value(text.as_bytes()).unwrap())
    }

    #[test]
    fn a_reply_has_a_bounded_number_of_levels() {
        let nested = |levels: usize| "*1\r\n".repeat(levels) + ":1\r\n";
        assert!(read(&nested(DEEPEST_REPLY)).is_ok());
        assert!(parse_redis_value(nested(200_000).as_bytes()).is_err());
        let failure = read(&nested(DEEPEST_REPLY + 1)).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Refused);
    }

    #[test]
    fn a_refusal_keeps_the_words_of_the_server() {
        for text in [
            "ERR unknown command",
            "NOSCRIPT No matching script.",
            "MISCONF  two  spaces",
            "ODD",
            "MOVED 3999 127.0.0.1:6381",
            "READONLY You can't write against a read only replica.",
        ] {
            assert_eq!(read(&format!("-{text}\r\n")).unwrap_err().text, text);
        }
        assert_eq!(read("-ASK 1 h:1\r\n").unwrap_err().kind, FailureKind::Redirected);
        assert_eq!(read("-NOAUTH\r\n").unwrap_err().kind, FailureKind::Refused);
    }

    #[test]
    fn an_answer_that_cannot_be_read_ends_the_connection() {
        let unread = unread(&parse_redis_value(b"HTTP/1.1 400\r\n").unwrap_err());
        assert_eq!(unread.kind, FailureKind::Gone);
    }

    #[test]
    fn a_lost_connection_is_told_by_the_error_of_the_system() {
        let reset = io::Error::from_raw_os_error(104);
        let text = format!("{reset:?}");
        assert_eq!(unread(&RedisError::from(reset)).text, text);
        let closed = RedisError::from(io::Error::from(io::ErrorKind::UnexpectedEof));
        assert_eq!(unread(&closed).text, "the server closed the connection");
    }
}
