//! What an owner of this crate can do next.

use std::fmt;

/// What an owner can do next. `L` is what it asks for as a lease.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum OwnerStep<L> {
    /// Wish for the lock.
    Acquire {
        lease: L,
    },
    /// Try again after a refusal.
    Again,
    /// Send another copy: the answer has not come.
    Resend,
    Reenter {
        lease: L,
    },
    Release,
    Restate,
    /// Drop the wish for the lock, or for one hold more.
    Cancel,
    /// No answer will be waited for any longer.
    GiveUp,
    Renew,
}

impl<L> OwnerStep<L> {
    /// The number of classes.
    pub(crate) const CLASSES: usize = 9;

    /// The last steps of an owner that wants nothing any more.
    pub(crate) const LAST: [Self; 3] = [Self::GiveUp, Self::Cancel, Self::Release];

    /// Its class, for the bias of a schedule.
    pub(crate) fn class(&self) -> usize {
        match self {
            Self::Acquire { .. } => 0,
            Self::Again => 1,
            Self::Resend => 2,
            Self::Reenter { .. } => 3,
            Self::Release => 4,
            Self::Restate => 5,
            Self::Cancel => 6,
            Self::GiveUp => 7,
            Self::Renew => 8,
        }
    }
}

impl<L> fmt::Display for OwnerStep<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Acquire { .. } => "acquires",
            Self::Again => "tries again",
            Self::Resend => "sends another copy",
            Self::Reenter { .. } => "enters again",
            Self::Release => "releases",
            Self::Restate => "says its count again",
            Self::Cancel => "cancels",
            Self::GiveUp => "waits for the answer no longer",
            Self::Renew => "renews",
        })
    }
}
