//! The answers: one whole line of stdout each, from any task.

use std::fmt::Display;
use std::io::{Write, stdout};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use redisson_lock::{Error, Remaining};
use serde::Serialize;
use serde_json::Value;

/// The `id` of a request that has not been answered yet.
#[derive(Debug)]
pub(crate) struct Ticket(Value);

/// Why a request failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    message: String,
}

/// The errors of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Code {
    NotHeld,
    WrongKind,
    WouldDeadlock,
    NotReplicated,
    Cancelled,
    Invalid,
    Closed,
    Redis,
}

/// The fields of an answer in their order.
#[derive(Serialize)]
struct Answer {
    id: Value,
    ok: bool,
    #[serde(flatten)]
    outcome: Outcome,
    us: u64,
    at: u64,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Outcome {
    Success { value: Value },
    Failure { error: Code, message: String },
}

impl Ticket {
    pub(crate) fn new(id: Value) -> Self {
        Self(id)
    }

    /// Carries out what was asked for, takes the time, and answers.
    pub(crate) async fn work(self, work: impl Future<Output = Result<Value, Failure>>) {
        let start = Instant::now();
        self.answer(start, work.await);
    }

    pub(crate) fn answer(self, start: Instant, result: Result<Value, Failure>) {
        // In this order: `at` less `us` is never later than the operation was begun.
        let at = SystemTime::now().duration_since(UNIX_EPOCH);
        let us = start.elapsed();
        let answer = Answer {
            id: self.0,
            ok: result.is_ok(),
            outcome: match result {
                Ok(value) => Outcome::Success { value },
                Err(Failure { code, message }) => Outcome::Failure { error: code, message },
            },
            us: micros(us),
            at: micros(at.expect("a clock of this century")),
        };
        let mut line = serde_json::to_vec(&answer).expect("an answer as JSON");
        line.push(b'\n');
        let mut out = stdout().lock();
        // When nobody reads any more, the end of stdin is near.
        let _ = out.write_all(&line).and_then(|()| out.flush());
    }
}

impl From<Code> for judge::Code {
    fn from(code: Code) -> Self {
        match code {
            Code::WrongKind => Self::WrongKind,
            Code::WouldDeadlock => Self::WouldDeadlock,
            Code::NotReplicated => Self::NotReplicated,
            Code::Invalid => Self::Invalid,
            Code::Closed => Self::Closed,
            Code::NotHeld | Code::Cancelled | Code::Redis => Self::Redis,
        }
    }
}

impl Failure {
    pub(crate) fn new(code: Code, message: impl Display) -> Self {
        Self { code, message: message.to_string() }
    }

    pub(crate) fn invalid(message: impl Display) -> Self {
        Self::new(Code::Invalid, message)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match error {
            Error::NotHeld { .. } => Code::NotHeld,
            Error::WrongKind { .. } => Code::WrongKind,
            Error::WouldDeadlock { .. } => Code::WouldDeadlock,
            Error::NotReplicated { .. } => Code::NotReplicated,
            Error::Invalid(_) | Error::Config(_) => Code::Invalid,
            Error::Closed => Code::Closed,
            _ => Code::Redis,
        };
        Self::new(code, error)
    }
}

impl From<redis::RedisError> for Failure {
    fn from(error: redis::RedisError) -> Self {
        Self::new(Code::Redis, error)
    }
}

pub(crate) fn micros(time: Duration) -> u64 {
    time.as_micros().try_into().expect("a time of this age")
}

pub(crate) fn not_held() -> Failure {
    Failure::new(Code::NotHeld, "this owner does not hold the lock")
}

pub(crate) fn millis(remaining: Remaining) -> i64 {
    match remaining {
        Remaining::Held(time) => time.as_millis().try_into().unwrap_or(i64::MAX),
        Remaining::WithoutExpiry => -1,
        Remaining::Free => -2,
    }
}
