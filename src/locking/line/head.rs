//! [`Head`]: the first of the line, with the right to ask the server.
//!
//! It sleeps until a message, the end of the TTL, a hand-off or its deadline, or for [`ASK_AGAIN`].

use std::{
    future::poll_fn,
    sync::atomic::{AtomicBool, Ordering},
    task::Poll,
    time::Duration,
};

use futures::{FutureExt, future::BoxFuture};
use tokio::time::{Instant, sleep_until, timeout};

use super::{Awaited, HeadState, answers::Failure, fifo::Ticket, waiter::Waiter};
use crate::{
    determinism::select,
    engine::{ASK_AGAIN, POLL, Subscription},
    error::Error,
    protocol::Order,
    sometimes::sometimes,
};

/// For this long a head waits for a local hand-off before it subscribes.
const HANDOFF_GRACE: Duration = Duration::from_millis(2);

/// A key whose TTL is about to end is not asked about sooner than this.
pub(super) const SHORTEST_PAUSE: Duration = Duration::from_millis(2);

/// The head's right to ask the server. Dropping it passes the right on.
#[derive(Debug)]
pub(crate) struct Head<'a, A: Awaited> {
    /// `None`: it has been left to the next.
    state: Option<Box<HeadState>>,
    place: Place<'a, A>,
    /// When it was last told to ask the server. `None`: it was offered a hold.
    told_to_ask: Option<Instant>,
    /// The offered hold was of no use, so the server is to be asked at once.
    offer_failed: bool,
}

/// The result of standing in line.
#[derive(Debug)]
pub(crate) enum Entered<'a, A: Awaited> {
    /// This waiter is the head.
    Head(Head<'a, A>),
    /// The lock can be shared, and the head was granted it. All that waited behind it may try.
    Opened,
    TimedOut,
}

/// What the head is to do next.
#[derive(Debug)]
pub(crate) enum Next<O> {
    /// Ask the server. [`Head::granted`], [`Head::held`] or [`Head::failed`] must follow.
    Ask,
    /// Adopt or swap a hold that a local caller has left. If the server is asked for that, the same
    /// must follow.
    Offered(O),
    /// Nothing: the wait is over.
    TimedOut,
    /// Enter the line anew: it was not polled, and others were let past it.
    PutOut,
}

