//! What a kind of lock is: its scripts, keys and channel, and what their replies mean.
//!
//! Pure: nothing here waits, and nothing here knows of connections. A new kind is one more file
//! here and one more folder in `lua/`.

mod combine;
mod fair;
mod fenced;
mod kind;
mod read_write;
mod reentrant;

use std::{borrow::Cow, fmt, time::Duration};

use bytes::{Bytes, BytesMut};

use self::reentrant::Reentrant;
pub(crate) use self::{
    combine::{combine, combined, is_combinable},
    kind::{Kind, Side},
};
use crate::{
    owner::{Identity, OwnerId},
    wire::{Arg, Invocation, Reply, Script, WireError},
};

macro_rules! script {
    ($name:literal) => {
        Script::new($name, include_str!(concat!("../../lua/", $name, ".lua")))
    };
}
use script;

/// A kind of lock, on one name. What is said here once and for all is the plain reentrant lock;
/// other kinds say where they differ.
pub(crate) trait Protocol: fmt::Debug + Send + Sync + 'static {
    /// The lock's key.
    fn key(&self) -> &Bytes;

    /// Who keeps the line of those who wait.
    fn line(&self) -> Line {
        Line::Ours
    }

    /// The channel on which this waiter is told that it may look. `None`: nobody tells.
    fn channel(&self, id: &OwnerId) -> Option<Cow<'_, str>>;

    /// A name for a new outermost hold.
    fn id(&self, identity: &Identity) -> OwnerId {
        identity.next()
    }

    /// Takes the lock for a new outermost hold.
    fn acquire(&self, id: &OwnerId, terms: Terms, wish: &Wish) -> Invocation;

    /// What an answer to `acquire` means.
    fn acquired(&self, reply: Reply) -> Result<Attempt, WireError> {
        match reply {
            Reply::Nil => Ok(Attempt::Won { token: None }),
            Reply::Int(pttl) => Ok(Attempt::Held(u64::try_from(pttl).ok())),
            _ => late(&reply).map(Attempt::Late).ok_or_else(|| unexpected(&reply)),
        }
    }

    /// The script that passes a hold on to another caller without the lock being free in between.
    /// `None`: holds of this kind are not passed on.
    fn passing(&self) -> Option<&'static Script> {
        None
    }

    /// Passes a hold on to another, of a kind that has `passing`; answered as `acquire`, but that it is
    /// another's when it is gone.
    fn pass(&self, from: &OwnerId, to: &OwnerId, terms: Terms) -> Invocation {
        let script = self.passing().expect("a kind that is passed on");
        let Invocation { keys, mut args, .. } = self.acquire(to, terms, &Wish::default());
        args.push(from.as_bytes().into());
        Invocation { script, keys, args }
    }

    /// Lets a hold go on for so many ms at least, and asks who listens; see [`extended`].
    fn extend(&self, id: &OwnerId, lease: u64) -> Invocation {
        let channel = self.channel(id).unwrap_or_default().into_owned();
        reentrant::extend(self.key(), id, lease, &channel.into())
    }

    /// Raises the hold count to `count`.
    fn reenter(&self, id: &OwnerId, terms: Terms, count: u32) -> Invocation {
        reentrant::reenter(self.key(), id, terms, count)
    }

    /// Lowers the hold count to `count`; 0 frees the lock.
    fn release(&self, id: &OwnerId, count: u32) -> Invocation;

    /// Takes back all that acquisitions under this name may have come to.
    fn undo(&self, id: &OwnerId) -> Invocation {
        self.release(id, 0)
    }

    /// The script that renews holds of this kind, in batches; see [`renew`].
    fn renewal(&self) -> &'static Script {
        &reentrant::RENEW
    }

    /// Whether others may cut the lease of a hold short, so that a fixed one has to be upheld.
    fn is_upheld(&self) -> bool {
        false
    }

    /// Frees the lock, whoever holds it. Not to be repeated.
    fn force_unlock(&self, not_after: u64) -> Invocation;

    /// Who holds the lock, and who waits.
    fn inspect(&self) -> Invocation {
        reentrant::inspect(self.key())
    }

    /// The fencing token that was given out last, of a kind that has one.
    fn token(&self) -> Option<Invocation> {
        None
    }
}

/// Who keeps the line of those who wait for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// The client: only the first of its waiters asks the server.
    Ours,
    /// The client, but the lock may be shared: when the first gets in, so may all behind it.
    Shared,
    /// The server: each waiter asks for itself, and must be seen there every so often.
    Servers { heartbeat: Duration },
}

