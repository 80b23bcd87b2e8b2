//! The events of an [`Observer`](super::Observer).

use std::time::Duration;

use crate::error::{Error, Loss};

/// The kind of a lock, by the method of [`Client`](crate::Client) that makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LockKind {
    /// [`Client::lock`](crate::Client::lock).
    Reentrant,
    /// [`Client::non_reentrant_lock`](crate::Client::non_reentrant_lock).
    NonReentrant,
    /// [`Client::fair_lock`](crate::Client::fair_lock).
    Fair,
    /// [`Client::non_reentrant_fair_lock`](crate::Client::non_reentrant_fair_lock).
    NonReentrantFair,
    /// [`Client::fenced_lock`](crate::Client::fenced_lock).
    Fenced,
    /// [`Client::spin_lock`](crate::Client::spin_lock).
    Spin,
    /// [`Client::plain_lock`](crate::Client::plain_lock).
    Plain,
    /// The read side of [`Client::read_write_lock`](crate::Client::read_write_lock).
    Read,
    /// The write side of [`Client::read_write_lock`](crate::Client::read_write_lock).
    Write,
}

impl LockKind {
    /// Its stable name in metrics and spans: `reentrant`, `non_reentrant`, `fair`,
    /// `non_reentrant_fair`, `fenced`, `spin`, `plain`, `read` or `write`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reentrant => "reentrant",
            Self::NonReentrant => "non_reentrant",
            Self::Fair => "fair",
            Self::NonReentrantFair => "non_reentrant_fair",
            Self::Fenced => "fenced",
            Self::Spin => "spin",
            Self::Plain => "plain",
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// An acquisition begins to wait.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct WaitBegun<'a> {
    /// The lock's key on the server, prefix included.
    pub lock: &'a str,
    /// The kind of the lock.
    pub kind: LockKind,
}

/// An acquisition has ended.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct AcquireEnded<'a> {
    /// The lock's key on the server, prefix included.
    pub lock: &'a str,
    /// The kind of the lock.
    pub kind: LockKind,
    /// How it ended.
    pub outcome: Outcome,
    /// The id of the hold on the server, when it was granted.
    pub holder: Option<&'a str>,
    /// The error, with [`Outcome::Failed`].
    pub error: Option<&'a Error>,
    /// Whether [`wait_begun`](super::Observer::wait_begun) was called for it.
    pub waited: bool,
    /// How long it took, from its first poll.
    pub duration: Duration,
}

/// How an acquisition ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outcome {
    /// The server granted it.
    Granted,
    /// A local caller handed its hold off to it: see [`Config::reuse_holds`](crate::Config::reuse_holds).
    HandedOff,
    /// It shares the hold of other local readers: see [`Config::reuse_holds`](crate::Config::reuse_holds).
    Joined,
    /// The owner had the lock already. No hold begins.
    Reentered,
    /// Others had the lock until the end of the wait.
    Busy,
    /// It failed.
    Failed,
    /// Its future was dropped.
    Cancelled,
}

impl Outcome {
    /// Its stable name in metrics and spans: `granted`, `handed_off`, `joined`, `reentered`, `busy`,
    /// `failed` or `cancelled`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::HandedOff => "handed_off",
            Self::Joined => "joined",
            Self::Reentered => "reentered",
            Self::Busy => "busy",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// A caller has the lock.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct HoldBegun<'a> {
    /// The lock's key on the server, prefix included.
    pub lock: &'a str,
    /// The kind of the lock.
    pub kind: LockKind,
    /// The id of the hold on the server. A hold that is handed off may keep its id.
    pub holder: &'a str,
}

/// A caller does not have the lock any more.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct HoldEnded<'a> {
    /// The lock's key on the server, prefix included.
    pub lock: &'a str,
    /// The kind of the lock.
    pub kind: LockKind,
    /// The id of the hold on the server.
    pub holder: &'a str,
    /// How it ended.
    pub end: HoldEnd,
    /// How long the caller had it, from [`hold_begun`](super::Observer::hold_begun). It includes the
    /// release.
    pub duration: Duration,
}

/// How a hold ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HoldEnd {
    /// The server has confirmed the release.
    Released,
    /// The next local caller has it.
    HandedOff,
    /// It was lost, for this reason. A loss that only the release finds counts too.
    Lost(Loss),
    /// It was not released in time: the lease has ended, or ends soon.
    ReleaseGivenUp,
}

impl HoldEnd {
    /// Its stable name in metrics and spans: `released`, `handed_off`, `lost` or `release_given_up`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Released => "released",
            Self::HandedOff => "handed_off",
            Self::Lost(_) => "lost",
            Self::ReleaseGivenUp => "release_given_up",
        }
    }
}

/// The server has confirmed a renewal.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Renewal<'a> {
    /// The lock's key on the server, prefix included.
    pub lock: &'a str,
    /// The kind of the lock.
    pub kind: LockKind,
    /// The id of the hold on the server.
    pub holder: &'a str,
    /// How long the hold would still have been trusted without this renewal. Two thirds of
    /// [`Config::watchdog`](crate::Config::watchdog) are usual. Near zero, holds are about to be lost.
    pub margin: Duration,
}

/// A lock could not be released.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ReleaseFailed<'a> {
    /// The lock's key on the server, prefix included.
    pub lock: &'a str,
    /// The kind of the lock.
    pub kind: LockKind,
    /// The id of the hold on the server.
    pub holder: &'a str,
    /// Why.
    pub error: &'a Error,
    /// Whether it is not repeated any more. The lock then ends with its lease. A release that fails
    /// is told once, and once more if it is given up.
    pub given_up: bool,
}
