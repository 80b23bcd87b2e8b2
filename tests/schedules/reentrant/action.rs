//! What somebody may do next.

use std::fmt;

use super::call::{Id, Name};
use super::owner::Deed;
use crate::sim::Ms;

/// What somebody may do next.
#[derive(Debug, Clone)]
pub(crate) enum Action {
    /// An owner of ours.
    Deed(Name, Deed),
    /// The janitor sends a release to 0.
    Tidy(Id),
    /// The outsider, by our script or by Redisson's.
    Force {
        theirs: bool,
    },
    /// A thread of Redisson's.
    ThreadLocks(Name, Option<Ms>),
    ThreadUnlocks {
        who: Name,
        twice: bool,
    },
}

impl Action {
    /// Its class, for the taste of a schedule.
    pub(super) fn class(&self) -> usize {
        match self {
            Self::Deed(_, Deed::Acquire { .. }) | Self::ThreadLocks(..) => 0,
            Self::Deed(_, Deed::Again) => 1,
            Self::Deed(_, Deed::Resend) => 2,
            Self::Deed(_, Deed::Reenter { .. }) => 3,
            Self::Deed(_, Deed::Release) => 4,
            Self::Deed(_, Deed::Restate) => 5,
            Self::Deed(_, Deed::Cancel) => 6,
            Self::Deed(_, Deed::GiveUp) => 7,
            Self::Deed(_, Deed::Renew) => 8,
            Self::Deed(_, Deed::HandOver { .. }) => 9,
            Self::Tidy(_) => 10,
            Self::Force { .. } => 11,
            Self::ThreadUnlocks { .. } => 12,
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deed(who, Deed::HandOver { to }) => write!(f, "{who} hands over to {to}"),
            Self::Deed(who, Deed::Acquire { .. }) => write!(f, "{who} acquires"),
            Self::Deed(who, Deed::Again) => write!(f, "{who} tries again"),
            Self::Deed(who, Deed::Resend) => write!(f, "{who} sends another copy"),
            Self::Deed(who, Deed::Reenter { .. }) => write!(f, "{who} enters again"),
            Self::Deed(who, Deed::Release) => write!(f, "{who} releases"),
            Self::Deed(who, Deed::Restate) => write!(f, "{who} says its count again"),
            Self::Deed(who, Deed::Cancel) => write!(f, "{who} cancels"),
            Self::Deed(who, Deed::GiveUp) => write!(f, "{who} waits for the answer no longer"),
            Self::Deed(who, Deed::Renew) => write!(f, "{who} renews"),
            Self::Tidy(_) => write!(f, "the janitor releases"),
            Self::Force { .. } => write!(f, "an outsider unlocks by force"),
            Self::ThreadLocks(who, _) => write!(f, "Redisson's {who} locks"),
            Self::ThreadUnlocks { who, .. } => write!(f, "Redisson's {who} unlocks"),
        }
    }
}
