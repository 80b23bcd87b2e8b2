//! What somebody may do next.

use std::fmt;

use crate::reentrant::{Id, Name};
use crate::sim::Ms;

/// What somebody may do next.
#[derive(Debug, Clone)]
pub(crate) enum Action {
    /// An owner of ours.
    Deed(Name, Deed),
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
pub(crate) enum Deed {
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
    /// Its class, for the taste of a schedule.
    pub(super) fn class(&self) -> usize {
        match self {
            Self::Deed(_, Deed::Acquire { .. }) => 0,
            Self::ThreadLocks { .. } => 0,
            Self::Deed(_, Deed::Again) => 1,
            Self::Deed(_, Deed::Stall(_)) => 2,
            Self::Deed(_, Deed::Reenter { .. }) => 3,
            Self::Deed(_, Deed::Release) => 4,
            Self::Deed(_, Deed::Resend) => 5,
            Self::Deed(_, Deed::GiveUp) => 6,
            Self::Deed(_, Deed::Cancel) => 7,
            Self::Deed(_, Deed::Renew) => 8,
            Self::Deed(_, Deed::Die) => 9,
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
            Self::Deed(who, Deed::Acquire { wish: Wish::For(time), .. }) => {
                write!(f, "{who} acquires, waiting {time} at most")
            }
            Self::Deed(who, Deed::Acquire { wish: Wish::Try, .. }) => write!(f, "{who} tries"),
            Self::Deed(who, Deed::Acquire { .. }) => write!(f, "{who} acquires"),
            Self::Deed(who, Deed::Again) => write!(f, "{who} sends its turn again"),
            Self::Deed(who, Deed::Stall(time)) => write!(f, "{who} is not heard of for {time}"),
            Self::Deed(who, Deed::Reenter { .. }) => write!(f, "{who} enters again"),
            Self::Deed(who, Deed::Release) => write!(f, "{who} releases"),
            Self::Deed(who, Deed::Resend) => write!(f, "{who} sends another copy"),
            Self::Deed(who, Deed::GiveUp) => write!(f, "{who} waits for the answer no longer"),
            Self::Deed(who, Deed::Cancel) => write!(f, "{who} cancels"),
            Self::Deed(who, Deed::Renew) => write!(f, "{who} renews"),
            Self::Deed(who, Deed::Die) => write!(f, "{who} dies"),
            Self::Tidy(_) => write!(f, "the janitor withdraws"),
            Self::Force { .. } => write!(f, "an outsider unlocks by force"),
            Self::Meddle => write!(f, "a stranger releases"),
            Self::ThreadLocks { who, .. } => write!(f, "Redisson's {who} locks"),
            Self::ThreadUnlocks(who) => write!(f, "Redisson's {who} unlocks"),
            Self::ThreadDies(who) => write!(f, "Redisson's {who} dies"),
        }
    }
}
