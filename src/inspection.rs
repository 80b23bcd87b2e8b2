//! What one sees who asks about a lock.

use std::time::Duration;

use crate::protocol::{Kind, Side, Snapshot};

/// What [`Lock::inspect`](crate::Lock::inspect) saw.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspection {
    /// Who holds the lock. Empty when it is free.
    pub holders: Vec<Holder>,
    /// How long the lock is still held if nothing happens.
    pub remaining: Remaining,
    /// Who waits for a fair lock, the next one first. Empty for all other kinds: there waiters leave
    /// no trace on the server.
    pub queue: Vec<Waiter>,
}

/// One holder of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// `<client uuid>:<number>`; the number is the thread's id where the holder is Java.
    pub id: String,
    /// How many times it holds the lock.
    pub count: u64,
    /// Whether this is a hold of the client that asked.
    pub ours: bool,
    /// Whether others may hold the lock beside it.
    pub access: Access,
}

/// Whether a hold bears others beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// A reader.
    Shared,
    /// A writer, or the holder of any lock but a read/write lock.
    Exclusive,
}

/// One who waits for a fair lock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiter {
    /// As [`Holder::id`].
    pub id: String,
    /// Whether this is a waiter of the client that asked.
    pub ours: bool,
    /// How long its place is kept if it is not seen any more. Waiters of this crate are seen every
    /// few seconds, those of Redisson only once. `None`: for ever.
    pub kept_for: Option<Duration>,
}

/// How long a lock is still held if it is neither released nor renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remaining {
    /// Nobody holds it.
    Free,
    /// For so long.
    Held(Duration),
    /// Until it is released. Neither we nor Redisson leave a lock without expiry.
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

    /// Whether anybody holds the lock.
    pub fn is_locked(&self) -> bool {
        !self.holders.is_empty()
    }
}