/// What kind of acquisition is asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wish {
    /// Whether to stand in the server's line when it is another's turn.
    pub(crate) stand: bool,
    /// The caller's own write hold, under which it wants to read.
    pub(crate) under: Option<OwnerId>,
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
    Won {
        token: Option<u64>,
    },
    /// It is another's, for so many ms; `None`: without expiry.
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

/// What an answer to [`Protocol::reenter`] means.
pub(crate) fn reentered(reply: Reply) -> Result<Reentry, WireError> {
    match reply {
        Reply::Int(1) => Ok(Reentry::Granted),
        Reply::Int(0) => Ok(Reentry::Gone),
        _ => late(&reply).map(Reentry::Late).ok_or_else(|| unexpected(&reply)),
    }
}

/// What an answer to [`Protocol::release`] means. `None`: there was nothing to release. Else how many
/// were told, as far as this kind says.
pub(crate) fn released(reply: Reply) -> Result<Option<u64>, WireError> {
    match reply {
        Reply::Int(0) => Ok(None),
        Reply::Int(released @ 1..) => Ok(Some(released as u64 - 1)),
        _ => Err(unexpected(&reply)),
    }
}

/// What became of a [`Protocol::extend`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extended {
    /// The hold goes on; so many listen to the channel, if that can be told.
    Yes(Option<u64>),
    Gone,
}

/// What an answer to [`Protocol::extend`] means.
pub(crate) fn extended(reply: Reply) -> Result<Extended, WireError> {
    match reply {
        Reply::Int(0) => Ok(Extended::Gone),
        Reply::Int(-1) => Ok(Extended::Yes(None)),
        Reply::Int(answer @ 1..) => Ok(Extended::Yes(Some(answer as u64 - 1))),
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

/// Renews a batch of holds of one kind, each to a lease in ms.
pub(crate) fn renew<'a>(
    script: &'static Script,
    holds: impl ExactSizeIterator<Item = (&'a Renew, u64)> + Clone,
) -> Invocation {
    let reads = script.or_with_one_key;
    let keys = holds.len() * if reads { 2 } else { 1 };
    // All words in one piece of memory: to count the references to each costs more than to copy it.
    let bytes = holds.clone().map(|(hold, _)| hold.key.len() + hold.id.as_bytes().len()).sum();
    let mut text = BytesMut::with_capacity(bytes);
    let mut word = |word: &[u8]| {
        text.extend_from_slice(word);
        Arg::Bytes(text.split().freeze())
    };
    let mut args = Vec::with_capacity(keys + 2 * holds.len());
    args.extend(holds.clone().map(|(hold, _)| word(&hold.key)));
    if reads {
        let timeouts = holds.clone().map(|(hold, _)| read_write::timeout(&hold.key, &hold.id));
        args.extend(timeouts.map(Arg::Bytes));
    }
    args.extend(holds.flat_map(|(hold, lease)| [word(hold.id.as_bytes()), Arg::from(lease)]));
    Invocation { script, keys, args }
}

/// Renews a hold whose two keys are apart, each where it is: the hold itself, and then what lives
/// beside it. `None`: such a hold has one key.
pub(crate) fn renew_apart(
    script: &'static Script,
    hold: &Renew,
    lease: u64,
) -> Option<[Invocation; 2]> {
    script.or_with_one_key.then(|| {
        let lock = renew(&reentrant::RENEW, std::iter::once((hold, lease)));
        [lock, read_write::renew_apart(&hold.key, &hold.id, lease)]
    })
}

/// What an answer to [`renew`] means, hold by hold: a renewal may be refused without its neighbours.
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
    pub(crate) fields: Vec<(String, String)>,
    /// Who waits, in order, and for how many ms its place is kept.
    pub(crate) queue: Vec<(String, Option<i64>)>,
}

/// What an answer to [`Protocol::inspect`] means.
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

/// What an answer to [`Protocol::token`] means. It is a text: no number of Lua's is as exact.
pub(crate) fn token(reply: &Reply) -> Result<u64, WireError> {
    let token = reply.as_text().and_then(|token| token.parse().ok());
    token.ok_or_else(|| unexpected(reply))
}

/// The server's time in `{now}`, the answer of a script that came too late.
fn late(reply: &Reply) -> Option<u64> {
    match reply {
        Reply::Array(answers) if answers.len() == 1 => answers[0].as_int()?.try_into().ok(),
        _ => None,
    }
}

fn unexpected(reply: &Reply) -> WireError {
    WireError::refused(format!("a reply that no script of ours gives: {reply:?}"))
}
