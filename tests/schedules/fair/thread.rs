//! A thread of Redisson: its own scripts and its own clock, one id for ever. Only the server counts its hold.
//!
//! Its calls arrive once and are answered at once, however long they were under way.

use super::call::{Verb, World};
use crate::model::{Ms, StepId};
use crate::reentrant::{Id, Name};

/// One Java thread.
#[derive(Debug, Default)]
pub(super) struct Thread {
    pub(super) name: Name,
    pub(super) dead: bool,
    pub(super) count: u32,
    /// How far its clock is wrong.
    pub(super) skew: i64,
    /// `None`: by the watchdog.
    pub(super) lease: Option<Ms>,
    pub(super) ends: Ms,
    pub(super) renew_at: Ms,
    /// The call it waits for.
    pub(super) pending: Option<StepId>,
    pub(super) wish: Option<Wish>,
}

/// A wish for the lock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wish {
    pub(super) lease: Option<Ms>,
    /// How long its place is kept.
    pub(super) wait: Ms,
    pub(super) gives_up: Option<Ms>,
    pub(super) refused: bool,
    /// When it looks again; `None`: when it is woken.
    pub(super) wake_at: Option<Ms>,
}

impl Thread {
    pub(super) fn new(name: Name) -> Self {
        Self { name, ..Self::default() }
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
        (self.count > 0 && !unlocks && lasts && !self.dead).then(|| self.id())
    }

    pub(super) fn alarm(&self) -> Option<Ms> {
        if self.dead {
            return None;
        }
        let renews = (self.count > 0 && self.lease.is_none()).then_some(self.renew_at);
        let waits = self.wish.filter(|_| self.pending.is_none());
        let looks = waits.into_iter().flat_map(|wish| [wish.wake_at, wish.gives_up]).flatten();
        looks.chain(renews).min()
    }
}
