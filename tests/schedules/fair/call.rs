//! The calls of the clients.

use std::convert::Infallible;

use crate::clients::{self, Id, Terms};
use crate::model::{self, StepId};

/// The thread ids of our waiters begin here.
const OURS: u64 = 1 << 62;

/// The world in which these calls are made.
pub(super) type World<'s> = model::World<'s, Call>;

pub(super) type Call = clients::Call<Id, Turn, Infallible>;
pub(super) type Verb = clients::Verb<Turn, Infallible>;

/// What a turn is for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Turn {
    /// Who is not granted the lock stands in line.
    pub(super) stands: bool,
}

impl Terms for Turn {
    fn told(self) -> String {
        if self.stands { String::new() } else { " without standing in line".into() }
    }
}

/// Redisson's threads have number 0.
pub(super) fn is_ours(id: Id) -> bool {
    id.number > 0
}

/// The holder id that goes to the server.
pub(super) fn wire(id: Id) -> String {
    if is_ours(id) {
        format!("{}:{}", id.owner, OURS + u64::from(id.number))
    } else {
        id.to_string()
    }
}

/// Whose holder id this is.
pub(super) fn unwire(text: &str) -> Id {
    let parsed = text.split_once(':').and_then(|(owner, number)| {
        let number: u64 = number.parse().ok()?;
        let number = StepId::try_from(number.checked_sub(OURS).unwrap_or(number)).ok()?;
        Some(Id { owner: owner.parse().ok()?, number })
    });
    parsed.unwrap_or_else(|| panic!("no holder of these: {text}"))
}
