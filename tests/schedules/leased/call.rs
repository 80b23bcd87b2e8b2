//! The calls of the clients, and the permits that they are about.

use std::fmt;

use crate::clients::Name;
use crate::model::{self, Ms, StepId};

/// The world in which these calls are made.
pub(super) type World<'s> = model::World<'s, Call>;

/// The permits of one acquisition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Permits {
    pub(super) whose: Name,
    pub(super) of: StepId,
    pub(super) n: usize,
}

impl Permits {
    /// Their ids, of 16 bytes each.
    pub(super) fn ids(self) -> Vec<String> {
        let Self { whose, of, n } = self;
        (0..n).map(|i| format!("{whose}{of:011}{i:04}")).collect()
    }
}

/// One copy of a request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call {
    pub(super) who: Name,
    pub(super) operation: StepId,
    pub(super) verb: Verb,
    pub(super) not_after: Ms,
    pub(super) settled: Vec<StepId>,
    /// A call of Redisson's, by a clock that is ahead by so much.
    pub(super) theirs: Option<Ms>,
}

/// What is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Set(i64),
    By(i64),
    To(i64),
    /// Without a lease only Redisson's.
    Acquire {
        n: usize,
        lease: Option<Ms>,
    },
    Release {
        permits: Permits,
        /// A copy of the acquisition may still run.
        withdraws: bool,
    },
    Renew {
        permits: Permits,
        lease: Ms,
    },
    SetLease {
        permits: Permits,
        lease: Ms,
    },
    /// Gives an acquisition up.
    Withdraw(usize),
    /// Redisson's question for the free permits, which returns those whose lease has ended.
    Count,
    /// An operator's: of the number alone, or of the permits too.
    Delete {
        both: bool,
    },
    Expire {
        ttl: Ms,
        both: bool,
    },
}

impl Call {
    pub(super) fn new(who: Name, operation: StepId, verb: Verb) -> Self {
        let (not_after, settled, theirs) = (Ms::MAX, Vec::new(), None);
        Self { who, operation, verb, not_after, settled, theirs }
    }

    /// The permits that it takes or returns.
    pub(super) fn permits(&self) -> Permits {
        let own = |n| Permits { whose: self.who, of: self.operation, n };
        match self.verb {
            Verb::Acquire { n, .. } | Verb::Withdraw(n) => own(n),
            Verb::Release { permits, .. }
            | Verb::Renew { permits, .. }
            | Verb::SetLease { permits, .. } => permits,
            _ => own(0),
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { who, operation, verb, not_after, theirs, .. } = self;
        let whose = if theirs.is_some() { "Redisson's " } else { "" };
        write!(f, "{whose}{verb:?} ({who}:{operation}")?;
        if *not_after < Ms::MAX {
            write!(f, ", not after {not_after}")?;
        }
        write!(f, ")")
    }
}
