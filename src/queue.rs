//! Where the waiters of one process stand in line for one lock.
//!
//! Only the head asks the server, so a thousand local waiters cost it what one costs. What the head
//! learnt it leaves to the next: the subscription, a message it had no time to follow, a failure.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use tokio::{
    sync::{Mutex, MutexGuard},
    time::{Instant, sleep_until, timeout},
};

use crate::{
    engine::{Subscription, Wakeups},
    error::Error,
    passing::Passing,
    share::Share,
};

/// No waiter relies on messages for longer than this: one may get lost.
const LOOK_AGAIN: Duration = Duration::from_secs(3);

/// How often a waiter looks where it cannot subscribe.
const POLL: Duration = Duration::from_millis(250);

/// For so long a head waits for a hold of its own process before it subscribes.
const SOON: Duration = Duration::from_millis(2);

/// A key whose TTL is about to end is looked at again no sooner than this.
const BREATH: Duration = Duration::from_millis(2);

#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// First come, first served: tokio's mutex is fair.
    head: Mutex<Head>,
    waiting: AtomicUsize,
    pub(crate) passing: Passing,
}

#[derive(Debug, Default)]
struct Head {
    subscription: Option<Subscription>,
    /// The lock was seen held: unless a message comes, there is no need to look before this.
    look_at: Option<Instant>,
    /// Until when the lock is left to others, if nothing is heard.
    back: Option<Instant>,
    /// When a head last gave up on the server, and why: all who waited behind it give up too.
    failed: Option<(Instant, Error)>,
    /// When a head last got into a lock that can be shared: all who waited behind it may try.
    opened: Option<Instant>,
}

impl Queue {
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.load(Ordering::Acquire) == 0
    }

    /// Whether one who comes now need not stand in line: nobody does, nobody here holds the lock, and
    /// it is not left to others.
    pub(crate) fn is_open(&self) -> bool {
        self.is_empty() && !self.passing.is_here() && self.passing.steps_back(None).is_none()
    }

    /// Stands in line; done when this waiter is the head, or (`None`) when the line has been opened
    /// and it may try beside others.
    pub(crate) async fn enter(&self) -> Result<Option<Turn<'_>>, Error> {
        let entered = Instant::now();
        self.waiting.fetch_add(1, Ordering::AcqRel);
        let place = Place { queue: self };
        let head = self.head.lock().await;
        match &head.failed {
            Some((failed, error)) if *failed >= entered => Err(error.clone()),
            _ if head.opened.is_some_and(|opened| opened >= entered) => Ok(None),
            _ => Ok(Some(Turn { head, place })),
        }
    }
}

/// The head's right to ask the server. Dropping it passes the right on.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    // In this order: whoever is the last to leave its place must find the head free.
    head: MutexGuard<'a, Head>,
    place: Place<'a>,
}

impl Turn<'_> {
    /// Sees to it that messages wake the head; done when it may be relied upon, or not for now.
    pub(crate) async fn listen(&mut self, wakeups: &std::sync::Arc<Wakeups>, channel: &str) {
        if self.head.subscription.is_none() {
            let subscription = self.head.subscription.insert(wakeups.subscribe(channel));
            tokio::select! {
                _ = subscription.ready() => {}
                () = self.place.queue.passing.offered() => {}
            }
            // What was seen before the subscription stood may be out of date.
            self.head.look_at = None;
        }
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
        if self.head.subscription.is_none() {
            let left = async {
                while passing.is_here() && !passing.is_offered() {
                    passing.offered().await;
                }
            };
            let _ = timeout(SOON, left).await;
        }
    }

    /// Whether to ask the server now.
    pub(crate) fn must_look(&mut self) -> bool {
        let heard = self.head.subscription.as_ref().map(Subscription::heard);
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
        let relies = self.head.subscription.as_ref().is_some_and(Subscription::is_confirmed);
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

    /// The server cannot be asked: so say all who wait behind.
    pub(crate) fn fail(&mut self, error: Error) {
        self.head.failed = Some((Instant::now(), error));
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
            () = self.place.queue.passing.offered() => {}
            () = message => {}
            () = sleep_until(look_at) => {}
        }
    }

    fn is_woken(&self) -> bool {
        self.head.subscription.as_ref().is_some_and(Subscription::is_woken)
    }
}

