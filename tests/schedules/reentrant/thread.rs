//! A thread of Redisson: its own scripts, one id for ever. Only the server counts its hold.
//!
//! Its calls arrive once and are answered at once, however long they were under way: Redisson's handling of lost answers is not
//! tested here. Its unlock may run twice, as its latch allows.

use super::call::{Id, Name, Verb, World};
use crate::model::{Ms, StepId};

/// The lease of a hold without one, renewed every third of it.
pub(crate) const WATCHDOG: Ms = 90;

/// One Java thread.
#[derive(Debug)]
pub(super) struct Thread {
    pub(super) name: Name,
    pub(super) count: u32,
    /// `None`: by the watchdog.
    pub(super) lease: Option<Ms>,
    pub(super) ends: Ms,
    pub(super) renew_at: Ms,
    /// The call it waits for.
    pub(super) pending: Option<StepId>,
}

impl Thread {
    pub(super) fn new(name: Name) -> Self {
        Self { name, count: 0, lease: None, ends: 0, renew_at: 0, pending: None }
    }

    pub(super) fn id(&self) -> Id {
        Id { owner: self.name, number: 0 }
    }

    /// The hold it believes in: with the watchdog until it unlocks, else as long as the lease.
    pub(super) fn believes(&self, world: &World<'_>) -> Option<Id> {
        let unlocks = self
            .pending
            .and_then(|copy| world.network.get(copy))
            .is_some_and(|copy| matches!(copy.call.verb, Verb::TheirUnlock { .. }));
        let lasts = self.lease.is_none() || world.now() < self.ends;
        (self.count > 0 && !unlocks && lasts).then(|| self.id())
    }

    /// When it renews next.
    pub(super) fn alarm(&self) -> Option<Ms> {
        (self.count > 0 && self.lease.is_none()).then_some(self.renew_at)
    }
}
