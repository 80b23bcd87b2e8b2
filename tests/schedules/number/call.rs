//! The calls of the clients.

use std::fmt;

use crate::clients::Name;
use crate::model::{self, Ms, StepId};

/// The world in which these calls are made.
pub(super) type World<'s> = model::World<'s, Call>;

/// One copy of a request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call {
    pub(super) who: Name,
    /// The request, of which there may be several copies. Its id is made of this.
    pub(super) operation: StepId,
    /// This copy.
    pub(super) copy: StepId,
    pub(super) verb: Verb,
    pub(super) not_after: Ms,
    /// Earlier requests that the server may forget.
    pub(super) settled: Vec<StepId>,
    /// Whether it is a call of Redisson's script.
    pub(super) theirs: bool,
}

/// What is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Set(i64),
    Acquire(i64),
    /// The return of permits that an acquisition took.
    Release {
        permits: i64,
        of: StepId,
    },
    Add(i64),
    /// Redisson's takes whatever there is.
    Drain {
        expected: i64,
    },
    CountDown,
    /// Undoes a request that took so many permits.
    Withdraw(i64),
    /// Lets no copy of a request do anything.
    Cancel,
    /// An operator's.
    Delete,
    Expire(Ms),
}

impl Verb {
    pub(super) fn is_operators(self) -> bool {
        matches!(self, Self::Delete | Self::Expire(_))
    }

    /// Whether it undoes another request.
    pub(super) fn is_undo(self) -> bool {
        matches!(self, Self::Withdraw(_) | Self::Cancel)
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Set(n) => write!(f, "set to {n}"),
            Self::Acquire(n) => write!(f, "acquire {n}"),
            Self::Release { permits, of } => write!(f, "release {permits} of {of}"),
            Self::Add(n) => write!(f, "add {n}"),
            Self::Drain { expected } => write!(f, "drain {expected}"),
            Self::CountDown => write!(f, "count down"),
            Self::Withdraw(n) => write!(f, "withdraw {n}"),
            Self::Cancel => write!(f, "cancel"),
            Self::Delete => write!(f, "delete"),
            Self::Expire(ttl) => write!(f, "expire in {ttl}"),
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { who, operation, verb, not_after, .. } = self;
        let whose = if self.theirs { "Redisson's " } else { "" };
        write!(f, "{whose}{verb} ({who}:{operation}")?;
        if *not_after < Ms::MAX {
            write!(f, ", not after {not_after}")?;
        }
        write!(f, ")")
    }
}