impl<'a, A: Awaited> Head<'a, A> {
    /// Stands in line until this waiter is the head. Fails when the client is closed, or when a
    /// head has failed at something that this waiter needs too.
    pub(crate) async fn enter(
        awaited: &'a A,
        waiter: &Waiter<'_>,
    ) -> Result<Entered<'a, A>, Box<Error>> {
        let mut entered = None;
        let mut place = Place { awaited, ticket: None, put_out: AtomicBool::new(false) };
        if waiter.stands_on_server() {
            return Ok(Entered::Head(Self::new(None, place)));
        }
        let first = poll_fn(|context| {
            let fifo = &awaited.line().fifo;
            let before = place.ticket;
            let first = fifo.poll_first(&mut place.ticket, context, || awaited.start_minder());
            if place.ticket != before {
                // Anew, if others were let past it. What had happened by then is not its concern.
                entered = Some(Instant::now());
            }
            match awaited.check_open() {
                // In this order: all that are in line when the client is closed are woken.
                Err(closed) if first.is_pending() => Poll::Ready(Err(closed)),
                _ => first.map(Ok),
            }
        });
        let Some(first) = waiter.within(first).await else { return Ok(Entered::TimedOut) };
        // From here on it leaves behind what was left to it.
        let head = Self::new(first?, place);
        match head.state().failed.as_deref() {
            Some((failed, why)) if Some(*failed) >= entered && why.concerns(waiter.replicas) => {
                sometimes!("line: fails with the one before");
                return Err(why.error.clone().into());
            }
            _ if head.state().opened.is_some_and(|opened| Some(opened) >= entered) => {
                sometimes!("line: reads with the one before");
                return Ok(Entered::Opened);
            }
            _ => {}
        }
        if head.state().subscription.is_none() {
            waiter.within(head.linger().boxed()).await;
        }
        Ok(Entered::Head(head))
    }

    fn new(legacy: Option<Box<HeadState>>, place: Place<'a, A>) -> Self {
        let state = Some(legacy.unwrap_or_default());
        Self { state, place, told_to_ask: None, offer_failed: false }
    }

    pub(super) fn state(&self) -> &HeadState {
        self.state.as_ref().expect("left last")
    }

    fn state_mut(&mut self) -> &mut HeadState {
        self.state.as_mut().expect("left last")
    }

    /// Waits a moment for a local hand-off.
    async fn linger(&self) {
        let awaited = self.place.awaited;
        let left = async {
            while awaited.may_be_offered() && !awaited.is_offered() && !self.is_put_out() {
                self.place.nudged().await;
            }
        };
        let _ = timeout(HANDOFF_GRACE, left).await;
    }

    /// Waits until there is something to do. Subscribes first, and asks again once the subscription
    /// is confirmed.
    pub(crate) async fn next(
        &mut self,
        waiter: &mut Waiter<'_>,
    ) -> Result<Next<A::Offer>, Box<Error>> {
        let awaited = self.place.awaited;
        let mut at_once = std::mem::take(&mut self.offer_failed);
        loop {
            if !at_once {
                if self.is_put_out() {
                    sometimes!("head: found that it was put out");
                    return Ok(Next::PutOut);
                }
                if self.state().subscription.is_none()
                    && !awaited.is_offered()
                    && let Some(channel) = &waiter.channel
                    && waiter.within(self.subscribe(channel).boxed()).await.is_none()
                {
                    return Ok(Next::TimedOut);
                }
                if let Some(offer) = awaited.take_offer() {
                    self.told_to_ask = None;
                    return Ok(Next::Offered(offer));
                }
            }
            at_once = false;
            if self.yields_no_more() || self.is_due() {
                self.arm();
                return Ok(Next::Ask);
            }
            // Boxed, as the subscription above, because most waiters are offered a hold before.
            if self.sleep(waiter).boxed().await?.is_none() {
                return Ok(Next::TimedOut);
            }
            waiter.warnings.warn(awaited);
        }
    }

    /// Waits for news. `None`: the wait ended.
    async fn sleep(&self, waiter: &Waiter<'_>) -> Result<Option<()>, Error> {
        select! {
            news = waiter.within(self.news()) => Ok(news),
            why = self.place.awaited.closing() => Err(why),
        }
    }

    /// Runs the future. Each poll shows that the head is polled. If others wait and it is not
    /// polled for a while, it loses its turn.
    pub(crate) fn showing<T>(&self, mut future: BoxFuture<'_, T>) -> impl Future<Output = T> {
        poll_fn(move |context| {
            if let Some(ticket) = self.place.ticket {
                self.place.awaited.line().fifo.sign(ticket, context);
            }
            future.as_mut().poll(context)
        })
    }

    /// The server has granted the waiter's request.
    pub(crate) fn granted(&mut self, waiter: &mut Waiter<'_>) {
        self.state_mut().failed = None;
        match waiter.order {
            Order::Shared => self.state_mut().opened = Some(Instant::now()),
            _ if waiter.channel.is_none() => self.rest(waiter.first_pause),
            _ => self.held_for(waiter.until_asking(Some(waiter.lease)), waiter.heartbeat()),
        }
    }

    /// The server has said that another holder has the lock, and for how long if known. If it was asked
    /// to swap a hold, it has said that the hold is gone. Returns whether it was asked for the lock.
    pub(crate) fn held(&mut self, ttl: Option<Duration>, waiter: &mut Waiter<'_>) -> bool {
        let of_the_lock = self.told_to_ask.is_some();
        waiter.held(ttl, of_the_lock);
        self.state_mut().failed = None;
        if !of_the_lock {
            self.offer_failed = true;
            self.state_mut().ask_at = None;
        } else if waiter.channel.is_none() {
            self.rest(waiter.pauses.next());
        } else {
            self.held_for(waiter.until_asking(ttl), waiter.heartbeat());
        }
        of_the_lock
    }

    /// The server has failed the waiter. Waiters behind it that need the same fail too.
    pub(crate) fn failed(&mut self, error: &Error, waiter: &Waiter<'_>) {
        let Some(asked) = self.told_to_ask else { return };
        // The waiters behind have more time, and leases of their own.
        let impatient = waiter.deadline.is_some_and(|end| end < asked + waiter.retry_timeout);
        match error {
            Error::NotHeld { .. } => {}
            Error::Redis(_) if impatient => {}
            _ => {
                let failure = Failure { error: error.clone(), replicas: waiter.replicas };
                self.state_mut().failed = Some(Box::new((Instant::now(), failure)));
            }
        }
    }

    /// Whether it was found not to be the head any more, and must enter the line anew.
    fn is_put_out(&self) -> bool {
        self.place.put_out.load(Ordering::Relaxed)
    }

    /// Subscribes the head. Completes when messages can be relied on, or cannot for now.
    pub(super) async fn subscribe(&mut self, channel: &str) {
        let Self { state, place, .. } = self;
        let state = state.as_mut().expect("left last");
        let subscription = place.awaited.subscriptions().subscribe(channel);
        let subscription = state.subscription.insert(subscription);
        select! {
            _ = subscription.ready() => {}
            () = place.nudged() => {}
        }
        // What was seen before the subscription was confirmed may be out of date.
        state.ask_at = None;
    }

    /// Updates until when to leave the lock to others. Returns whether that time has just ended.
    fn yields_no_more(&mut self) -> bool {
        let heard = self.state().subscription.as_ref().map(Subscription::count);
        let yielded = self.state_mut().yields_until.take().is_some();
        self.state_mut().yields_until = self.place.awaited.yields_until(heard);
        yielded && self.state().yields_until.is_none()
    }

    /// Whether to ask the server now.
    pub(super) fn is_due(&self) -> bool {
        let is_woken = || self.state().subscription.as_ref().is_some_and(Subscription::is_woken);
        let is_time = || self.state().ask_at.is_none_or(|at| at <= Instant::now());
        self.state().yields_until.is_none() && (is_woken() || is_time())
    }

    /// The server is about to be asked. Messages from now on are news.
    pub(super) fn arm(&mut self) {
        if let Some(subscription) = &mut self.state_mut().subscription {
            subscription.arm();
        }
        self.state_mut().ask_at = None;
        self.told_to_ask = Some(Instant::now());
    }

    /// The lock is held, by another or from now on by this waiter, for this long if known.
    pub(super) fn held_for(&mut self, ttl: Option<Duration>, heartbeat: Option<Duration>) {
        let relies = self.state().subscription.as_ref().is_some_and(Subscription::is_confirmed);
        let most =
            if relies { heartbeat.map_or(ASK_AGAIN, |most| most.min(ASK_AGAIN)) } else { POLL };
        let pause = ttl.unwrap_or(most).clamp(SHORTEST_PAUSE, most);
        self.state_mut().ask_at = Some(Instant::now() + pause);
    }

    /// There is no need to ask for this long, and no message will come.
    fn rest(&mut self, pause: Duration) {
        self.state_mut().ask_at = Some(Instant::now() + pause);
    }

    /// Completes when it is time to ask again, or when a hold may have been offered.
    pub(super) async fn news(&self) {
        let HeadState { subscription, ask_at, yields_until, .. } = self.state();
        let ask_at = yields_until.or(*ask_at).unwrap_or_else(Instant::now);
        let message = async {
            match (subscription, yields_until) {
                (Some(subscription), None) => subscription.woken().await,
                (Some(subscription), Some(_)) => subscription.changed().await,
                (None, _) => std::future::pending().await,
            }
        };
        select! {
            () = self.place.nudged() => {}
            () = message => {}
            () = sleep_until(ask_at) => {}
        }
    }
}

impl<A: Awaited> Drop for Head<'_, A> {
    fn drop(&mut self) {
        let state = self.state.take();
        self.place.leave(state);
    }
}

#[derive(Debug)]
struct Place<'a, A: Awaited> {
    awaited: &'a A,
    /// `None`: it is not in the local line.
    ticket: Option<Ticket>,
    /// Whether it was found that others were let past it.
    put_out: AtomicBool,
}

impl<A: Awaited> Place<'_, A> {
    /// Completes when a local caller may have left something to the head, when the lock may be
    /// free, or when it is not the head any more.
    async fn nudged(&self) {
        let Some(ticket) = self.ticket else { return std::future::pending().await };
        let fifo = &self.awaited.line().fifo;
        let first = poll_fn(|context| fifo.poll_nudged(ticket, context)).await;
        self.put_out.store(!first, Ordering::Relaxed);
    }

    fn leave(&mut self, state: Option<Box<HeadState>>) {
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