#[derive(Debug)]
struct Place<'a> {
    queue: &'a Queue,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let last = self.queue.waiting.fetch_sub(1, Ordering::AcqRel) == 1;
        if last
            && let Ok(mut head) = self.queue.head.try_lock()
            && self.queue.is_empty()
        {
            *head = Head::default();
        }
        // Nobody is left to take it over.
        if last {
            drop(self.queue.passing.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::FutureExt;

    use super::*;
    use crate::error::RedisError;

    #[tokio::test(start_paused = true)]
    async fn waiters_are_served_in_order_and_a_cancelled_one_is_passed_over() {
        let queue = Queue::default();
        let first = queue.enter().await.unwrap().unwrap();
        let mut second = Box::pin(queue.enter());
        let mut third = Box::pin(queue.enter());
        assert!((&mut second).now_or_never().is_none());
        assert!((&mut third).now_or_never().is_none());
        drop(second);
        drop(first);
        assert!(third.now_or_never().is_some());
        assert!(queue.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_to_leave_gives_the_subscription_back() {
        let queue = Queue::default();
        let wakeups = Wakeups::new();
        let mut first = queue.enter().await.unwrap().unwrap();
        first.listen(&wakeups, "c").await;
        let mut second = Box::pin(queue.enter());
        assert!((&mut second).now_or_never().is_none());
        drop(first);
        assert!(wakeups.is_subscribed("c"), "kept for the next");
        drop(second);
        assert!(!wakeups.is_subscribed("c"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_the_head_did_not_follow_wakes_the_next() {
        let queue = Queue::default();
        let wakeups = Wakeups::new();
        let mut first = queue.enter().await.unwrap().unwrap();
        let mut second = Box::pin(queue.enter());
        assert!((&mut second).now_or_never().is_none());
        first.listen(&wakeups, "c").await;
        first.arm();
        first.held_for(None, None);
        assert!(!first.must_look());
        wakeups.take(crate::wire::Event::Message("c".into()));
        drop(first);
        let mut second = second.await.unwrap().unwrap();
        assert!(second.must_look());
    }

    #[tokio::test(start_paused = true)]
    async fn a_dead_server_is_found_out_once_for_all_who_wait() {
        let queue = Arc::new(Queue::default());
        let mut first = queue.enter().await.unwrap().unwrap();
        let mut second = Box::pin(queue.enter());
        assert!((&mut second).now_or_never().is_none());
        tokio::time::advance(Duration::from_secs(10)).await;
        first.fail(Error::Redis(RedisError::new("gone")));
        drop(first);
        assert!(matches!(second.await, Err(Error::Redis(_))));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(queue.enter().await.is_ok(), "a later one tries for itself");
    }

    #[tokio::test(start_paused = true)]
    async fn a_ttl_of_zero_is_no_reason_to_spin() {
        let queue = Queue::default();
        let mut turn = queue.enter().await.unwrap().unwrap();
        turn.held_for(Some(Duration::ZERO), None);
        assert!(!turn.must_look());
        let begun = Instant::now();
        turn.news().await;
        assert!(begun.elapsed() >= BREATH);
    }

    #[tokio::test(start_paused = true)]
    async fn once_the_line_is_open_all_who_waited_may_try_and_newcomers_wait() {
        let queue = Queue::default();
        let mut first = queue.enter().await.unwrap().unwrap();
        let mut second = Box::pin(queue.enter());
        let mut third = Box::pin(queue.enter());
        assert!((&mut second).now_or_never().is_none());
        assert!((&mut third).now_or_never().is_none());
        tokio::time::advance(Duration::from_millis(1)).await;
        first.open();
        drop(first);
        assert!(second.await.unwrap().is_none());
        assert!(third.await.unwrap().is_none());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(queue.enter().await.unwrap().is_some());
    }
}
