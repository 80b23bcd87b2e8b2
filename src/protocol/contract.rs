//! [`Protocol`]: the trait that every kind of lock implements: its calls, and what their replies mean.

use std::{borrow::Cow, fmt, time::Duration};

use bytes::Bytes;

use super::{
    args::{ScriptArgs, Wish},
    replies::{AcquireReply, Timely, late},
};
use crate::{
    owner::{HoldId, Identity},
    wire::{Arg, Invocation, Reply, Script, WireError},
};

static EXTEND: Script = script!("reentrant/extend");
static REENTER: Script = script!("reentrant/reenter");
pub(super) static RENEW: Script = script!("reentrant/renew");
static INSPECT: Script = script!("reentrant/inspect");

/// How many holders, and how many waiters, an inspection lists. It bounds how long the server serves
/// no other client: 17 ms for 10,000 fields, 33 ms where there are more.
pub(super) const MOST_LISTED: u64 = 10_000;

/// A kind of lock, with one name. The default methods are those of the reentrant lock. Other
/// kinds override what differs.
pub(crate) trait Protocol: fmt::Debug + Send + Sync + 'static {
    /// The lock's key.
    fn key(&self) -> &Bytes;

    /// Who orders the waiters.
    fn order(&self) -> Order {
        Order::Local
    }

    /// The channel that wakes this waiter. `None`: no message does.
    fn channel(&self, id: &HoldId) -> Option<Cow<'_, str>>;

    /// Whether waiters poll, although messages wake them: other clients of the lock send none.
    fn polls(&self) -> bool {
        false
    }

    /// A new id for an outermost hold.
    fn id(&self, identity: &Identity) -> HoldId {
        identity.next()
    }

    /// Acquires the lock for a new outermost hold.
    fn acquire(&self, id: &HoldId, args: ScriptArgs, wish: &Wish) -> Invocation;

    /// Reads the reply to `acquire`.
    fn acquired(&self, reply: Reply) -> Result<Timely<AcquireReply>, WireError> {
        match reply {
            Reply::Nil => Ok(Timely::InTime(AcquireReply::Granted { token: None })),
            Reply::Int(pttl) => Ok(Timely::InTime(AcquireReply::held(pttl))),
            _ => late(&reply),
        }
    }

    /// The script that moves a hold to another id without freeing the lock in between. `None`:
    /// holds of this kind are not handed off.
    fn swap_script(&self) -> Option<&'static Script> {
        None
    }

    /// Moves a hold to another id, for a kind that has `swap_script`. The reply is that of `acquire`.
    /// If the hold is gone, the lock counts as another's.
    fn swap(&self, from: &HoldId, to: &HoldId, args: ScriptArgs) -> Invocation {
        let script = self.swap_script().expect("a kind whose holds are swapped");
        let Invocation { keys, mut args, .. } = self.acquire(to, args, &Wish::default());
        args.push(from.as_bytes().into());
        Invocation { script, keys, args }
    }

    /// Extends a hold to at least this many ms, and asks how many listeners the channel has. See
    /// [`extended`](super::extended).
    fn extend(&self, id: &HoldId, lease: u64) -> Invocation {
        let channel = Bytes::from(self.channel(id).unwrap_or_default().into_owned());
        let args = vec![
            self.key().into(),
            id.as_bytes().into(),
            lease.into(),
            (&channel).into(),
            Arg::Listening,
        ];
        Invocation { script: &EXTEND, keys: 1, args }
    }

    /// Raises the hold count to `count`.
    fn reenter(&self, id: &HoldId, args: ScriptArgs, count: u32) -> Invocation {
        let args = vec![
            self.key().into(),
            id.as_bytes().into(),
            args.lease.into(),
            args.not_after.into(),
            u64::from(count).into(),
        ];
        Invocation { script: &REENTER, keys: 1, args }
    }

    /// Lowers the hold count to `count`. 0 frees the lock.
    fn release(&self, id: &HoldId, count: u32) -> Invocation;

    /// How many messages a release sends that frees the lock.
    fn messages_of_a_release(&self) -> u64 {
        1
    }

    /// Undoes everything that acquisitions with this id may have done.
    fn undo(&self, id: &HoldId) -> Invocation {
        self.release(id, 0)
    }

    /// The script that renews holds of this kind in batches. See [`renew`](super::renew).
    fn renewal(&self) -> &'static Script {
        &RENEW
    }

    /// Whether other clients may shorten a hold's lease. If so, a fixed lease is sent again by the
    /// watchdog.
    fn is_upheld(&self) -> bool {
        false
    }

    /// Frees the lock, whoever holds it. Must not be repeated.
    fn force_unlock(&self, not_after: u64) -> Invocation;

    /// Reads the holders and the waiters, a bounded number of them.
    fn inspect(&self) -> Invocation {
        let args = vec![self.key().into(), MOST_LISTED.into()];
        Invocation { script: &INSPECT, keys: 1, args }
    }

    /// Reads one holder, and whether the lock is free.
    fn look_for(&self, id: &HoldId) -> Invocation {
        let args = vec![self.key().into(), MOST_LISTED.into(), id.as_bytes().into()];
        Invocation { script: &INSPECT, keys: 1, args }
    }

    /// Reads the last fencing token, for a kind that has tokens.
    fn token(&self) -> Option<Invocation> {
        None
    }
}

/// Who orders the waiters of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// The client. Only its first waiter asks the server.
    Local,
    /// The client, but the lock can be shared. When the first waiter is granted, all behind it may
    /// try.
    Shared,
    /// The server. Each waiter asks for itself, once every heartbeat at least.
    Server { heartbeat: Duration },
}
