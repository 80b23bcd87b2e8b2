//! The kinds of lock, and the scenarios that they share.

use harness::{Lang, latch_channel, lock_channel, read_write_channel, semaphore_channel};

/// A kind of lock, as `tests/peers/README.md` names it. A new kind is a variant here and a place in the lists below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Lock,
    Fair,
    Read,
    Write,
    Fenced,
    NonReentrant,
    NonReentrantFair,
    Spin,
    /// No lock: permits without owners.
    Semaphore,
    /// No lock: permits with ids and leases.
    ExpirableSemaphore,
    /// No lock: a count that others wait for.
    Latch,
    /// All of three plain locks.
    Multi,
    /// More than half of three plain locks.
    Majority,
}

/// One holder at a time.
pub(crate) const EXCLUSIVE: &[Kind] = &[
    Kind::Lock,
    Kind::Fair,
    Kind::Write,
    Kind::Fenced,
    Kind::NonReentrant,
    Kind::NonReentrantFair,
    Kind::Spin,
];
/// One holder at a time, in the four ways that differ most: for scenarios that cost a process or much time.
pub(crate) const MAIN: &[Kind] = &[Kind::Lock, Kind::Fair, Kind::Write, Kind::Fenced];
/// One holder at a time, who may take it again.
pub(crate) const REENTRANT: &[Kind] =
    &[Kind::Lock, Kind::Fair, Kind::Write, Kind::Fenced, Kind::Spin];
/// Whoever waits is woken by a message.
pub(crate) const WAKING: &[Kind] = &[
    Kind::Lock,
    Kind::Fair,
    Kind::Write,
    Kind::Fenced,
    Kind::NonReentrant,
    Kind::NonReentrantFair,
];
/// All who wait listen on one channel.
pub(crate) const COMMON_CHANNEL: &[Kind] =
    &[Kind::Lock, Kind::Write, Kind::Fenced, Kind::NonReentrant];
/// A free lock has nothing to give back, and Redisson says so.
pub(crate) const NOT_FAIR: &[Kind] =
    &[Kind::Lock, Kind::Read, Kind::Write, Kind::Fenced, Kind::NonReentrant, Kind::Spin];
pub(crate) const EVERY: &[Kind] = &[
    Kind::Lock,
    Kind::Fair,
    Kind::Read,
    Kind::Write,
    Kind::Fenced,
    Kind::NonReentrant,
    Kind::NonReentrantFair,
    Kind::Spin,
];
/// One holder at a time, and a waiter who is interrupted leaves: one of Redisson's fair lock stays in line.
pub(crate) const ABANDONED: &[Kind] =
    &[Kind::Lock, Kind::Write, Kind::Fenced, Kind::NonReentrant, Kind::Spin];
/// As [`EXCLUSIVE`], but no waiter of Redisson's misses its message: one for a write lock does if it comes too soon.
pub(crate) const CROWDED: &[Kind] =
    &[Kind::Lock, Kind::Fair, Kind::Fenced, Kind::NonReentrant, Kind::NonReentrantFair, Kind::Spin];
/// Each has keys or channels named in its own way.
pub(crate) const NAMED: &[Kind] = &[Kind::Lock, Kind::Fair, Kind::Read, Kind::Fenced];
pub(crate) const LOCK: &[Kind] = &[Kind::Lock];
pub(crate) const FAIR: &[Kind] = &[Kind::Fair, Kind::NonReentrantFair];
/// Scenarios of the two sides of a read/write lock.
pub(crate) const READ: &[Kind] = &[Kind::Read];
pub(crate) const WRITE: &[Kind] = &[Kind::Write];
pub(crate) const FENCED: &[Kind] = &[Kind::Fenced];
pub(crate) const NON_REENTRANT: &[Kind] = &[Kind::NonReentrant, Kind::NonReentrantFair];
pub(crate) const SPIN: &[Kind] = &[Kind::Spin];
/// Made of several plain locks.
pub(crate) const SEVERAL: &[Kind] = &[Kind::Multi, Kind::Majority];
pub(crate) const SEMAPHORE: &[Kind] = &[Kind::Semaphore];
pub(crate) const EXPIRABLE: &[Kind] = &[Kind::ExpirableSemaphore];
pub(crate) const LATCH: &[Kind] = &[Kind::Latch];
pub(crate) const MULTI: &[Kind] = &[Kind::Multi];
pub(crate) const MAJORITY: &[Kind] = &[Kind::Majority];

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::Fair => "fair",
            Self::Read => "read",
            Self::Write => "write",
            Self::Fenced => "fenced",
            Self::NonReentrant => "non_reentrant",
            Self::NonReentrantFair => "non_reentrant_fair",
            Self::Spin => "spin",
            Self::Semaphore => "semaphore",
            Self::ExpirableSemaphore => "expirable_semaphore",
            Self::Latch => "latch",
            Self::Multi => "multi",
            Self::Majority => "majority",
        }
    }

    /// The channel of a lock of this name; of a fair lock, what stands before `:` and the waiter's id.
    pub(crate) fn channel(self, name: &str) -> String {
        match self {
            Self::Read | Self::Write => read_write_channel(name),
            Self::Semaphore | Self::ExpirableSemaphore => semaphore_channel(name),
            Self::Latch => latch_channel(name),
            _ => lock_channel(name),
        }
    }

    /// What its release by such a peer tells a channel that somebody listens to.
    ///
    /// Redisson's writers say that all may go. One of them that is about to sleep misses that, so ours also wake one.
    pub(crate) fn release_messages(self, lang: Lang) -> &'static [&'static str] {
        match (self, lang) {
            (Self::Write, Lang::Rust) => &["1", "0"],
            (Self::Write, _) => &["1"],
            _ => &["0"],
        }
    }

    /// Waiters stand in a line on the server.
    pub(crate) fn is_fair(self) -> bool {
        matches!(self, Self::Fair | Self::NonReentrantFair)
    }

    /// How many times a scenario takes it, where once or more is all the same.
    pub(crate) fn depth(self) -> i64 {
        if matches!(self, Self::NonReentrant | Self::NonReentrantFair) { 1 } else { 2 }
    }
}
