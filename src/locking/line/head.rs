//! The right of the head to ask the server, and what it knows.

use std::{
    future::poll_fn,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::time::{Instant, sleep_until, timeout};

use super::{Head, Queue};
use crate::{
    engine::{Subscription, Wakeups},
    error::Error,
    locking::line::answers::Failure,
    locking::line::fifo::Ticket,
    locking::share::Share,
    replicas::Replicas,
};

/// No waiter relies on messages for longer than this: one may get lost.
const LOOK_AGAIN: Duration = Duration::from_secs(3);

/// How often a waiter looks where it cannot subscribe.
const POLL: Duration = Duration::from_millis(250);

/// For so long a head waits for a hold of its own process before it subscribes.
const SOON: Duration = Duration::from_millis(2);

/// A key whose TTL is about to end is looked at again no sooner than this.
pub(super) const BREATH: Duration = Duration::from_millis(2);

/// The head's right to ask the server. Dropping it passes the right on.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    pub(super) head: Head,
    pub(super) place: Place<'a>,
}

/// Shows that a head is polled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sign<'a> {
    queue: &'a Queue,
    ticket: Option<Ticket>,
}

impl Sign<'_> {
    /// Each poll of the future is one of the head.
    pub(crate) async fn of<T>(self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        poll_fn(|context| {
            if let Some(ticket) = self.ticket {
                self.queue.fifo.sign(ticket, context);
            }
            future.as_mut().poll(context)
        })
        .await
    }
}

impl<'a> Turn<'a> {
    /// What the head awaits has to be wrapped in this, unless it ends with a nudge: it loses its turn if
    /// others wait and it does not show for a while that it is polled.
    pub(crate) fn sign(&self) -> Sign<'a> {
        Sign { queue: self.place.queue, ticket: self.place.ticket }
    }

    /// Whether it was found not to be the head any more, and has to stand in line anew.
    pub(crate) fn is_lost(&self) -> bool {
        self.place.lost.load(Ordering::Relaxed)
    }

    pub(crate) fn listens(&self) -> bool {
        self.head.subscription.is_some()
    }

    /// Sees to it that messages wake the head; done when it may be relied upon, or not for now.
    pub(crate) async fn listen(&mut self, wakeups: &Arc<Wakeups>, channel: &str) {
        let subscription = self.head.subscription.insert(Box::new(wakeups.subscribe(channel)));
        tokio::select! {
            _ = subscription.ready() => {}
            () = self.place.nudged() => {}
        }
        // What was seen before the subscription stood may be out of date.
        self.head.look_at = None;
    }

    /// What another caller of this process has left to the head, if anything.
    pub(crate) fn take(&mut self) -> Option<Share> {
        self.place.queue.passing.take()
    }

    pub(crate) fn is_offered(&self) -> bool {
        self.place.queue.passing.is_offered()
    }

    /// Waits a moment for what a holder in this process may be about to leave.
    pub(crate) async fn linger(&mut self) {
        let passing = &self.place.queue.passing;
        if !self.listens() {
            let left = async {
                while passing.is_here() && !passing.is_offered() && !self.is_lost() {
                    self.place.nudged().await;
                }
            };
            let _ = timeout(SOON, left).await;
        }
    }

    /// Whether to ask the server now.
    pub(crate) fn must_look(&mut self) -> bool {
        let heard = self.head.subscription.as_deref().map(Subscription::heard);
        let stepped_back = self.head.back.take().is_some();
        self.head.back = self.place.queue.passing.steps_back(heard);
        if self.head.back.is_some() {
            return false;
        }
        stepped_back || self.is_woken() || self.head.look_at.is_none_or(|at| at <= Instant::now())
    }

    /// There is something to look at.
    pub(crate) fn look(&mut self) {
        self.head.look_at = None;
    }

    /// Call before asking: what comes from now on is news.
    pub(crate) fn arm(&mut self) {
        if let Some(subscription) = &mut self.head.subscription {
            subscription.arm();
        }
        self.head.look_at = None;
    }

    /// The lock is held, by another or from now on by us, for so long if known.
    pub(crate) fn held_for(&mut self, ttl: Option<Duration>, heartbeat: Option<Duration>) {
        let relies = self.head.subscription.as_deref().is_some_and(Subscription::is_confirmed);
        let most =
            if relies { heartbeat.map_or(LOOK_AGAIN, |most| most.min(LOOK_AGAIN)) } else { POLL };
        let pause = ttl.unwrap_or(most).clamp(BREATH, most);
        self.head.look_at = Some(Instant::now() + pause);
    }

    /// There is no need to look for so long, and nobody will tell.
    pub(crate) fn rest(&mut self, pause: Duration) {
        self.head.look_at = Some(Instant::now() + pause);
    }

    /// This waiter got in, and so may all who wait behind.
    pub(crate) fn open(&mut self) {
        self.head.opened = Some(Instant::now());
    }

    /// The server has failed one who asked this of replicas: whom that concerns fails too.
    pub(crate) fn fail(&mut self, error: Error, replicas: Replicas) {
        self.head.failed = Some(Box::new((Instant::now(), Failure { error, replicas })));
    }

    /// Done when it is time to look again.
    pub(crate) async fn news(&self) {
        let look_at = self.head.back.or(self.head.look_at).unwrap_or_else(Instant::now);
        let message = async {
            match (&self.head.subscription, self.head.back) {
                (Some(subscription), None) => subscription.woken().await,
                (Some(subscription), Some(_)) => subscription.more().await,
                (None, _) => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.place.nudged() => {}
            () = message => {}
            () = sleep_until(look_at) => {}
        }
    }

    fn is_woken(&self) -> bool {
        self.head.subscription.as_deref().is_some_and(Subscription::is_woken)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let head = std::mem::take(&mut self.head);
        self.place.leave(Some(head));
    }
}

#[derive(Debug)]
pub(super) struct Place<'a> {
    pub(super) queue: &'a Queue,
    /// `None`: not in line.
    pub(super) ticket: Option<Ticket>,
    /// Whether it was found that others were let past it.
    pub(super) lost: AtomicBool,
}

impl Place<'_> {
    /// Done when another caller of this process may have left something to the head, or the lock may be
    /// free; or when it is not the head any more.
    async fn nudged(&self) {
        let Some(ticket) = self.ticket else { return };
        let first = poll_fn(|context| self.queue.fifo.poll_nudged(ticket, context)).await;
        self.lost.store(!first, Ordering::Relaxed);
    }

    fn leave(&mut self, head: Option<Head>) {
        let Some(ticket) = self.ticket.take() else { return };
        if self.queue.fifo.leave(ticket, head).last {
            self.queue.emptied();
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.leave(None);
    }
}
