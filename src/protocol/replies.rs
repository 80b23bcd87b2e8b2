//! What the scripts answer, and what that means.

use std::time::Duration;

use crate::{
    owner::HoldId,
    wire::{Reply, WireError},
};

/// What a request came to that must have no effect past its not-after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timely<T> {
    InTime(T),
    /// This copy came after its not-after; the server's time in ms.
    Late(u64),
}

/// What the server says to whoever wants a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AcquireReply {
    /// It is the caller's from now on. `token`: of a kind that has one.
    Granted { token: Option<u64> },
    /// It is another's, for so long; `None`: without expiry.
    Held(Option<Duration>),
}

impl AcquireReply {
    pub(super) fn held(pttl: i64) -> Self {
        Self::Held(u64::try_from(pttl).ok().map(Duration::from_millis))
    }

    /// Whether replicas have anything to confirm when this is the reply to an acquisition.
    pub(crate) fn is_to_be_confirmed(reply: &Reply) -> bool {
        !matches!(reply, Reply::Int(_))
    }
}

/// What became of a re-entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reentry {
    Granted,
    /// There is no hold to enter again.
    Gone,
}

impl Reentry {
    /// Whether replicas have anything to confirm when this is the reply to a re-entry.
    pub(crate) fn is_to_be_confirmed(reply: &Reply) -> bool {
        *reply == Reply::Int(1)
    }
}

/// What an answer to [`Protocol::reenter`](super::Protocol::reenter) means.
pub(crate) fn reentered(reply: Reply) -> Result<Timely<Reentry>, WireError> {
    match reply {
        Reply::Int(1) => Ok(Timely::InTime(Reentry::Granted)),
        Reply::Int(0) => Ok(Timely::InTime(Reentry::Gone)),
        _ => late(&reply),
    }
}

/// What an answer to [`Protocol::release`](super::Protocol::release) means. `None`: there was nothing to release. Else how many
/// were told, as far as this kind says.
pub(crate) fn released(reply: Reply) -> Result<Option<u64>, WireError> {
    match reply {
        Reply::Int(0) => Ok(None),
        Reply::Int(released @ 1..) => Ok(Some(released as u64 - 1)),
        _ => Err(unexpected(&reply)),
    }
}

/// What became of a [`Protocol::extend`](super::Protocol::extend).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extended {
    /// The hold goes on; so many listen to the channel, if that can be told.
    Yes(Option<u64>),
    Gone,
}

/// What an answer to [`Protocol::extend`](super::Protocol::extend) means.
pub(crate) fn extended(reply: Reply) -> Result<Extended, WireError> {
    match reply {
        Reply::Int(0) => Ok(Extended::Gone),
        Reply::Int(-1) => Ok(Extended::Yes(None)),
        Reply::Int(answer @ 1..) => Ok(Extended::Yes(Some(answer as u64 - 1))),
        _ => Err(unexpected(&reply)),
    }
}

/// What became of a [`Protocol::force_unlock`](super::Protocol::force_unlock).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forced {
    Freed,
    NobodyHeld,
}

/// What an answer to [`Protocol::force_unlock`](super::Protocol::force_unlock) means.
pub(crate) fn forced(reply: Reply) -> Result<Timely<Forced>, WireError> {
    match reply {
        Reply::Int(1) => Ok(Timely::InTime(Forced::Freed)),
        Reply::Int(0) => Ok(Timely::InTime(Forced::NobodyHeld)),
        _ => late(&reply),
    }
}

/// What became of one renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renewed {
    Yes,
    /// The lock is free.
    Gone,
    /// The lock is another's.
    Taken,
}

/// What an answer to [`renew`](super::renewals::renew) means, hold by hold: a renewal may be refused without its neighbours.
pub(crate) fn renewed(reply: Reply) -> Result<Vec<Result<Renewed, WireError>>, WireError> {
    let Reply::Array(answers) = &reply else {
        return Err(unexpected(&reply));
    };
    answers
        .iter()
        .map(|answer| match answer {
            Reply::Int(1) => Ok(Ok(Renewed::Yes)),
            Reply::Int(0) => Ok(Ok(Renewed::Gone)),
            Reply::Int(-1) => Ok(Ok(Renewed::Taken)),
            Reply::Bytes(text) => Ok(Err(WireError::said(&String::from_utf8_lossy(text)))),
            _ => Err(unexpected(&reply)),
        })
        .collect()
}

/// A lock as the server has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// In ms; negative as Redis's PTTL says it.
    pub(crate) pttl: i64,
    /// The fields of the hash.
    fields: Vec<(String, String)>,
    /// Who waits, in order, and for how many ms its place is kept.
    pub(crate) queue: Vec<(String, Option<i64>)>,
}

/// One holder in a [`Snapshot`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SeenHolder {
    pub(crate) id: String,
    pub(crate) count: u64,
    /// Whether others may hold the lock beside it.
    pub(crate) shares: bool,
}

impl Snapshot {
    pub(crate) fn is_free(&self) -> bool {
        self.fields.is_empty()
    }

    pub(crate) fn has(&self, holder: &HoldId) -> bool {
        self.fields.iter().any(|(id, _)| id == holder.as_str())
    }

    /// Who holds the lock. The hash of a lock with two sides has a field `mode` beside them, and the ids of its
    /// writers end in `:write`.
    pub(crate) fn holders(&self, has_sides: bool) -> Vec<SeenHolder> {
        let holders = self.fields.iter().filter(|(id, _)| !has_sides || id != "mode");
        let seen = holders.map(|(id, count)| SeenHolder {
            id: id.clone(),
            count: count.parse().unwrap_or(0),
            shares: has_sides && !id.ends_with(":write"),
        });
        seen.collect()
    }
}

/// What an answer to [`Protocol::inspect`](super::Protocol::inspect) means.
pub(crate) fn inspected(reply: Reply) -> Result<Snapshot, WireError> {
    let read = || {
        let Reply::Array(parts) = &reply else { return None };
        let pttl = parts.first()?.as_int()?;
        let fields = pairs(parts.get(1)?)?;
        let queue = parts.get(2).map_or(Some(Vec::new()), pairs)?;
        let queue = queue.into_iter().map(|(id, left)| (id, left.parse().ok())).collect();
        Some(Snapshot { pttl, fields, queue })
    };
    read().ok_or_else(|| unexpected(&reply))
}

fn pairs(reply: &Reply) -> Option<Vec<(String, String)>> {
    let Reply::Array(items) = reply else { return None };
    let pair = |pair: &[Reply]| Some((pair.first()?.as_text()?, pair.get(1)?.as_text()?));
    items.chunks(2).map(pair).collect()
}

/// What an answer to [`Protocol::token`](super::Protocol::token) means. It is a text: no number of Lua's is as exact.
pub(crate) fn token(reply: &Reply) -> Result<u64, WireError> {
    let token = reply.as_text().and_then(|token| token.parse().ok());
    token.ok_or_else(|| unexpected(reply))
}

/// `{now}`, the answer of a script that came too late, with the server's time.
pub(super) fn late<T>(reply: &Reply) -> Result<Timely<T>, WireError> {
    let now = match reply {
        Reply::Array(answers) if answers.len() == 1 => answers[0].as_int(),
        _ => None,
    };
    let now = now.and_then(|now| now.try_into().ok());
    now.map(Timely::Late).ok_or_else(|| unexpected(reply))
}

pub(super) fn unexpected(reply: &Reply) -> WireError {
    WireError::refused(format!("a reply that no script of ours gives: {reply:?}"))
}
