//! What a kind of lock is: its scripts, keys and channel, and what their replies mean.
//!
//! Pure: nothing here waits, and nothing here knows of connections. A new kind is one more file
//! here and one more folder in `lua/`.

mod reentrant;

use std::fmt;

use bytes::Bytes;

pub(crate) use self::reentrant::Reentrant;
use crate::{
    owner::OwnerId,
    wire::{Arg, Invocation, Reply, Script, WireError},
};

/// A kind of lock, on one name.
pub(crate) trait Protocol: fmt::Debug + Send + Sync + 'static {
    /// The lock's key.
    fn key(&self) -> &Bytes;

    /// The channel on which the lock tells that it is free.
    fn channel(&self) -> &str;

    /// Takes the lock for a new outermost hold.
    fn acquire(&self, id: &OwnerId, terms: Terms) -> Invocation;

    /// What an answer to `acquire` means.
    fn acquired(&self, reply: Reply) -> Result<Attempt, WireError>;

    /// Raises the hold count to `count`.
    fn reenter(&self, id: &OwnerId, terms: Terms, count: u32) -> Invocation;

    /// What an answer to `reenter` means.
    fn reentered(&self, reply: Reply) -> Result<Reentry, WireError>;

    /// Lowers the hold count to `count`; 0 frees the lock.
    fn release(&self, id: &OwnerId, count: u32) -> Invocation;

    /// The script that renews holds of this kind, in batches; see [`renew`].
    fn renewal(&self) -> &'static Script;

    /// Frees the lock, whoever holds it. Not to be repeated.
    fn force_unlock(&self, not_after: u64) -> Invocation;

    /// Who holds the lock.
    fn inspect(&self) -> Invocation;
}

/// On what terms a hold is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// In ms.
    pub(crate) lease: u64,
    /// Server time in ms past which the request must have no effect.
    pub(crate) not_after: u64,
}

/// What became of an attempt to take a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    Won,
    /// Another holds it, for so many ms; `None`: without expiry.
    Held(Option<u64>),
    /// This copy came after its not-after; the server's time in ms.
    Late(u64),
}

/// What became of a re-entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reentry {
    Granted,
    /// There is no hold to enter again.
    Gone,
    /// As [`Attempt::Late`].
    Late(u64),
}

/// What an answer to [`Protocol::release`] means: was there anything to release?
pub(crate) fn released(reply: Reply) -> Result<bool, WireError> {
    match reply {
        Reply::Int(1) => Ok(true),
        Reply::Int(0) => Ok(false),
        _ => Err(unexpected(&reply)),
    }
}

/// What became of a [`Protocol::force_unlock`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forced {
    Freed,
    NobodyHeld,
    /// As [`Attempt::Late`].
    Late(u64),
}

/// What an answer to [`Protocol::force_unlock`] means.
pub(crate) fn forced(reply: Reply) -> Result<Forced, WireError> {
    match reply {
        Reply::Int(1) => Ok(Forced::Freed),
        Reply::Int(0) => Ok(Forced::NobodyHeld),
        _ => late(&reply).map(Forced::Late).ok_or_else(|| unexpected(&reply)),
    }
}

/// One hold in a batch of renewals.
#[derive(Clone, Debug)]
pub(crate) struct Renew {
    pub(crate) key: Bytes,
    pub(crate) id: OwnerId,
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

/// Renews a batch of holds of one kind to one lease, in ms.
pub(crate) fn renew<'a>(
    script: &'static Script,
    lease: u64,
    holds: impl ExactSizeIterator<Item = &'a Renew> + Clone,
) -> Invocation {
    let keys = holds.len();
    let mut args = Vec::with_capacity(2 * keys + 1);
    args.extend(holds.clone().map(|hold| Arg::from(&hold.key)));
    args.push(lease.into());
    args.extend(holds.map(|hold| Arg::from(hold.id.as_bytes())));
    Invocation { script, keys, args }
}

/// What an answer to [`renew`] means, hold by hold.
pub(crate) fn renewed(reply: Reply) -> Result<Vec<Renewed>, WireError> {
    let Reply::Array(answers) = &reply else {
        return Err(unexpected(&reply));
    };
    answers
        .iter()
        .map(|answer| match answer.as_int() {
            Some(1) => Ok(Renewed::Yes),
            Some(0) => Ok(Renewed::Gone),
            Some(-1) => Ok(Renewed::Taken),
            _ => Err(unexpected(&reply)),
        })
        .collect()
}

/// The hash of a lock and its TTL, as the server has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// In ms; negative as Redis's PTTL says it.
    pub(crate) pttl: i64,
    /// The fields of the hash.
    pub(crate) fields: Vec<(String, String)>,
}

/// What an answer to [`Protocol::inspect`] means.
pub(crate) fn inspected(reply: Reply) -> Result<Snapshot, WireError> {
    let Reply::Array(answers) = &reply else {
        return Err(unexpected(&reply));
    };
    let Some((Reply::Int(pttl), rest)) = answers.split_first() else {
        return Err(unexpected(&reply));
    };
    let fields = rest
        .chunks(2)
        .map(|pair| Some((pair.first()?.as_text()?, pair.get(1)?.as_text()?)))
        .collect::<Option<_>>()
        .ok_or_else(|| unexpected(&reply))?;
    Ok(Snapshot { pttl: *pttl, fields })
}

/// The server's time in `{now}`, the answer of a script that came too late.
fn late(reply: &Reply) -> Option<u64> {
    match reply {
        Reply::Array(answers) => answers.first()?.as_int()?.try_into().ok(),
        _ => None,
    }
}

fn unexpected(reply: &Reply) -> WireError {
    WireError::refused(format!("a reply that no script of ours gives: {reply:?}"))
}
