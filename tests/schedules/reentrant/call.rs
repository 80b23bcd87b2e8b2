//! The calls of the clients, and the names of holders.

use std::fmt;
use std::str::FromStr;

use crate::model::{self, Ms, StepId};

/// A client, by one letter.
pub(crate) type Name = char;

/// A holder on the wire: `A:7` is the hold that owner A began at step 7, `J:0` is a thread of Redisson's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Id {
    pub(crate) owner: Name,
    pub(crate) number: StepId,
}

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
    /// A hand-over: the hold goes on under another id.
    Swap {
        to: Id,
        lease: Ms,
        not_after: Ms,
    },
    /// The janitor's release to 0.
    Tidy,
    /// An outsider's force unlock.
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
}

impl Call {
    /// Whom the script may make a holder.
    pub(crate) fn taker(&self) -> Id {
        match self.verb {
            Verb::Swap { to, .. } => to,
            _ => self.id,
        }
    }
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

    /// Server time past which a copy does nothing.
    pub(crate) fn not_after(self) -> Option<Ms> {
        match self {
            Self::Acquire { not_after, .. }
            | Self::Reenter { not_after, .. }
            | Self::Swap { not_after, .. }
            | Self::Force { not_after } => Some(not_after),
            _ => None,
        }
    }

    /// Whether the caller has let go of the hold by calling it.
    pub(crate) fn lets_go(self) -> bool {
        matches!(self, Self::Release { count: 0 } | Self::Swap { .. })
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.owner, self.number)
    }
}

impl FromStr for Id {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once(':').and_then(|(owner, number)| {
            Some(Self { owner: owner.parse().ok()?, number: number.parse().ok()? })
        });
        parts.ok_or_else(|| format!("no holder of ours: {text}"))
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = self.id;
        match self.verb {
            Verb::Acquire { lease, not_after } => {
                write!(f, "acquire({id}, lease {lease}{})", in_time(not_after))
            }
            Verb::Reenter { count, lease, not_after } => {
                write!(f, "reenter({id}, to {count}, lease {lease}{})", in_time(not_after))
            }
            Verb::Release { count } => write!(f, "release({id}, to {count})"),
            Verb::Renew { lease } => write!(f, "renew({id}, lease {lease})"),
            Verb::Swap { to, lease, not_after } => {
                write!(f, "pass({id} to {to}, lease {lease}{})", in_time(not_after))
            }
            Verb::Tidy => write!(f, "release({id}, to 0) by the janitor"),
            Verb::Force { .. } => write!(f, "force_unlock"),
            Verb::TheirLock { lease: Some(lease) } => {
                write!(f, "Redisson's lock({id}, lease {lease})")
            }
            Verb::TheirLock { lease: None } => write!(f, "Redisson's lock({id})"),
            Verb::TheirUnlock { twice: false, .. } => write!(f, "Redisson's unlock({id})"),
            Verb::TheirUnlock { twice: true, .. } => write!(f, "Redisson's unlock({id}), twice"),
            Verb::TheirRenewal => write!(f, "Redisson's renewal({id})"),
            Verb::TheirForce => write!(f, "Redisson's forceUnlock"),
        }
    }
}

fn in_time(not_after: Ms) -> String {
    if not_after == Ms::MAX { String::new() } else { format!(", not after {not_after}") }
}
