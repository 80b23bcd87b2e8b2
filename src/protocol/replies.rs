//! What replies of scripts mean, and the reading of those that all kinds have in common. What one kind
//! answers is read in its file.

use std::time::Duration;

use crate::{
    owner::{self, HoldId},
    wire::{Reply, WireError},
};

/// The result of a request that must have no effect after its not-after time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timely<T> {
    InTime(T),
    /// This copy came after its not-after time. Contains the server's time in ms.
    Late(u64),
}

/// The server's answer to an acquisition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AcquireReply {
    /// The caller holds the lock now. `token`: for a kind that has one.
    Granted { token: Option<u64> },
    /// Another holder has the lock, for this long. `None`: without expiry.
    Held(Option<Duration>),
}

impl AcquireReply {
    pub(super) fn held(pttl: i64) -> Self {
        Self::Held(u64::try_from(pttl).ok().map(Duration::from_millis))
    }

    /// Whether replicas have something to confirm after this reply to an acquisition.
    pub(crate) fn needs_confirmation(reply: &Reply) -> bool {
        !matches!(reply, Reply::Int(_))
    }
}

/// The result of a re-entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reentry {
    Granted,
    /// There is no hold to re-enter.
    Gone,
}

impl Reentry {
    /// Whether replicas have something to confirm after this reply to a re-entry.
    pub(crate) fn needs_confirmation(reply: &Reply) -> bool {
        *reply == Reply::Int(1)
    }
}

/// Reads the reply to [`Protocol::reenter`](super::Protocol::reenter).
pub(crate) fn reentered(reply: Reply) -> Result<Timely<Reentry>, WireError> {
    match reply {
        Reply::Int(1) => Ok(Timely::InTime(Reentry::Granted)),
        Reply::Int(0) => Ok(Timely::InTime(Reentry::Gone)),
        _ => late(&reply),
    }
}

/// Reads the reply to [`Protocol::release`](super::Protocol::release). `None`: there was nothing to
/// release. Otherwise how many clients got the message, if this kind counts them.
pub(crate) fn released(reply: Reply) -> Result<Option<u64>, WireError> {
    match reply {
        Reply::Int(0) => Ok(None),
        Reply::Int(released @ 1..) => Ok(Some(released as u64 - 1)),
        _ => Err(unexpected(&reply)),
    }
}

/// The result of a [`Protocol::extend`](super::Protocol::extend).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extended {
    /// The hold goes on. Contains the number of listeners on the channel, if known.
    Yes(Option<u64>),
    Gone,
}

/// Reads the reply to [`Protocol::extend`](super::Protocol::extend).
pub(crate) fn extended(reply: Reply) -> Result<Extended, WireError> {
    match reply {
        Reply::Int(0) => Ok(Extended::Gone),
        Reply::Int(-1) => Ok(Extended::Yes(None)),
        Reply::Int(answer @ 1..) => Ok(Extended::Yes(Some(answer as u64 - 1))),
        _ => Err(unexpected(&reply)),
    }
}

/// The result of a [`Protocol::force_unlock`](super::Protocol::force_unlock).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forced {
    Freed,
    NobodyHeld,
}

/// Reads the reply to [`Protocol::force_unlock`](super::Protocol::force_unlock).
pub(crate) fn forced(reply: Reply) -> Result<Timely<Forced>, WireError> {
    match reply {
        Reply::Int(1) => Ok(Timely::InTime(Forced::Freed)),
        Reply::Int(0) => Ok(Timely::InTime(Forced::NobodyHeld)),
        _ => late(&reply),
    }
}

/// The result of one renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renewed {
    Yes,
    /// The lock is free.
    Gone,
    /// Another holder has the lock.
    Taken,
}

/// Reads the reply to [`renew`](super::renewals::renew) of this many holds, hold by hold. One renewal
/// may be refused while others succeed.
pub(crate) fn renewed(
    reply: Reply,
    holds: usize,
) -> Result<Vec<Result<Renewed, WireError>>, WireError> {
    let answers = match &reply {
        Reply::Int(all) if usize::try_from(*all) == Ok(holds) => {
            return Ok(std::iter::repeat_with(|| Ok(Renewed::Yes)).take(holds).collect());
        }
        Reply::Array(answers) if answers.len() == holds => answers,
        Reply::Array(_) => {
            return Err(WireError::unreadable("renewals were answered in part"));
        }
        _ => return Err(unexpected(&reply)),
    };
    answers
        .iter()
        .map(|answer| match answer {
            Reply::Int(1) => Ok(Ok(Renewed::Yes)),
            Reply::Int(0) => Ok(Ok(Renewed::Gone)),
            Reply::Int(-1) => Ok(Ok(Renewed::Taken)),
            Reply::Bytes(text) => Ok(Err(WireError::from_server(&String::from_utf8_lossy(text)))),
            _ => Err(unexpected(&reply)),
        })
        .collect()
}

