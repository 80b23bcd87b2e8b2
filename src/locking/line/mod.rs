//! [`LocalLine`]: where the waiters of one process stand in line for one lock.
//!
//! Only the head of the line asks the server, so a thousand local waiters cost it what one costs. What a head
//! learnt it leaves to the next: the subscription, a message it had no time to follow, a failure.
//!
//! The line knows nothing of holds. What it has to know of whatever its waiters wait for, it asks by [`Awaited`].

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

/// The waiters of one process for one lock.
#[derive(Debug, Default)]
pub(crate) struct LocalLine {
    fifo: Fifo<HeadState>,
    pub(crate) answers: Answers,
}

/// What one head leaves to the next.
#[derive(Debug, Default)]
struct HeadState {
    // What is handed from head to head is kept small.
    subscription: Option<Box<Subscription>>,
    /// The lock was seen held: unless a message comes, there is no need to ask before this.
    ask_at: Option<Instant>,
    /// Until when the lock is left to other processes, if nothing is heard.
    yields_until: Option<Instant>,
    /// When a head last gave up on the server, and why.
    failed: Option<Box<(Instant, Failure)>>,
    /// When a head last got into a lock that can be shared: all who waited behind it may try.
    opened: Option<Instant>,
}

impl LocalLine {
    pub(crate) fn is_empty(&self) -> bool {
        self.fifo.is_empty()
    }

    /// There is news for the head: something is offered to it, or the lock may be free.
    pub(crate) fn nudge(&self) {
        self.fifo.nudge();
    }
}

/// What the waiters of a line wait for.
pub(crate) trait Awaited: Send + Sync {
    /// What a caller of this process can leave to the head of the line.
    type Offer;

    fn line(&self) -> &LocalLine;

    /// The lock's key, as text.
    fn name(&self) -> &str;

    /// How many holds on it this client has.
    fn holds_here(&self) -> usize;

    fn subscriptions(&self) -> &Arc<Subscriptions>;

    /// An error when the client is closed.
    fn check_open(&self) -> Result<(), Error>;

    /// Done when the client is being closed. Says what those who wait are told.
    fn closing(&self) -> impl Future<Output = Error> + Send;

    /// Starts a [`Minder`](minder::Minder) of the line.
    fn mind(&self);

    /// What was left to the head, if anything.
    fn take_offer(&self) -> Option<Self::Offer>;

    fn is_offered(&self) -> bool;

    /// Whether this process may soon leave something to the head: then it nudges the head.
    fn may_be_offered(&self) -> bool;

    /// Until when the head leaves the lock to other processes. `heard`: how many messages came on its channel.
    fn yields_until(&self, heard: Option<u64>) -> Option<Instant>;

    /// Nobody is in line any more to take over what was left.
    fn emptied(&self);
}

#[cfg(test)]
mod tests;
