//! A thread of Redisson: its own scripts, one id for ever. Only the server counts its hold.
//!
//! Its calls arrive once and are answered at once, however long they were under way: Redisson's handling of lost answers is not
//! tested here. Its unlock may run twice, as its latch allows.

use super::{Call, OwnVerb, Redisson, Terms, Verb, WATCHDOG};
use crate::model::{Ms, StepId, World};

/// One Java thread, or one side of it.
#[derive(Debug)]
pub(crate) struct Thread<I, W = ()> {
    pub(crate) id: I,
    /// When each of its holds ends, the newest last.
    pub(crate) ends: Vec<Ms>,
    /// `None`: by the watchdog.
    pub(crate) lease: Option<Ms>,
    pub(crate) renew_at: Ms,
    /// The call it waits for.
    pub(crate) pending: Option<StepId>,
    /// What it is only with this kind of lock.
    pub(crate) own: W,
}

impl<I: Copy, W: Default> Thread<I, W> {
    pub(crate) fn new(id: I) -> Self {
        Self { id, ends: Vec::new(), lease: None, renew_at: 0, pending: None, own: W::default() }
    }
}

impl<I: Copy, W> Thread<I, W> {
    /// How often it holds.
    pub(crate) fn count(&self) -> u32 {
        self.ends.len() as u32
    }

    pub(crate) fn holds(&self) -> bool {
        !self.ends.is_empty()
    }

    /// Whether it holds, or is about to.
    pub(crate) fn is_busy(&self) -> bool {
        self.holds() || self.pending.is_some()
    }

    /// Until when it believes to hold: with the watchdog at least until it renews, else as long as the longest lease.
    pub(crate) fn believes<T: Terms, O: OwnVerb>(
        &self,
        world: &World<'_, Call<I, T, O>>,
    ) -> Option<Ms> {
        let unlocks = self
            .pending
            .and_then(|copy| world.network.get(copy))
            .is_some_and(|copy| matches!(copy.call.verb, Verb::Redisson(Redisson::Unlock { .. })));
        let ends = self.ends.iter().max().filter(|_| !unlocks)?;
        let until = if self.lease.is_none() { self.renew_at } else { *ends };
        (self.lease.is_none() || world.now() < until).then_some(until)
    }

    /// When it renews next.
    pub(crate) fn alarm(&self) -> Option<Ms> {
        (self.holds() && self.lease.is_none()).then_some(self.renew_at)
    }

    /// Whether it can lock. A hold is kept as it began: Redisson does not mix leases and the watchdog well.
    pub(crate) fn can_lock(&self, lease: Option<Ms>) -> bool {
        self.pending.is_none() && (!self.holds() || self.lease == lease)
    }

    /// It unlocks, if it holds and waits for nothing.
    pub(crate) fn unlock(&self, twice: bool) -> Option<Redisson> {
        let lease = self.lease.unwrap_or(WATCHDOG);
        (self.pending.is_none() && self.holds()).then_some(Redisson::Unlock { lease, twice })
    }

    /// The server has granted the lock, and counts its holds.
    pub(crate) fn locked(&mut self, lease: Option<Ms>, count: u32, now: Ms) {
        if !self.holds() || count == 1 {
            self.renew_at = now + WATCHDOG / 3;
        }
        self.lease = lease;
        self.ends.resize(count as usize, now);
        *self.ends.last_mut().expect("a hold") = now + lease.unwrap_or(WATCHDOG);
    }

    /// The server has let go of the newest hold, and counts those left; where that sets the TTL anew, they all end then.
    pub(crate) fn unlocked(&mut self, count: u32, end: Option<Ms>) {
        self.ends.truncate(count as usize);
        if let Some(end) = end {
            self.ends.fill(end);
        }
    }
}
