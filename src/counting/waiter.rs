//! [`CounterWaiter`]: one caller that waits for a counter.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep_until};

use super::{
    counter::Counter,
    line::{Place, Step},
};
use crate::{
    determinism::select,
    engine::{ASK_AGAIN, POLL},
    error::Error,
    protocol::Countable,
};

/// A place in the line of a counter. Dropping it leaves the line.
#[derive(Debug)]
pub(super) struct CounterWaiter<'a, P: Countable> {
    counter: &'a Arc<Counter<P>>,
    place: Place,
}

/// What a waiter is to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Ask the server, by [`CounterWaiter::ask`]. [`CounterWaiter::answered`] or
    /// [`CounterWaiter::finish`] must follow, unless it leaves.
    Ask,
    /// Another waiter has seen what all wait for.
    Done,
    /// The wait is over.
    TimedOut,
}

impl<'a, P: Countable> CounterWaiter<'a, P> {
    /// Enters the line. The server has just been asked. It is asked again once messages can be
    /// relied on.
    pub(super) fn enter(counter: &'a Arc<Counter<P>>, wants: i64, wakes_one: bool) -> Self {
        counter.line.was_asked_from_outside();
        let (place, starts) = counter.line.enter(wants);
        if starts {
            counter.engine.life.runtime.spawn(listen(counter.clone(), wakes_one));
        }
        if is_subscribed(counter) {
            counter.line.wake(place.number);
        }
        Self { counter, place }
    }

    /// Waits until there is something to do. Fails when the client is closed, or when the server does not
    /// answer.
    pub(super) async fn next(&self, deadline: Option<Instant>) -> Result<Next, Error> {
        let Counter { engine, line, .. } = &**self.counter;
        loop {
            engine.check_open()?;
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(Next::TimedOut);
            }
            let ask_again = if is_subscribed(self.counter) { ASK_AGAIN } else { POLL };
            let due = match line.step(self.place.number, ask_again) {
                Step::Ask => return Ok(Next::Ask),
                Step::Done => return Ok(Next::Done),
                Step::Failed(error) => return Err(error),
                Step::Sleep(due) => deadline.map_or(due, |deadline| due.min(deadline)),
            };
            select! {
                () = self.place.bell.notified() => {}
                () = sleep_until(due) => {}
                why = engine.closing() => return Err(why),
            }
        }
    }

    /// The server has answered: this many permits are free.
    pub(super) fn answered(&self, free: i64) {
        self.counter.line.answered(self.place.number, free);
    }

    /// Asks the server. If that fails, others that wait fail too, unless this waiter had less time than
    /// they may have.
    pub(super) async fn ask<T>(
        &self,
        deadline: Option<Instant>,
        asking: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let Counter { engine, line, .. } = &**self.counter;
        let patient = Instant::now() + engine.settings.retry_timeout;
        let answer = asking.await;
        if let Err(error @ Error::Redis(_)) = &answer
            && deadline.is_none_or(|end| end >= patient)
        {
            line.failed(self.place.number, error);
        }
        answer
    }

    /// The server has said after what time a lease ends.
    pub(super) fn next_end(&self, after: Option<Duration>) {
        self.counter.line.next_end(after);
    }

    /// The server has said that what all wait for has happened.
    pub(super) fn finish(&self) {
        self.counter.line.finish(self.place.number);
    }
}

impl<P: Countable> Drop for CounterWaiter<'_, P> {
    fn drop(&mut self) {
        self.counter.line.leave(self.place.number);
    }
}

/// Whether messages can be relied on.
fn is_subscribed<P: Countable>(counter: &Counter<P>) -> bool {
    counter.engine.subscriptions.count(counter.protocol.channel()).is_some()
}

/// Wakes waiters by messages, until there are none, and others instead of those that are not polled. The
/// confirmation of the subscription counts as a message.
async fn listen<P: Countable>(counter: Arc<Counter<P>>, wakes_one: bool) {
    let Counter { engine, line, protocol, .. } = &*counter;
    let mut subscription = engine.subscriptions.subscribe(protocol.channel());
    loop {
        let look_at = line.look_at();
        select! {
            () = subscription.woken() => {
                // In this order: a message that comes meanwhile wakes another waiter.
                subscription.arm();
                line.wake_first(wakes_one);
            }
            () = sleep_until(look_at.unwrap_or_else(Instant::now)), if look_at.is_some() => {
                line.replace_unpolled();
            }
            () = line.changed.notified() => if line.ends_listening() {
                return;
            },
            _ = engine.closing() => return,
        }
    }
}
