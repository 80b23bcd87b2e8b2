//! [`Place`]: the place of one waiter in the local line.

use std::{
    future::poll_fn,
    sync::atomic::{AtomicBool, Ordering},
};

use super::{Awaited, HeadState, fifo::Ticket};

/// A place in the local line. Dropping it leaves the line.
#[derive(Debug)]
pub(super) struct Place<'a, A: Awaited> {
    pub(super) awaited: &'a A,
    /// `None`: it is not in the local line.
    pub(super) ticket: Option<Ticket>,
    /// Whether it was found that others were let past it.
    lost: AtomicBool,
}

impl<'a, A: Awaited> Place<'a, A> {
    pub(super) fn outside(awaited: &'a A) -> Self {
        Self { awaited, ticket: None, lost: AtomicBool::new(false) }
    }

    /// Whether it was found not to be that of the head any more.
    pub(super) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    /// Completes when a local caller may have left something to the head, when the lock may be
    /// free, or when it is not the head any more.
    pub(super) async fn nudged(&self) {
        let Some(ticket) = self.ticket else { return std::future::pending().await };
        let fifo = &self.awaited.line().fifo;
        let first = poll_fn(|context| fifo.poll_nudged(ticket, context)).await;
        self.lost.store(!first, Ordering::Relaxed);
    }

    /// The head leaves this to the next.
    pub(super) fn leave(&mut self, state: Option<Box<HeadState>>) {
        let Some(ticket) = self.ticket.take() else { return };
        if self.awaited.line().fifo.leave(ticket, state.map(Some)).last {
            self.awaited.emptied();
        }
    }
}

impl<A: Awaited> Drop for Place<'_, A> {
    fn drop(&mut self) {
        self.leave(None);
    }
}
