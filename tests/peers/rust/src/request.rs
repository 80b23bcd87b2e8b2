//! One line of stdin.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use crate::answers::Failure;

/// Whoever misspells a field is told so.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    pub(crate) op: Op,
    #[serde(default)]
    pub(crate) kind: Kind,
    name: Option<String>,
    #[serde(default)]
    names: Vec<String>,
    pub(crate) owner: Option<String>,
    lease_ms: Option<u64>,
    wait_ms: Option<u64>,
    owners: Option<usize>,
    millis: Option<u64>,
    #[serde(default)]
    pub(crate) each: bool,
    #[serde(default)]
    hold_us: u64,
    pub(crate) counter: Option<String>,
    pub(crate) until: Option<u64>,
    write_percent: Option<u8>,
    room: Option<String>,
    /// Permits, or the count of a latch.
    n: Option<i64>,
    /// Permits of an expirable semaphore.
    #[serde(default)]
    pub(crate) ids: Vec<String>,
    /// Of traffic.
    pub(crate) plan: Option<Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Op {
    Hello,
    Lock,
    TryLock,
    Cancel,
    Unlock,
    ForceUnlock,
    IsLocked,
    IsHeld,
    HoldCount,
    RemainingMs,
    Token,
    /// Of a semaphore or a latch, as the next four.
    Set,
    Count,
    CountDown,
    Add,
    Drain,
    /// Of an expirable semaphore, as the next three.
    SetTotal,
    Acquired,
    Permits,
    SetLease,
    Lost,
    /// Asks the holders to release the lock.
    Ask,
    /// Waits until the owner's hold was asked for.
    Asked,
    Inspect,
    Loop,
    Traffic,
    Calm,
    Rest,
    Close,
}

/// The kinds of lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    #[default]
    Lock,
    Fair,
    Read,
    Write,
    Fenced,
    NonReentrant,
    NonReentrantFair,
    Spin,
    Plain,
    Semaphore,
    ExpirableSemaphore,
    Latch,
    /// All of several plain locks.
    Multi,
    /// More than half of several plain locks.
    Majority,
    /// Both sides of a read/write lock, for a loop that takes now the one and now the other.
    ReadWrite,
    /// No lock at all, for a loop that shows what goes wrong then.
    None,
}

impl Request {
    /// The `id`, whatever it is, and what is asked for.
    pub(crate) fn parse(line: &str) -> (Value, Result<Self, Failure>) {
        let mut fields = match serde_json::from_str(line) {
            Ok(Value::Object(fields)) => fields,
            _ => {
                let failure = Failure::invalid(format!("not a JSON object: {line}"));
                return (Value::Null, Err(failure));
            }
        };
        let id = fields.remove("id").unwrap_or_default();
        let request = serde_json::from_value::<Self>(Value::Object(fields))
            .map_err(Failure::invalid)
            .and_then(Self::checked);
        (id, request)
    }

    fn checked(self) -> Result<Self, Failure> {
        let needs_owner = matches!(
            self.op,
            Op::Lock
                | Op::TryLock
                | Op::Cancel
                | Op::Unlock
                | Op::IsHeld
                | Op::HoldCount
                | Op::Lost
                | Op::Asked
        );
        match &self.owner {
            None if needs_owner => Err(missing("owner")),
            Some(owner) if owner.is_empty() => Err(Failure::invalid("owner is empty")),
            _ => Ok(self),
        }
    }

    pub(crate) fn name(&self) -> Result<&str, Failure> {
        self.name.as_deref().ok_or_else(|| missing("name"))
    }

    /// The name of the lock, or the names of those it is made of.
    pub(crate) fn names(&self) -> Result<Vec<String>, Failure> {
        match self.kind {
            Kind::Multi | Kind::Majority if self.names.iter().any(String::is_empty) => {
                Err(Failure::invalid("names must be non-empty strings"))
            }
            Kind::Multi | Kind::Majority if self.names.is_empty() => Err(missing("names")),
            Kind::Multi | Kind::Majority => Ok(self.names.clone()),
            _ => Ok(vec![self.name()?.to_owned()]),
        }
    }

