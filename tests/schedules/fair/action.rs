//! The possible actions of a step.

use std::fmt;

use crate::clients::{Id, Name};
use crate::model::Ms;

/// What somebody may do next.
#[derive(Debug, Clone)]
pub(crate) enum Action {
    /// An owner of ours.
    OwnerStep(Name, OwnerStep),
    /// The janitor withdraws.
    Tidy(Id),
    /// The outsider, by our script or by Redisson's.
    Force {
        theirs: bool,
    },
    /// A stranger releases what it does not hold.
    Meddle,
    /// A thread of Redisson's, whose clock is wrong by so much.
    ThreadLocks {
        who: Name,
        lease: Option<Ms>,
        wait: Option<Ms>,
        skew: i64,
    },
    ThreadUnlocks(Name),
    ThreadDies(Name),
}

/// What an owner of ours can do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum OwnerStep {
    /// Wish for the lock.
    Acquire {
        lease: Ms,
        wish: Wish,
    },
    /// Send another copy of its turn.
    Again,
    /// Be heard of no more for so long.
    Stall(Ms),
    Reenter {
        lease: Ms,
    },
    Release,
    /// Send another copy of what has not been answered.
    Resend,
    /// Wait for that answer no longer.
    GiveUp,
    /// Drop the wish for the lock.
    Cancel,
    Renew,
    /// Its process ends.
    Die,
}

/// How long an owner is ready to wait.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Wish {
    Ever,
    For(Ms),
    /// Not at all.
    Try,
}

impl Action {
    /// Its class, for the bias of a schedule.
    pub(super) fn class(&self) -> usize {
        match self {
            Self::OwnerStep(_, OwnerStep::Acquire { .. }) => 0,
            Self::ThreadLocks { .. } => 0,
            Self::OwnerStep(_, OwnerStep::Again) => 1,
            Self::OwnerStep(_, OwnerStep::Stall(_)) => 2,
            Self::OwnerStep(_, OwnerStep::Reenter { .. }) => 3,
            Self::OwnerStep(_, OwnerStep::Release) => 4,
            Self::OwnerStep(_, OwnerStep::Resend) => 5,
            Self::OwnerStep(_, OwnerStep::GiveUp) => 6,
            Self::OwnerStep(_, OwnerStep::Cancel) => 7,
            Self::OwnerStep(_, OwnerStep::Renew) => 8,
            Self::OwnerStep(_, OwnerStep::Die) => 9,
            Self::Tidy(_) => 10,
            Self::Force { .. } => 11,
            Self::ThreadUnlocks(_) => 12,
            Self::ThreadDies(_) => 13,
            Self::Meddle => 14,
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OwnerStep(who, OwnerStep::Acquire { wish: Wish::For(time), .. }) => {
                write!(f, "{who} acquires, waiting {time} at most")
            }
            Self::OwnerStep(who, OwnerStep::Acquire { wish: Wish::Try, .. }) => {
                write!(f, "{who} tries")
            }
            Self::OwnerStep(who, OwnerStep::Acquire { .. }) => write!(f, "{who} acquires"),
            Self::OwnerStep(who, OwnerStep::Again) => write!(f, "{who} sends its turn again"),
            Self::OwnerStep(who, OwnerStep::Stall(time)) => {
                write!(f, "{who} is not heard of for {time}")
            }
            Self::OwnerStep(who, OwnerStep::Reenter { .. }) => write!(f, "{who} enters again"),
            Self::OwnerStep(who, OwnerStep::Release) => write!(f, "{who} releases"),
            Self::OwnerStep(who, OwnerStep::Resend) => write!(f, "{who} sends another copy"),
            Self::OwnerStep(who, OwnerStep::GiveUp) => {
                write!(f, "{who} waits for the answer no longer")
            }
            Self::OwnerStep(who, OwnerStep::Cancel) => write!(f, "{who} cancels"),
            Self::OwnerStep(who, OwnerStep::Renew) => write!(f, "{who} renews"),
            Self::OwnerStep(who, OwnerStep::Die) => write!(f, "{who} dies"),
            Self::Tidy(_) => write!(f, "the janitor withdraws"),
            Self::Force { .. } => write!(f, "an outsider unlocks by force"),
            Self::Meddle => write!(f, "a stranger releases"),
            Self::ThreadLocks { who, .. } => write!(f, "Redisson's {who} locks"),
            Self::ThreadUnlocks(who) => write!(f, "Redisson's {who} unlocks"),
            Self::ThreadDies(who) => write!(f, "Redisson's {who} dies"),
        }
    }
}
