//! One outermost hold of this crate's owner: what only the read/write lock keeps of it.

use super::action::OwnerStep;
use super::call::{Id, Own, Swap, Verb};
use crate::clients::{self, WATCHDOG};
use crate::model::{Ms, StepId};

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
    /// It waits for a hold of the other side.
    pub(super) receives: bool,
}

impl Upkeep {
    pub(super) fn new(lease: Option<Ms>) -> Self {
        Self { lease, watched: false, ends: 0, renew_at: 0, receives: false }
    }
}

impl Claim {
    /// Whether it can do this, if a renewal is not one of nothing.
    pub(super) fn can_do(&self, step: OwnerStep, now: Ms) -> bool {
        !self.own.receives
            && self.can(step, now)
            && (step != OwnerStep::Renew || self.renewal(now).is_some())
    }

    /// The change to the read hold that it is to become, while readers are inside.
    pub(super) fn downgrade(&self) -> Option<Swap> {
        match self.operation.as_ref()?.verb {
            Verb::Own(Own::Swap(swap)) if !swap.to.write => Some(swap),
            _ => None,
        }
    }

    /// Whether it is about to become a read hold, and was not yet when this call was sent.
    pub(super) fn began_changing_after(&self, call: StepId) -> bool {
        let operation = self.operation.as_ref();
        self.downgrade().is_some() && operation.is_some_and(|changes| call < changes.name)
    }

    /// Whether it may go to the other side: it has only ever been the watchdog's.
    pub(super) fn can_swap(&self, now: Ms) -> bool {
        let is_watchdogs = self.own.watched && self.own.ends <= now + WATCHDOG;
        self.is_sure() && self.count == 1 && is_watchdogs
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