    pub(crate) fn lease(&self) -> Option<Duration> {
        self.lease_ms.map(Duration::from_millis)
    }

    pub(crate) fn wait(&self) -> Option<Duration> {
        self.wait_ms.map(Duration::from_millis)
    }

    /// How many permits, or how large a count: 1 if not said.
    pub(crate) fn n<N: TryFrom<i64>>(&self) -> Result<N, Failure> {
        self.n.unwrap_or(1).try_into().map_err(|_| Failure::invalid("n is out of range"))
    }

    pub(crate) fn owners(&self) -> Result<usize, Failure> {
        at_least_one("owners", self.owners)
    }

    pub(crate) fn time(&self) -> Result<Duration, Failure> {
        at_least_one("millis", self.millis).map(Duration::from_millis)
    }

    /// How many turns of a hundred write, of a loop that reads and writes.
    pub(crate) fn write_percent(&self) -> Result<Option<u8>, Failure> {
        match (self.kind, self.write_percent) {
            (Kind::ReadWrite, Some(0..=100)) => Ok(self.write_percent),
            (Kind::ReadWrite, _) | (_, Some(_)) => {
                Err(Failure::invalid("write_percent is for the kind read_write, and from 0 to 100"))
            }
            (_, None) => Ok(None),
        }
    }

    /// The room of a loop's exclusive locks.
    pub(crate) fn room(&self) -> Result<Option<&str>, Failure> {
        match (self.kind, &self.room) {
            (Kind::ReadWrite | Kind::Read, Some(_)) => {
                Err(Failure::invalid("a room is for one at a time, which readers are not"))
            }
            (_, room) => Ok(room.as_deref()),
        }
    }

    pub(crate) fn hold(&self) -> Duration {
        Duration::from_micros(self.hold_us)
    }
}

fn at_least_one<N: Default + PartialEq>(field: &str, number: Option<N>) -> Result<N, Failure> {
    let number = number.ok_or_else(|| missing(field))?;
    if number == N::default() {
        return Err(Failure::invalid(format!("{field} must be at least 1")));
    }
    Ok(number)
}

pub(crate) fn missing(field: &str) -> Failure {
    Failure::invalid(format!("{field} is missing"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::Code;

    #[test]
    fn a_request_is_read() {
        let (id, request) =
            Request::parse(r#"{"id":"x","op":"try_lock","name":"n","owner":"o","wait_ms":20}"#);
        let request = request.unwrap();
        assert_eq!(id, "x");
        assert_eq!((request.op, request.kind), (Op::TryLock, Kind::Lock));
        assert_eq!(request.name().unwrap(), "n");
        assert_eq!(request.wait(), Some(Duration::from_millis(20)));
    }

    #[test]
    fn what_makes_no_sense_is_invalid_and_keeps_its_id() {
        for line in [
            r#"{"id":7}"#,
            r#"{"id":7,"op":"dance"}"#,
            r#"{"id":7,"op":"is_locked","kind":"padlock","name":"n"}"#,
            r#"{"id":7,"op":"lock","name":"n"}"#,
            r#"{"id":7,"op":"lock","name":"n","owner":""}"#,
            r#"{"id":7,"op":"lock","name":"n","owner":"o","lease_ms":-1}"#,
            r#"{"id":7,"op":"lock","name":"n","owner":"o","lease":1}"#,
        ] {
            let (id, request) = Request::parse(line);
            assert_eq!(id, 7);
            assert_eq!(request.unwrap_err().code, Code::Invalid, "{line}");
        }
        let (id, request) = Request::parse("lock it");
        assert_eq!((id, request.unwrap_err().code), (Value::Null, Code::Invalid));
    }
}
