//! The calls of the clients.

use std::convert::Infallible;
use std::fmt;

use super::Redisson;
use crate::model::{Ms, StepId};

/// A call of a script, of which there may be several copies.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call<I, T, O> {
    /// Whom it is about.
    pub(crate) id: I,
    pub(crate) verb: Verb<T, O>,
    /// The first copy of the same operation.
    pub(crate) operation: StepId,
    /// What its client's clock says: Redisson's fair lock looks at it.
    pub(crate) clock: i64,
}

/// What is called.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Verb<T, O> {
    Acquire {
        lease: Ms,
        not_after: Ms,
        /// What else this kind of lock asks for.
        terms: T,
    },
    Reenter {
        count: u32,
        lease: Ms,
        not_after: Ms,
    },
    Release {
        count: u32,
    },
    Renew {
        lease: Ms,
    },
    /// What the janitor calls: a release to 0, or a withdrawal.
    Tidy,
    /// An outsider's force unlock.
    Force {
        not_after: Ms,
    },
    /// A script of Redisson's, run by a thread of its own. It need not keep our promises.
    Redisson(Redisson),
    /// What only this kind of lock calls.
    Own(O),
}

/// What else one kind of lock asks for when it acquires.
pub(crate) trait Terms: Copy {
    /// For a reader.
    fn told(self) -> String;
}

/// Nothing.
impl Terms for () {
    fn told(self) -> String {
        String::new()
    }
}

/// What only one kind of lock calls.
pub(crate) trait OwnVerb: Copy + fmt::Display {
    /// Server time past which a copy does nothing.
    fn not_after(&mut self) -> Option<&mut Ms> {
        None
    }

    /// Whether the caller has let go of its hold by calling it.
    fn lets_go(self) -> bool {
        false
    }
}

/// Nothing.
impl OwnVerb for Infallible {}

impl<T: Terms, O: OwnVerb> Verb<T, O> {
    pub(crate) fn is_theirs(self) -> bool {
        matches!(self, Self::Redisson(_))
    }

    pub(crate) fn is_force(self) -> bool {
        matches!(self, Self::Force { .. } | Self::Redisson(Redisson::Force))
    }

    /// Server time past which a copy does nothing.
    pub(crate) fn not_after(mut self) -> Option<Ms> {
        self.limit().copied()
    }

    /// For one that is never too late.
    pub(crate) fn lasts_for_ever(&mut self) {
        if let Some(not_after) = self.limit() {
            *not_after = Ms::MAX;
        }
    }

    /// Whether the hold is to end.
    pub(crate) fn ends_hold(self) -> bool {
        self.lets_go() || matches!(self, Self::Tidy)
    }

    fn limit(&mut self) -> Option<&mut Ms> {
        match self {
            Self::Acquire { not_after, .. }
            | Self::Reenter { not_after, .. }
            | Self::Force { not_after } => Some(not_after),
            Self::Own(own) => own.not_after(),
            _ => None,
        }
    }

    /// Whether the caller has let go of its hold by calling it.
    pub(crate) fn lets_go(self) -> bool {
        match self {
            Self::Release { count } => count == 0,
            Self::Own(own) => own.lets_go(),
            _ => false,
        }
    }
}

impl<I, T: Terms, O: OwnVerb> Call<I, T, O> {
    pub(crate) fn new(id: I, verb: Verb<T, O>, operation: StepId) -> Self {
        Self { id, verb, operation, clock: 0 }
    }

    /// Whether it is to do nothing at this moment.
    pub(crate) fn is_late(&self, now: Ms) -> bool {
        self.verb.not_after().is_some_and(|not_after| now > not_after)
    }
}

impl<I: fmt::Display, T: Terms, O: OwnVerb> fmt::Display for Call<I, T, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = &self.id;
        let not_after = self.verb.not_after().filter(|not_after| *not_after < Ms::MAX);
        let in_time = not_after.map(|time| format!(", not after {time}")).unwrap_or_default();
        match self.verb {
            Verb::Acquire { lease, terms, .. } => {
                write!(f, "acquire({id}{}, lease {lease}{in_time})", terms.told())
            }
            Verb::Reenter { count, lease, .. } => {
                write!(f, "reenter({id}, to {count}, lease {lease}{in_time})")
            }
            Verb::Release { count } => write!(f, "release({id}, to {count})"),
            Verb::Renew { lease } => write!(f, "renew({id}, lease {lease})"),
            Verb::Tidy => write!(f, "the janitor's release({id})"),
            Verb::Force { .. } => write!(f, "force_unlock by {id}"),
            Verb::Redisson(redisson) => write!(f, "Redisson's {redisson} by {id}"),
            Verb::Own(own) => write!(f, "{own}({id}{in_time})"),
        }
    }
}
