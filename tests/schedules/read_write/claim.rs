//! One outermost hold of this crate's owner: what only the read/write lock keeps of it.

use super::action::OwnerStep;
use super::call::{Id, Verb};
use crate::clients::{self, WATCHDOG};
use crate::model::Ms;

pub(super) type Claim = clients::Claim<Id, Verb, Upkeep>;

/// What it asks for, and when it is renewed.
#[derive(Debug)]
pub(super) struct Upkeep {
    /// What it asks for; `None` is the watchdog's.
    pub(super) lease: Option<Ms>,
    /// Whether the watchdog renews it.
    pub(super) watched: bool,
    /// When its longest confirmed lease ends.
    pub(super) ends: Ms,
    pub(super) renew_at: Ms,
}

impl Upkeep {
    pub(super) fn new(lease: Option<Ms>) -> Self {
        Self { lease, watched: false, ends: 0, renew_at: 0 }
    }
}

impl Claim {
    /// Whether it can do this, if a renewal is not one of nothing.
    pub(super) fn can_do(&self, step: OwnerStep, now: Ms) -> bool {
        self.can(step, now) && (step != OwnerStep::Renew || self.renewal(now).is_some())
    }

    /// The lease of its next renewal, if it is to have one. A read with a lease of its own is upheld while that lasts.
    pub(super) fn renewal(&self, now: Ms) -> Option<Ms> {
        let left = self.own.ends.saturating_sub(now);
        if self.own.watched {
            Some(left.max(WATCHDOG))
        } else {
            (!self.id.write && left > 0).then_some(left)
        }
    }
}
