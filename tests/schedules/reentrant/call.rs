//! The calls of the clients.

use std::fmt;

use crate::clients::{self, Id, OwnVerb};
use crate::model::{self, Ms};

/// The world in which these calls are made.
pub(super) type World<'s> = model::World<'s, Call>;

pub(super) type Call = clients::Call<Id, (), Swap>;
pub(super) type Verb = clients::Verb<(), Swap>;

/// A hand-over: the hold goes on under another id.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Swap {
    pub(super) to: Id,
    pub(super) lease: Ms,
    pub(super) not_after: Ms,
}

impl OwnVerb for Swap {
    fn not_after(&mut self) -> Option<&mut Ms> {
        Some(&mut self.not_after)
    }

    fn lets_go(self) -> bool {
        true
    }
}

impl Call {
    /// Whom the script may make a holder.
    pub(super) fn taker(&self) -> Id {
        match self.verb {
            Verb::Own(Swap { to, .. }) => to,
            _ => self.id,
        }
    }
}

impl fmt::Display for Swap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "swap for {}, lease {}, ", self.to, self.lease)
    }
}
