//! [`Inspection`]: the state of a lock on the server.

use std::time::Duration;

use crate::protocol::{Kind, Side, Snapshot};

/// The state of a lock on the server, as [`Lock::inspect`](crate::Lock::inspect) read it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspection {
    /// The holders. Empty when the lock is free.
    pub holders: Vec<Holder>,
    /// How long the lock stays held if it is neither released nor renewed.
    pub remaining: Remaining,
    /// The waiters of a fair lock, the next one first. Empty for other kinds, whose waiters leave
    /// no trace on the server.
    pub queue: Vec<Waiter>,
}

/// A holder of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The holder id, `<client uuid>:<number>`. For a Java holder the number is the thread's id.
    pub id: String,
    /// The hold count: how often the holder has entered the lock.
    pub count: u64,
    /// Whether the asking client made this hold.
    pub ours: bool,
    /// Whether other holders may share the lock.
    pub access: Access,
}

/// Whether a hold can be shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// A read hold.
    Shared,
    /// A write hold, or a hold on any lock that is not a read/write lock.
    Exclusive,
}

/// A waiter of a fair lock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiter {
    /// The waiter's id, in the form of [`Holder::id`].
    pub id: String,
    /// Whether the asking client made this waiter.
    pub ours: bool,
    /// How long the waiter keeps its place if it does not ask again. Waiters of this crate ask
    /// every few seconds; those of Redisson ask only once. `None`: the place has no end.
    pub kept_for: Option<Duration>,
}

/// How long a lock stays held if it is neither released nor renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remaining {
    /// The lock is free.
    Free,
    /// The lock's TTL.
    Held(Duration),
    /// The key has no TTL. Neither this crate nor Redisson leaves a lock without one.
    WithoutExpiry,
}

impl Inspection {
    pub(crate) fn new(snapshot: Snapshot, kind: Kind, client: &str) -> Self {
        let ours = |id: &str| id.strip_prefix(client).is_some_and(|rest| rest.starts_with(':'));
        let holders = snapshot
            .holders(kind.side() != Side::Whole)
            .into_iter()
            .map(|holder| Holder {
                ours: ours(&holder.id),
                count: holder.count,
                access: if holder.shares { Access::Shared } else { Access::Exclusive },
                id: holder.id,
            })
            .collect();
        let queue = snapshot
            .queue
            .into_iter()
            .map(|(id, left)| Waiter {
                ours: ours(&id),
                kept_for: left.map(|ms| Duration::from_millis(ms.try_into().unwrap_or(0))),
                id,
            })
            .collect();
        let remaining = match snapshot.pttl {
            -2 => Remaining::Free,
            pttl => u64::try_from(pttl)
                .map_or(Remaining::WithoutExpiry, |ms| Remaining::Held(Duration::from_millis(ms))),
        };
        Self { holders, remaining, queue }
    }

    /// Whether the lock is held.
    pub fn is_locked(&self) -> bool {
        !self.holders.is_empty()
    }
}
