//! Where the waiters of one process stand in line for one lock.
//!
//! Only the head asks the server, so a thousand local waiters cost it what one costs. What the head
//! learnt it leaves to the next: the subscription, a message it had no time to follow, a failure.

pub(crate) mod answers;
pub(crate) mod fifo;
mod head;

use std::{
    future::poll_fn,
    sync::{Arc, atomic::AtomicBool},
    task::Poll,
    time::Duration,
};

use tokio::time::{Instant, sleep, timeout_at};

use self::head::Place;
pub(crate) use self::head::Turn;
use crate::{
    engine::Subscription,
    error::{Error, RedisError},
    locking::handoff::Passing,
    locking::hold::Hold,
    locking::line::answers::{Answer, Answers, Failure, Known},
    locking::line::fifo::Fifo,
    locking::registry::Entry,
    locking::share::Share,
    replicas::Replicas,
};

/// How often a head behind which others wait has to show that it is polled.
const SIGN: Duration = Duration::from_secs(1);

/// How often to look whether a hold that is being given back is somebody's again.
const GLIMPSE: Duration = Duration::from_millis(20);

#[derive(Debug, Default)]
pub(crate) struct Queue {
    fifo: Fifo<Head>,
    pub(crate) answers: Answers,
    pub(crate) passing: Passing,
}

/// What one head leaves to the next.
#[derive(Debug, Default)]
struct Head {
    // What is handed from head to head is kept small.
    subscription: Option<Box<Subscription>>,
    /// The lock was seen held: unless a message comes, there is no need to look before this.
    look_at: Option<Instant>,
    /// Until when the lock is left to others, if nothing is heard.
    back: Option<Instant>,
    /// When a head last gave up on the server, and why.
    failed: Option<Box<(Instant, Failure)>>,
    /// When a head last got into a lock that can be shared: all who waited behind it may try.
    opened: Option<Instant>,
}

impl Queue {
    pub(crate) fn is_empty(&self) -> bool {
        self.fifo.is_empty()
    }

    /// Whether one who comes now need not stand in line: nobody does, nobody here holds the lock, and
    /// it is not left to others.
    pub(crate) fn is_open(&self) -> bool {
        self.is_empty() && !self.passing.is_here() && self.passing.steps_back(None).is_none()
    }

    /// Stands in line; done when this waiter is the head, or (`None`) when the line has been opened
    /// and it may try beside others; an error as soon as the client is not `open` any more. `mind` is to start a
    /// [`Minder`] of this queue's lock.
    pub(crate) async fn enter(
        &self,
        replicas: Replicas,
        open: impl Fn() -> Result<(), Error>,
        mind: impl Fn(),
    ) -> Result<Option<Turn<'_>>, Error> {
        let entered = Instant::now();
        let mut place = Place { queue: self, ticket: None, lost: AtomicBool::new(false) };
        let first = poll_fn(|context| {
            let first = self.fifo.poll_first(&mut place.ticket, context, &mind);
            match open() {
                // In this order: whoever is in line by the time that the client is closed is woken.
                Err(closed) if first.is_pending() => Poll::Ready(Err(closed)),
                _ => first.map(Ok),
            }
        });
        let head = first.await?;
        // From here on it leaves what was left to it.
        let turn = Turn { head, place };
        match turn.head.failed.as_deref() {
            Some((failed, why)) if *failed >= entered && why.concerns(replicas) => {
                Err(why.error.clone())
            }
            _ if turn.head.opened.is_some_and(|opened| opened >= entered) => Ok(None),
            _ => Ok(Some(turn)),
        }
    }

    /// Leaves the hold to the next who waits here. It comes back when there is none.
    pub(crate) fn park(&self, share: Share) -> Result<(), Share> {
        self.passing.park(share, || !self.is_empty())?;
        self.fifo.nudge();
        Ok(())
    }

    /// See [`Passing::released`].
    pub(crate) fn released(
        &self,
        hold: &Hold,
        told: Option<(Instant, u64)>,
        heard: Option<u64>,
    ) -> bool {
        let current = self.passing.released(hold, told, heard);
        if current {
            self.fifo.nudge();
        }
        current
    }

    /// For one whose wait is over: whether the lock is held by all that is known. `false`: nothing is, and
    /// nobody asks. If the server is being asked, its answer decides, if that comes before `until`.
    /// `seen`: it has said so to this waiter. `before`: how many answers came before the wait; those say
    /// nothing of now where whoever is first is not polled.
    pub(crate) async fn is_held(
        &self,
        seen: bool,
        before: u64,
        replicas: Replicas,
        until: Instant,
    ) -> Result<bool, Error> {
        let begun = self.answers.known().count;
        loop {
            let next = self.answers.next();
            let Known { count, asked, last } = self.answers.known();
            let settled = !asked && !self.passing.is_leaving();
            match last {
                Some(Answer::Failed(failure)) if failure.concerns(replicas) => {
                    return Err(failure.error);
                }
                Some(Answer::Good) if count > before && (settled || count > begun) => {
                    return Ok(true);
                }
                Some(Answer::Good) | None if settled => {
                    return Ok(seen && count == before || self.passing.is_wanted());
                }
                _ => {}
            }
            let now = Instant::now();
            if now >= until {
                return Err(Error::Redis(RedisError::new("no answer in time")));
            }
            let _ = timeout_at(until.min(now + GLIMPSE), next).await;
        }
    }

    /// Nobody is in line any more.
    fn emptied(&self) {
        self.answers.forget();
        // Nobody is left to take it over.
        drop(self.passing.take());
    }
}

/// Sees to it that no head is waited for that is not polled, and that those behind it hear when the client is
/// closed or its runtime ends.
#[must_use]
pub(crate) struct Minder {
    entry: Arc<Entry>,
    over: bool,
}

impl Minder {
    pub(crate) fn new(entry: &Arc<Entry>) -> Self {
        Self { entry: entry.clone(), over: false }
    }

    /// Ends when nobody waits behind a head that is polled, or when the client is closed.
    pub(crate) async fn run(mut self) {
        let queue = &self.entry.queue;
        while !self.over {
            let begun = Instant::now();
            tokio::select! {
                () = sleep(SIGN) => {}
                _ = self.entry.engine.closing() => return,
            }
            // The whole process may have stood still, and the head is not to be blamed for that.
            let tick = queue.fifo.tick(begun.elapsed() > SIGN + SIGN / 2);
            if tick.put_out {
                tracing::warn!(
                    lock = self.entry.name(),
                    "a future that waits for a lock is not polled: others were let past it"
                );
                queue.answers.abandon();
            }
            if tick.empty && tick.put_out {
                queue.emptied();
            }
            self.over = tick.over;
        }
    }
}

/// Cut short, also before it has begun: then the runtime has ended.
impl Drop for Minder {
    fn drop(&mut self) {
        if !self.over {
            self.entry.queue.fifo.stop_ticking();
        }
    }
}

#[cfg(test)]
mod tests;
