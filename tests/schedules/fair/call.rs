//! The calls of the clients.

use std::fmt;

use crate::model::{self, Ms, StepId};
use crate::reentrant::Id;

/// The thread ids of our waiters begin here.
const OURS: u64 = 1 << 62;

/// The world in which these calls are made.
pub(super) type World<'s> = model::World<'s, Call>;

/// A call of a script, of which there may be several copies.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call {
    /// Whom it is about.
    pub(super) id: Id,
    pub(super) verb: Verb,
    /// The first copy of the same operation.
    pub(super) operation: StepId,
    /// What its client's clock says when it is sent; scripts of ours do not look at it.
    pub(super) clock: i64,
}

/// What is called.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Verb {
    /// A whole turn.
    Acquire {
        lease: Ms,
        not_after: Ms,
        stands: bool,
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
    Withdraw,
    /// An outsider's force unlock.
    Force {
        not_after: Ms,
    },
    /// Redisson's own scripts.
    TheirLock {
        lease: Option<Ms>,
        wait: Ms,
    },
    TheirGiveUp {
        wait: Ms,
    },
    TheirUnlock {
        lease: Ms,
    },
    TheirRenewal,
    TheirForce,
}

impl Verb {
    pub(super) fn is_theirs(self) -> bool {
        matches!(
            self,
            Self::TheirLock { .. }
                | Self::TheirGiveUp { .. }
                | Self::TheirUnlock { .. }
                | Self::TheirRenewal
                | Self::TheirForce
        )
    }

    /// Server time past which a copy does nothing.
    pub(super) fn not_after(self) -> Option<Ms> {
        match self {
            Self::Acquire { not_after, .. }
            | Self::Reenter { not_after, .. }
            | Self::Force { not_after } => Some(not_after),
            _ => None,
        }
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

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = self.id;
        match self.verb {
            Verb::Acquire { lease, stands, not_after } => {
                let name = if stands { "acquire" } else { "try_acquire" };
                let until =
                    if not_after == Ms::MAX { "ever".into() } else { not_after.to_string() };
                write!(f, "{name}({id}, lease {lease}, not after {until})")
            }
            Verb::Reenter { count, lease, .. } => {
                write!(f, "reenter({id}, to {count}, lease {lease})")
            }
            Verb::Release { count } => write!(f, "release({id}, to {count})"),
            Verb::Renew { lease } => write!(f, "renew({id}, lease {lease})"),
            Verb::Withdraw => write!(f, "withdraw({id})"),
            Verb::Force { .. } => write!(f, "force_unlock"),
            Verb::TheirLock { lease, wait } => {
                let lease = lease.map_or("watched".into(), |lease| format!("lease {lease}"));
                write!(f, "Redisson's lock({id}, {lease}, wait {wait}, clock {})", self.clock)
            }
            Verb::TheirGiveUp { wait } => write!(f, "Redisson gives up({id}, wait {wait})"),
            Verb::TheirUnlock { .. } => write!(f, "Redisson's unlock({id}, clock {})", self.clock),
            Verb::TheirRenewal => write!(f, "Redisson's renewal({id})"),
            Verb::TheirForce => write!(f, "Redisson's forceUnlock"),
        }
    }
}
