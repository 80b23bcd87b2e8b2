//! The calls of the clients, and the names of holders.

use std::fmt;
use std::str::FromStr;

use harness::redis::Value;

use crate::clients::{self, Name, OwnVerb, Terms};
use crate::model::{self, Ms, StepId};

/// Who breaks the lock by force.
pub(super) const OUTSIDER: Name = '!';
/// Who takes a plain lock of the same name.
pub(super) const STRANGER: Name = 'P';

/// One client's read side or write side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Seat {
    pub(crate) owner: Name,
    pub(crate) write: bool,
}

/// A holder on the wire: `A:7` is the read that owner A began at step 7, `A:9:write` the write it began at step 9, `J:0` a read
/// of a thread of Redisson's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Id {
    pub(crate) owner: Name,
    pub(crate) number: StepId,
    pub(crate) write: bool,
}

pub(super) const OWNERS: [Name; 3] = ['A', 'B', 'C'];
pub(super) const THREADS: [Name; 2] = ['J', 'K'];
/// The owner whose clock is slow, by what the drift allows for.
pub(super) const SLOW: Name = 'B';

/// The world in which these calls are made.
pub(super) type World<'s> = model::World<'s, Call>;

pub(super) type Call = clients::Call<Id, Under, Own>;
pub(super) type Verb = clients::Verb<Under, Own>;

/// The write hold of the same owner.
pub(super) type Under = Option<Id>;

/// What only this kind of lock has.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Own {
    /// A plain lock of the same name.
    Lock {
        lease: Ms,
    },
    Unlock,
    Swap(Swap),
}

/// A read hold becomes a write hold, or the other way round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Swap {
    pub(super) to: Id,
    pub(super) lease: Ms,
    pub(super) not_after: Ms,
}

impl Terms for Under {
    fn told(self) -> String {
        self.map(|id| format!(", under {id}")).unwrap_or_default()
    }
}

impl Swap {
    /// Whether the hold has gone to the other side.
    pub(super) fn is_done(self, answer: &Value) -> bool {
        match answer {
            Value::Nil => self.to.write,
            Value::Int(told) => !self.to.write && *told > 0,
            _ => false,
        }
    }
}

impl OwnVerb for Own {
    fn not_after(&mut self) -> Option<&mut Ms> {
        match self {
            Self::Swap(swap) => Some(&mut swap.not_after),
            Self::Lock { .. } | Self::Unlock => None,
        }
    }

    /// A reader has left when its hold is to become a write hold. Under a write hold that is to become a
    /// read hold, readers are inside.
    fn lets_go(self) -> bool {
        matches!(self, Self::Swap(swap) if swap.to.write)
    }
}

impl Id {
    /// The first id of a client's side, and the only one of a thread of Redisson's.
    pub(super) fn first(seat: Seat) -> Self {
        Self { owner: seat.owner, number: 0, write: seat.write }
    }

    pub(crate) fn seat(self) -> Seat {
        Seat { owner: self.owner, write: self.write }
    }

    /// Whether nobody else may hold beside it.
    pub(crate) fn is_exclusive(self) -> bool {
        self.write || self.owner == STRANGER
    }
}

impl Seat {
    /// The owner's other side.
    pub(crate) fn other(self) -> Self {
        Self { write: !self.write, ..self }
    }
}

impl fmt::Display for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}'s {}", self.owner, if self.write { "writer" } else { "reader" })
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let base = clients::Id { owner: self.owner, number: self.number };
        write!(f, "{base}{}", if self.write { ":write" } else { "" })
    }
}

impl FromStr for Id {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (base, write) = text.strip_suffix(":write").map_or((text, false), |base| (base, true));
        let clients::Id { owner, number } = base.parse()?;
        Ok(Self { owner, number, write })
    }
}

impl fmt::Display for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lock { lease } => write!(f, "a plain lock's acquire, lease {lease}, "),
            Self::Unlock => write!(f, "a plain lock's release"),
            Self::Swap(Swap { to, lease, .. }) => write!(f, "change to {to}, lease {lease}, "),
        }
    }
}

/// Whether this is a thread of Redisson's.
pub(super) fn is_theirs(id: Id) -> bool {
    THREADS.contains(&id.owner)
}
