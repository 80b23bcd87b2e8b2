//! The possible actions of a step.

use std::fmt;

use super::call::{Id, Seat};
use crate::clients::{self, Name};
use crate::model::Ms;

/// What somebody may do next.
#[derive(Debug, Clone)]
pub(crate) enum Action {
    /// One side of an owner of ours.
    OwnerStep(Seat, OwnerStep),
    /// An owner's hold goes to its other side.
    Swap {
        from: Seat,
    },
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
pub(crate) type OwnerStep = clients::OwnerStep<Option<Ms>>;

impl Action {
    /// Its class, for the bias of a schedule.
    pub(super) fn class(&self) -> usize {
        match self {
            Self::OwnerStep(_, step) => step.class(),
            Self::ThreadLocks(..) => 0,
            Self::Stall(_) => OwnerStep::CLASSES,
            Self::Tidy(_) | Self::Wake(_) => OwnerStep::CLASSES + 1,
            Self::Force { .. } => OwnerStep::CLASSES + 2,
            Self::ThreadUnlocks { .. } => OwnerStep::CLASSES + 3,
            Self::Crash(_) => OwnerStep::CLASSES + 4,
            Self::PlainLock(_) | Self::PlainUnlock => OwnerStep::CLASSES + 5,
            Self::Swap { .. } => OwnerStep::CLASSES + 6,
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OwnerStep(who, step) => write!(f, "{who} {step}"),
            Self::Swap { from } => write!(f, "{from} changes sides"),
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