/// The state of a lock on the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// In ms. Negative values are those of Redis's PTTL.
    pub(crate) pttl: i64,
    /// The fields of the hash, or some of them.
    fields: Vec<(String, String)>,
    /// How many fields the hash has.
    all_fields: u64,
    /// The first waiters in order, and for how many ms each keeps its place.
    pub(crate) queue: Vec<(String, Option<i64>)>,
    /// How many waiters there are.
    all_waiters: u64,
}

/// One holder in a [`Snapshot`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SeenHolder {
    pub(crate) id: String,
    pub(crate) count: u64,
    /// Whether other holders may share the lock.
    pub(crate) shares: bool,
}

impl Snapshot {
    pub(crate) fn is_free(&self) -> bool {
        self.all_fields == 0
    }

    /// How many fields of the hash were not read.
    pub(crate) fn unread_fields(&self) -> u64 {
        self.all_fields.saturating_sub(self.fields.len() as u64)
    }

    /// How many waiters were not read.
    pub(crate) fn unread_waiters(&self) -> u64 {
        self.all_waiters.saturating_sub(self.queue.len() as u64)
    }

    pub(crate) fn has(&self, holder: &HoldId) -> bool {
        self.fields.iter().any(|(id, _)| id == holder.as_str())
    }

    /// Whether it is a lock with two sides.
    pub(crate) fn has_sides(&self) -> bool {
        self.fields.iter().any(|(id, _)| id == "mode")
    }

    /// The holders of the lock. The hash of a lock with two sides also has a field `mode`, and the
    /// ids of its writers end in `:write`.
    pub(crate) fn holders(&self, has_sides: bool) -> Vec<SeenHolder> {
        let holders = self.fields.iter().filter(|(id, _)| !has_sides || id != "mode");
        let seen = holders.map(|(id, count)| SeenHolder {
            id: id.clone(),
            count: count.parse().unwrap_or(0),
            shares: has_sides && !owner::is_writer(id),
        });
        seen.collect()
    }
}

/// Reads the reply to [`Protocol::inspect`](super::Protocol::inspect).
pub(crate) fn inspected(reply: Reply) -> Result<Snapshot, WireError> {
    let read = || {
        let Reply::Array(parts) = &reply else { return None };
        let pttl = parts.first()?.as_int()?;
        let fields = pairs(parts.get(1)?)?;
        let count = |at: usize, read: usize| match parts.get(at) {
            None => Some(read as u64),
            Some(count) => u64::try_from(count.as_int()?).ok(),
        };
        let all_fields = count(2, fields.len())?;
        let queue = parts.get(3).map_or(Some(Vec::new()), pairs)?;
        let queue: Vec<_> = queue.into_iter().map(|(id, left)| (id, left.parse().ok())).collect();
        let all_waiters = count(4, queue.len())?;
        Some(Snapshot { pttl, fields, all_fields, queue, all_waiters })
    };
    read().ok_or_else(|| unexpected(&reply))
}

fn pairs(reply: &Reply) -> Option<Vec<(String, String)>> {
    let Reply::Array(items) = reply else { return None };
    let pair = |pair: &[Reply]| Some((pair.first()?.as_text()?, pair.get(1)?.as_text()?));
    items.chunks(2).map(pair).collect()
}

/// Reads the reply to [`Protocol::token`](super::Protocol::token). It is text, because numbers in
/// Lua are less exact.
pub(crate) fn token(reply: &Reply) -> Result<u64, WireError> {
    let token = reply.as_text().and_then(|token| token.parse().ok());
    token.ok_or_else(|| unexpected(reply))
}

/// Reads the reply of a request that says whether it did something.
pub(crate) fn done(reply: Reply) -> Result<Timely<bool>, WireError> {
    match reply {
        Reply::Int(done @ 0..=1) => Ok(Timely::InTime(done == 1)),
        _ => late(&reply),
    }
}

/// Reads `{now}`, the reply of a script whose request was late, with the server's time.
pub(super) fn late<T>(reply: &Reply) -> Result<Timely<T>, WireError> {
    let now = match reply {
        Reply::Array(answers) if answers.len() == 1 => answers[0].as_int(),
        _ => None,
    };
    let now = now.and_then(|now| now.try_into().ok());
    now.map(Timely::Late).ok_or_else(|| unexpected(reply))
}

pub(super) fn unexpected(reply: &Reply) -> WireError {
    WireError::unreadable(format!("a reply that no script of ours gives: {reply:?}"))
}

#[cfg(test)]
mod tests;
