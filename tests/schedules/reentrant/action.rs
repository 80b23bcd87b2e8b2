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
            Self::OwnerStep(_, OwnerStep::Acquire { .. }) | Self::ThreadLocks(..) => 0,
            Self::OwnerStep(_, OwnerStep::Again) => 1,
            Self::OwnerStep(_, OwnerStep::Resend) => 2,
            Self::OwnerStep(_, OwnerStep::Reenter { .. }) => 3,
            Self::OwnerStep(_, OwnerStep::Release) => 4,
            Self::OwnerStep(_, OwnerStep::Restate) => 5,
            Self::OwnerStep(_, OwnerStep::Cancel) => 6,
            Self::OwnerStep(_, OwnerStep::GiveUp) => 7,
            Self::OwnerStep(_, OwnerStep::Renew) => 8,
            Self::OwnerStep(_, OwnerStep::HandOver { .. }) => 9,
            Self::Tidy(_) => 10,
            Self::Force { .. } => 11,
            Self::ThreadUnlocks { .. } => 12,
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OwnerStep(who, OwnerStep::HandOver { to }) => {
                write!(f, "{who} hands over to {to}")
            }
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
            Self::Tidy(_) => write!(f, "the janitor releases"),
            Self::Force { .. } => write!(f, "an outsider unlocks by force"),
            Self::ThreadLocks(who, _) => write!(f, "Redisson's {who} locks"),
            Self::ThreadUnlocks { who, .. } => write!(f, "Redisson's {who} unlocks"),
        }
    }
}
