//! [`Inspection`]: the state of a lock on the server.

use std::time::{Duration, SystemTime};

use crate::{
    observer::LockKind,
    permit_id::PermitId,
    protocol::{Snapshot, announcement::Announcement},
};

/// The state of a lock on the server, as [`Lock::inspect`](crate::Lock::inspect) read it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspection {
    /// The holders. Empty when the lock is free.
    pub holders: Vec<Holder>,
    /// How many more holders there are. At most about 10,000 are listed, in no order. Those that are
    /// not listed may be of either side of a read/write lock.
    pub more_holders: u64,
    /// How long the lock stays held if it is neither released nor renewed.
    pub remaining: Remaining,
    /// The waiters of a fair lock, the next one first. Empty for other kinds, whose waiters leave
    /// no trace on the server.
    pub queue: Vec<Waiter>,
    /// How many more waiters there are, behind the first 10,000.
    pub more_waiters: u64,
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
    /// Who that is, if its client [announces](crate::Config::announce) itself. `None` also when the
    /// announcement cannot be read in time, or may not be read, and beyond the first 2,000 holders.
    /// Redisson announces nothing: for a Java holder there is its [`id`](Self::id) only.
    pub announced: Option<Announced>,
}

/// What the client of a holder has announced about itself, and about its hold.
///
/// It is a hint, and may be late. Times are those of the server's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Announced {
    /// The name of the program: [`Config::announce`](crate::Config::announce).
    pub app: String,
    /// The host, where it is known.
    pub host: Option<String>,
    /// The process id on that host, or in its container.
    pub pid: Option<u32>,
    /// The version of the program, if it was
    /// [announced](crate::Config::announce_version).
    pub version: Option<String>,
    /// The version of this crate in that program.
    pub library: Option<String>,
    /// Since when the client is connected.
    pub since: SystemTime,
    /// How long ago the client wrote this. A client that lives writes every third of its
    /// [`watchdog`](crate::Config::watchdog), within 1 and 10 s, and after two of these periods if one
    /// write failed. After a longer time it has died, is closed, or cannot reach the server; or the
    /// server refuses the writes, or did so until lately: then up to six periods pass.
    pub last_seen: Duration,
    /// Since when it has this hold. `None` while the hold is younger than a third of the watchdog's
    /// time, or not announced yet.
    pub held_since: Option<SystemTime>,
    /// How long it has had this hold, likewise.
    pub held_for: Option<Duration>,
    /// What it [says](crate::LockGuard::note) about this hold.
    pub note: Option<String>,
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
    /// The key has no TTL. Neither this crate nor Redisson leaves a lock without one. Of a permit: it
    /// has no lease, as Redisson may acquire it.
    WithoutExpiry,
}

impl Inspection {
    pub(crate) fn new(snapshot: Snapshot, kind: LockKind, client: &str) -> Self {
        let ours = |id: &str| id.strip_prefix(client).is_some_and(|rest| rest.starts_with(':'));
        let (more_holders, more_waiters) = (snapshot.unread_fields(), snapshot.unread_waiters());
        let holders = snapshot
            .holders(kind.is_one_side())
            .into_iter()
            .map(|holder| Holder {
                ours: ours(&holder.id),
                count: holder.count,
                access: if holder.shares { Access::Shared } else { Access::Exclusive },
                id: holder.id,
                announced: None,
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
        Self { holders, more_holders, remaining, queue, more_waiters }
    }

    /// Adds what was announced about the holders.
    pub(crate) fn announced(&mut self, announced: Vec<Option<Announcement>>) {
        for (holder, one) in self.holders.iter_mut().zip(announced) {
            holder.announced = one.map(Announced::from);
        }
    }

    /// Whether the lock is held.
    pub fn is_locked(&self) -> bool {
        !self.holders.is_empty()
    }
}

impl From<Announcement> for Announced {
    fn from(read: Announcement) -> Self {
        let at = |ms| SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(ms));
        let ago = |ms| Duration::from_millis(read.now.saturating_sub(ms));
        let (held_since, note) =
            read.hold.map_or((None, None), |(since, note)| (Some(since), note));
        Self {
            app: read.app,
            host: read.host,
            pid: read.pid,
            version: read.version,
            library: read.library,
            since: at(read.since).unwrap_or(SystemTime::UNIX_EPOCH),
            last_seen: ago(read.seen),
            held_since: held_since.and_then(at),
            held_for: held_since.map(ago),
            note,
        }
    }
}

/// The state of an expirable semaphore on the server, as
/// [`ExpirableSemaphore::inspect`](crate::ExpirableSemaphore::inspect) read it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExpirableInspection {
    /// How many permits are free. Those whose lease has ended count as free. It may be negative.
    pub available: i64,
    /// How many permits are out.
    pub acquired: u64,
    /// The permits that are out, the next lease to end first. At most 1 000 of them.
    pub permits: Vec<PermitOut>,
}

/// A permit that is out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PermitOut {
    /// The id of the permit.
    pub id: PermitId,
    /// How long it stays out if it is neither released nor renewed, by the server's clock.
    pub remaining: Remaining,
    /// Whether the asking client acquired it.
    pub ours: bool,
}

impl ExpirableInspection {
    pub(crate) fn new(
        available: i64,
        acquired: u64,
        permits: Vec<(PermitId, Remaining)>,
        client: &str,
    ) -> Self {
        let out =
            |(id, remaining): (PermitId, _)| PermitOut { id, remaining, ours: id.is_of(client) };
        Self { available, acquired, permits: permits.into_iter().map(out).collect() }
    }
}
