//! The calls of the clients, and the names of holders.

use std::fmt;
use std::str::FromStr;

use crate::model::{self, Ms, StepId};

/// A client, by one letter.
pub(crate) type Name = char;

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

/// A call of a script, of which there may be several copies.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call {
    /// Whom it is about.
    pub(crate) id: Id,
    pub(crate) verb: Verb,
    /// The first copy of the same operation.
    pub(crate) operation: StepId,
}

/// What is called.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Verb {
    Acquire {
        lease: Ms,
        not_after: Ms,
        /// The write hold of the same owner.
        under: Option<Id>,
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
    /// The janitor's release to 0.
    Tidy,
    /// An outsider's force unlock of the side its id tells.
    Force {
        not_after: Ms,
    },
    /// Redisson's own scripts, run by a thread of its own.
    TheirLock {
        lease: Option<Ms>,
    },
    TheirUnlock {
        lease: Ms,
        twice: bool,
    },
    TheirRenewal,
    TheirForce,
    /// A plain lock of the same name.
    PlainLock {
        lease: Ms,
    },
    PlainUnlock,
}

impl Verb {
    /// Whether it is a script of Redisson's, which need not keep our promises.
    pub(crate) fn is_theirs(self) -> bool {
        matches!(
            self,
            Self::TheirLock { .. }
                | Self::TheirUnlock { .. }
                | Self::TheirRenewal
                | Self::TheirForce
        )
    }

    pub(crate) fn is_force(self) -> bool {
        matches!(self, Self::Force { .. } | Self::TheirForce)
    }

    /// Server time past which a copy does nothing.
    pub(crate) fn not_after(self) -> Option<Ms> {
        match self {
            Self::Acquire { not_after, .. }
            | Self::Reenter { not_after, .. }
            | Self::Force { not_after } => Some(not_after),
            _ => None,
        }
    }

    /// Whether the hold is to end.
    pub(crate) fn ends_hold(self) -> bool {
        matches!(self, Self::Release { count: 0 } | Self::Tidy)
    }
}

impl Id {
    pub(crate) fn seat(self) -> Seat {
        Seat { owner: self.owner, write: self.write }
    }

    /// Whether nobody else may hold beside it.
    pub(crate) fn is_exclusive(self) -> bool {
        self.write || self.owner == STRANGER
    }
}

impl fmt::Display for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}'s {}", self.owner, if self.write { "writer" } else { "reader" })
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}{}", self.owner, self.number, if self.write { ":write" } else { "" })
    }
}

impl FromStr for Id {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (base, write) = text.strip_suffix(":write").map_or((text, false), |base| (base, true));
        let parts = base.split_once(':').and_then(|(owner, number)| {
            Some(Self { owner: owner.parse().ok()?, number: number.parse().ok()?, write })
        });
        parts.ok_or_else(|| format!("no holder of ours: {text}"))
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = self.id;
        match self.verb {
            Verb::Acquire { lease, not_after, under } => {
                let under = under.map(|id| format!(", under {id}")).unwrap_or_default();
                write!(f, "acquire({id}{under}, lease {lease}{})", in_time(not_after))
            }
            Verb::Reenter { count, lease, not_after } => {
                write!(f, "reenter({id}, to {count}, lease {lease}{})", in_time(not_after))
            }
            Verb::Release { count } => write!(f, "release({id}, to {count})"),
            Verb::Renew { lease } => write!(f, "renew({id}, lease {lease})"),
            Verb::Tidy => write!(f, "release({id}, to 0) by the janitor"),
            Verb::Force { .. } => write!(f, "force_unlock of the {}", side(id)),
            Verb::TheirLock { lease: Some(lease) } => {
                write!(f, "Redisson's lock({id}, lease {lease})")
            }
            Verb::TheirLock { lease: None } => write!(f, "Redisson's lock({id})"),
            Verb::TheirUnlock { twice: false, .. } => write!(f, "Redisson's unlock({id})"),
            Verb::TheirUnlock { twice: true, .. } => write!(f, "Redisson's unlock({id}), twice"),
            Verb::TheirRenewal => write!(f, "Redisson's renewal({id})"),
            Verb::TheirForce => write!(f, "Redisson's forceUnlock of the {}", side(id)),
            Verb::PlainLock { lease } => write!(f, "a plain lock's acquire({id}, lease {lease})"),
            Verb::PlainUnlock => write!(f, "a plain lock's release({id})"),
        }
    }
}

fn side(id: Id) -> &'static str {
    if id.write { "writer" } else { "readers" }
}

fn in_time(not_after: Ms) -> String {
    if not_after == Ms::MAX { String::new() } else { format!(", not after {not_after}") }
}

/// Whether this is a thread of Redisson's.
pub(super) fn is_theirs(id: Id) -> bool {
    THREADS.contains(&id.owner)
}
