//! A thread of Redisson: its own scripts, one id for ever. Only the server counts its hold.
//!
//! Its calls arrive once and are answered at once, however long they were under way: Redisson's handling of lost answers is not
//! tested here. Its unlock may run twice, as its latch allows.

use super::call::{Id, Seat, THREADS, Verb, World};
use crate::model::{Ms, StepId};

/// One side of a Java thread.
#[derive(Debug)]
pub(super) struct Thread {
    pub(super) seat: Seat,
    /// When each of its holds ends, the newest last.
    pub(super) ends: Vec<Ms>,
    /// `None`: by the watchdog.
    pub(super) lease: Option<Ms>,
    pub(super) renew_at: Ms,
    /// The call it waits for.
    pub(super) pending: Option<StepId>,
}

/// Two threads, each with a side to read and a side to write.
pub(super) fn threads() -> Vec<Thread> {
    let seats =
        THREADS.into_iter().flat_map(|owner| [false, true].map(|write| Seat { owner, write }));
    seats.map(Thread::new).collect()
}

impl Thread {
    fn new(seat: Seat) -> Self {
        Self { seat, ends: Vec::new(), lease: None, renew_at: 0, pending: None }
    }

    pub(super) fn id(&self) -> Id {
        Id { owner: self.seat.owner, number: 0, write: self.seat.write }
    }

    /// Until when it believes to hold: with the watchdog at least until it renews, else as long as the longest lease.
    pub(super) fn believes(&self, world: &World<'_>) -> Option<Ms> {
        let unlocks = self
            .pending
            .and_then(|copy| world.network.get(copy))
            .is_some_and(|copy| matches!(copy.call.verb, Verb::TheirUnlock { .. }));
        let ends = self.ends.iter().max().filter(|_| !unlocks)?;
        let until = if self.lease.is_none() { self.renew_at } else { *ends };
        (self.lease.is_none() || world.now() < until).then_some(until)
    }

    /// When it renews next.
    pub(super) fn alarm(&self) -> Option<Ms> {
        (!self.ends.is_empty() && self.lease.is_none()).then_some(self.renew_at)
    }
}
