//! [`LocalLine`]: the local waiters for one lock, in order.
//!
//! Only the head of the line asks the server, so a thousand local waiters cost it no more than one.
//! A head leaves to the next what it learnt: the subscription, an unused message, a failure.
//!
//! The line does not know holds. It asks by [`Awaited`] about what its waiters wait for.

pub(crate) mod answers;
mod fifo;
pub(crate) mod head;
pub(crate) mod minder;
pub(crate) mod waiter;

use std::sync::Arc;

use tokio::time::Instant;

use self::{
    answers::{Answers, Failure},
    fifo::Fifo,
};
use crate::{
    engine::{Subscription, Subscriptions},
    error::Error,
};

/// The local waiters for one lock.
#[derive(Debug, Default)]
pub(crate) struct LocalLine {
    /// Boxed, because it moves from head to head.
    fifo: Fifo<Option<Box<HeadState>>>,
    pub(crate) answers: Answers,
}

/// What one head leaves to the next.
#[derive(Debug, Default)]
struct HeadState {
    subscription: Option<Subscription>,
    /// The lock was seen held. Unless a message comes, there is no need to ask before this.
    ask_at: Option<Instant>,
    /// Until when the lock is left to other processes, if no message comes.
    yields_until: Option<Instant>,
    /// When a head last gave up on the server, and why.
    failed: Option<Box<(Instant, Failure)>>,
    /// When a head was last granted a lock that can be shared. All that waited behind it may try.
    opened: Option<Instant>,
}

impl LocalLine {
    pub(crate) fn is_empty(&self) -> bool {
        self.fifo.is_empty()
    }

    /// There is news for the head: a hold is offered, or the lock may be free.
    pub(crate) fn nudge(&self) {
        self.fifo.nudge();
    }
}

/// What the waiters of a line wait for.
///
/// A trait, because `registry.rs` uses the line: files form no circle.
pub(crate) trait Awaited: Send + Sync {
    /// What a local caller can leave to the head of the line.
    type Offer;

    fn line(&self) -> &LocalLine;

    /// The lock's key, as text.
    fn name(&self) -> &str;

    /// How many holds on it this client has.
    fn holds_here(&self) -> usize;

    fn subscriptions(&self) -> &Arc<Subscriptions>;

    /// Fails when the client is closed.
    fn check_open(&self) -> Result<(), Error>;

    /// Completes when the client is being closed, with the error for its waiters.
    fn closing(&self) -> impl Future<Output = Error> + Send;

    /// Starts a [`Minder`](minder::Minder) for the line.
    fn start_minder(&self);

    /// Takes what was left to the head, if anything.
    fn take_offer(&self) -> Option<Self::Offer>;

    fn is_offered(&self) -> bool;

    /// Whether a local caller may soon leave something to the head. It then nudges the head.
    fn may_be_offered(&self) -> bool;

    /// Until when the head leaves the lock to other processes. `heard`: how many messages have come
    /// on its channel.
    fn yields_until(&self, heard: Option<u64>) -> Option<Instant>;

    /// The line is empty, so nobody will adopt or swap what was left.
    fn emptied(&self);
}

#[cfg(test)]
mod tests;
