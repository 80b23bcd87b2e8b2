//! [`Protocol`]: what every kind of lock says of itself.

use std::{borrow::Cow, fmt, time::Duration};

use bytes::Bytes;

use super::{
    args::{ScriptArgs, Wish},
    plain,
    replies::{AcquireReply, Timely, late},
};
use crate::{
    owner::{HoldId, Identity},
    wire::{Invocation, Reply, Script, WireError},
};

/// A kind of lock, on one name. What is said here once and for all is the plain reentrant lock;
/// other kinds say where they differ.
pub(crate) trait Protocol: fmt::Debug + Send + Sync + 'static {
    /// The lock's key.
    fn key(&self) -> &Bytes;

    /// Who keeps the line of those who wait.
    fn order(&self) -> Order {
        Order::Local
    }

    /// The channel on which this waiter is told that it may look. `None`: nobody tells.
    fn channel(&self, id: &HoldId) -> Option<Cow<'_, str>>;

    /// A name for a new outermost hold.
    fn id(&self, identity: &Identity) -> HoldId {
        identity.next()
    }

    /// Takes the lock for a new outermost hold.
    fn acquire(&self, id: &HoldId, terms: ScriptArgs, wish: &Wish) -> Invocation;

    /// What an answer to `acquire` means.
    fn acquired(&self, reply: Reply) -> Result<Timely<AcquireReply>, WireError> {
        match reply {
            Reply::Nil => Ok(Timely::InTime(AcquireReply::Granted { token: None })),
            Reply::Int(pttl) => Ok(Timely::InTime(AcquireReply::held(pttl))),
            _ => late(&reply),
        }
    }

    /// The script that passes a hold on to another caller without the lock being free in between.
    /// `None`: holds of this kind are not passed on.
    fn passing(&self) -> Option<&'static Script> {
        None
    }

    /// Passes a hold on to another, of a kind that has `passing`; answered as `acquire`, but that it is
    /// another's when it is gone.
    fn pass(&self, from: &HoldId, to: &HoldId, terms: ScriptArgs) -> Invocation {
        let script = self.passing().expect("a kind that is passed on");
        let Invocation { keys, mut args, .. } = self.acquire(to, terms, &Wish::default());
        args.push(from.as_bytes().into());
        Invocation { script, keys, args }
    }

    /// Lets a hold go on for so many ms at least, and asks who listens; see [`extended`](super::extended).
    fn extend(&self, id: &HoldId, lease: u64) -> Invocation {
        let channel = self.channel(id).unwrap_or_default().into_owned();
        plain::extend(self.key(), id, lease, &channel.into())
    }

    /// Raises the hold count to `count`.
    fn reenter(&self, id: &HoldId, terms: ScriptArgs, count: u32) -> Invocation {
        plain::reenter(self.key(), id, terms, count)
    }

    /// Lowers the hold count to `count`; 0 frees the lock.
    fn release(&self, id: &HoldId, count: u32) -> Invocation;

    /// Takes back all that acquisitions under this name may have come to.
    fn undo(&self, id: &HoldId) -> Invocation {
        self.release(id, 0)
    }

    /// The script that renews holds of this kind, in batches; see [`renew`](super::renew).
    fn renewal(&self) -> &'static Script {
        &plain::RENEW
    }

    /// Whether others may cut the lease of a hold short, so that a fixed one has to be upheld.
    fn is_upheld(&self) -> bool {
        false
    }

    /// Frees the lock, whoever holds it. Not to be repeated.
    fn force_unlock(&self, not_after: u64) -> Invocation;

    /// Who holds the lock, and who waits.
    fn inspect(&self) -> Invocation {
        plain::inspect(self.key())
    }

    /// The fencing token that was given out last, of a kind that has one.
    fn token(&self) -> Option<Invocation> {
        None
    }
}

/// Who keeps the line of those who wait for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// The client: only the first of its waiters asks the server.
    Local,
    /// The client, but the lock may be shared: when the first gets in, so may all behind it.
    Shared,
    /// The server: each waiter asks for itself, and must be seen there every so often.
    Server { heartbeat: Duration },
}
