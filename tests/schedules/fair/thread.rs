//! A thread of Redisson's that waits in line, with a clock of its own.

use crate::clients::{self, Id};
use crate::model::Ms;

pub(super) type Thread = clients::Thread<Id, Waiter>;

/// What a thread is that waits in line.
#[derive(Debug, Default)]
pub(super) struct Waiter {
    pub(super) dead: bool,
    /// How far its clock is wrong.
    pub(super) skew: i64,
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

impl Waiter {
    pub(super) fn waits(&self) -> bool {
        self.wish.is_some() && !self.dead
    }
}

/// When a thread renews, looks again or gives up next.
pub(super) fn rings_at(thread: &Thread) -> Option<Ms> {
    let waits = thread.own.wish.filter(|_| thread.pending.is_none());
    let looks = waits.into_iter().flat_map(|wish| [wish.wake_at, wish.gives_up]).flatten();
    looks.chain(thread.alarm()).min().filter(|_| !thread.own.dead)
}
