//! The possible actions of a step.

use std::fmt;

use super::owner::OwnerStep;
use crate::clients::{Id, Name};
use crate::model::Ms;

/// What somebody may do next.
#[derive(Debug, Clone)]
pub(crate) enum Action {
    /// An owner of ours.
    OwnerStep(Name, OwnerStep),
    /// An owner gives its hold to another one of the same process.
    HandOver {
        from: Name,
        to: Name,
    },
    /// The janitor sends a release to 0.
    Tidy(Id),
    /// The outsider, by our script or by Redisson's.
    Force {
        theirs: bool,
    },
    /// A thread of Redisson's.
    ThreadLocks(Id, Option<Ms>),
    ThreadUnlocks {
        who: Id,
        twice: bool,
    },
}

impl Action {
    /// Its class, for the bias of a schedule.
    pub(super) fn class(&self) -> usize {
        match self {
            Self::OwnerStep(_, step) => step.class(),
            Self::ThreadLocks(..) => 0,
            Self::HandOver { .. } => OwnerStep::CLASSES,
            Self::Tidy(_) => OwnerStep::CLASSES + 1,
            Self::Force { .. } => OwnerStep::CLASSES + 2,
            Self::ThreadUnlocks { .. } => OwnerStep::CLASSES + 3,
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OwnerStep(who, step) => write!(f, "{who} {step}"),
            Self::HandOver { from, to } => write!(f, "{from} hands over to {to}"),
            Self::Tidy(_) => write!(f, "the janitor releases"),
            Self::Force { .. } => write!(f, "an outsider unlocks by force"),
            Self::ThreadLocks(who, _) => write!(f, "Redisson's {who} locks"),
            Self::ThreadUnlocks { who, .. } => write!(f, "Redisson's {who} unlocks"),
        }
    }
}
