//! The possible actions of a step.

use std::fmt;

use super::call::{Id, Seat};
use crate::clients::Name;
use crate::model::Ms;

/// What somebody may do next.
#[derive(Debug, Clone)]
pub(crate) enum Action {
    /// One side of an owner of ours.
    OwnerStep(Seat, OwnerStep),
    /// An owner's process does nothing for a while, or never again.
    Stall(Name),
    Wake(Name),
    Crash(Name),
    /// The janitor sends a release to 0.
    Tidy(Id),
    /// The outsider, by our script or by Redisson's.
    Force {
        write: bool,
        theirs: bool,
    },
    /// A thread of Redisson's.
    ThreadLocks(Seat, Option<Ms>),
    ThreadUnlocks {
        seat: Seat,
        twice: bool,
    },
    /// A stranger, for whom this name is that of a plain lock.
    PlainLock(Ms),
    PlainUnlock,
}

/// What one side of an owner can do next. A lease of `None` is the watchdog's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum OwnerStep {
    /// Wish for the lock.
    Acquire {
        lease: Option<Ms>,
    },
    /// Try again after a refusal.
    Again,
    /// Send another copy: the answer has not come.
    Resend,
    Reenter {
        lease: Option<Ms>,
    },
    Release,
    Restate,
    /// Drop the wish for the lock, or for one hold more.
    Cancel,
    /// No answer will be waited for any longer.
    GiveUp,
    Renew,
}

impl Action {
    /// Its class, for the bias of a schedule.
    pub(super) fn class(&self) -> usize {
        match self {
            Self::OwnerStep(_, OwnerStep::Acquire { .. }) | Self::ThreadLocks(..) => 0,
            Self::OwnerStep(_, OwnerStep::Again) => 1,
            Self::OwnerStep(_, OwnerStep::Resend) => 2,
            Self::OwnerStep(_, OwnerStep::Reenter { .. }) => 3,
            Self::OwnerStep(_, OwnerStep::Release) => 4,
            Self::OwnerStep(_, OwnerStep::Restate) => 5,
            Self::OwnerStep(_, OwnerStep::Cancel) => 6,
            Self::OwnerStep(_, OwnerStep::GiveUp) => 7,
            Self::OwnerStep(_, OwnerStep::Renew) => 8,
            Self::Stall(_) => 9,
            Self::Tidy(_) | Self::Wake(_) => 10,
            Self::Force { .. } => 11,
            Self::ThreadUnlocks { .. } => 12,
            Self::Crash(_) => 13,
            Self::PlainLock(_) | Self::PlainUnlock => 14,
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OwnerStep(who, OwnerStep::Acquire { .. }) => write!(f, "{who} acquires"),
            Self::OwnerStep(who, OwnerStep::Again) => write!(f, "{who} tries again"),
            Self::OwnerStep(who, OwnerStep::Resend) => write!(f, "{who} sends another copy"),
            Self::OwnerStep(who, OwnerStep::Reenter { .. }) => write!(f, "{who} enters again"),
            Self::OwnerStep(who, OwnerStep::Release) => write!(f, "{who} releases"),
            Self::OwnerStep(who, OwnerStep::Restate) => write!(f, "{who} says its count again"),
            Self::OwnerStep(who, OwnerStep::Cancel) => write!(f, "{who} cancels"),
            Self::OwnerStep(who, OwnerStep::GiveUp) => {
                write!(f, "{who} waits for the answer no longer")
            }
            Self::OwnerStep(who, OwnerStep::Renew) => write!(f, "{who} renews"),
            Self::Stall(who) => write!(f, "{who} stalls"),
            Self::Wake(who) => write!(f, "{who} goes on"),
            Self::Crash(who) => write!(f, "{who} crashes"),
            Self::Tidy(_) => write!(f, "the janitor releases"),
            Self::Force { .. } => write!(f, "an outsider unlocks by force"),
            Self::ThreadLocks(who, _) => write!(f, "Redisson's {who} locks"),
            Self::ThreadUnlocks { seat, .. } => write!(f, "Redisson's {seat} unlocks"),
            Self::PlainLock(_) => write!(f, "a stranger takes a plain lock"),
            Self::PlainUnlock => write!(f, "the stranger gives it back"),
        }
    }
}
