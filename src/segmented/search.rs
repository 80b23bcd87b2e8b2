//! The search for a segment that is free, and the wait until one is.
//!
//! The search asks for one segment at a time, so that it is never granted two. The wait consists of
//! waits for single locks. They share lines, subscriptions and hand-offs with all other waiters of
//! the client. A wait for one more segment begins every [`STEP`]: where holds are short, most
//! callers are granted a segment before they wait for many.

use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt};
use tokio::time::{Instant, timeout_at};

use crate::{
    error::Error,
    lock::Lock,
    locking::{is_open, request::Bounds, share::Share},
    owner::OwnerId,
};

/// How long after one segment the next is waited for too.
const STEP: Duration = Duration::from_millis(10);

/// A hold on a segment, and the number of that segment.
pub(super) type Found = (usize, Share);

/// The search of one caller.
pub(super) struct Search<'a> {
    pub(super) segments: &'a [Lock],
    pub(super) owner: Option<OwnerId>,
    pub(super) lease: Option<Duration>,
    pub(super) bounds: Bounds,
}

impl Search<'_> {
    /// Acquires one of these segments, the first of them if it is free. `None`: others held all of
    /// them until the bounds were over.
    pub(super) async fn run(&self, mut order: Vec<usize>) -> Result<Option<Found>, Error> {
        // A segment that the owner lost would end the search with the loss, while others are free.
        if order.iter().any(|&i| !self.is_lost(i)) {
            order.retain(|&i| !self.is_lost(i));
        }
        // An owner re-enters what it holds.
        order.sort_by_key(|&i| !self.is_own(i));
        let begun = Instant::now();
        if self.bounds.is_one_answer() {
            return self.ask_each(&order, self.answers_by(begun)?).await;
        }
        let found = match self.bounds.deadline() {
            // One that waits for a moment only still gets an answer from each.
            Some(deadline) => {
                let end = Bounds::answer_by(deadline.max(self.end_of_answers(begun)?));
                self.ask_each(&self.not_known_as_held(&order), end).await?
            }
            None => {
                let bounds = self.bounds.without_waiting();
                self.ask_each(&self.not_known_as_held(&order), bounds).await?
            }
        };
        match found {
            Some(found) => Ok(Some(found)),
            None => self.wait(&order).await,
        }
    }

    /// Asks for one segment after the other, until one is granted.
    async fn ask_each(&self, order: &[usize], bounds: Bounds) -> Result<Option<Found>, Error> {
        for &i in order {
            if let Some(found) = self.acquire(i, bounds).await? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Waits until one of the segments is granted.
    async fn wait(&self, order: &[usize]) -> Result<Option<Found>, Error> {
        let is_over = || self.bounds.deadline().is_some_and(|deadline| deadline <= Instant::now());
        let mut waits = FuturesUnordered::new();
        let mut rest = order;
        let mut next = Instant::now();
        loop {
            let ended = match rest {
                [i, others @ ..] if !is_over() => match timeout_at(next, waits.next()).await {
                    Ok(Some(ended)) => Some(ended),
                    Ok(None) | Err(_) => {
                        waits.push(self.acquire(*i, self.bounds));
                        (rest, next) = (others, Instant::now() + STEP);
                        continue;
                    }
                },
                _ => waits.next().await,
            };
            match ended {
                Some(Ok(Some(found))) => return Ok(Some(found)),
                Some(Ok(None)) => {}
                Some(Err(error)) => return Err(error),
                None => break,
            }
        }
        // Those that were not waited for may be free since they were asked for.
        let now = Instant::now();
        self.ask_each(rest, self.answers_by(now)?).await
    }

    /// Acquires this segment. `None`: it was held until the bounds were over.
    async fn acquire(&self, i: usize, bounds: Bounds) -> Result<Option<Found>, Error> {
        let segment = &self.segments[i];
        let acquired = segment.wanted().acquire(self.owner, self.lease, bounds).await;
        Ok(acquired.map_err(segment.told("acquiring"))?.map(|share| (i, share)))
    }

    /// The segments that this client neither holds nor waits for, and those of the owner.
    fn not_known_as_held(&self, order: &[usize]) -> Vec<usize> {
        let may_be_free = |&i: &usize| {
            self.is_own(i) || self.segments[i].state().map_or(true, |state| is_open(state))
        };
        order.iter().copied().filter(may_be_free).collect()
    }

    /// Whether the owner holds this segment.
    fn is_own(&self, i: usize) -> bool {
        let state = self.segments[i].state();
        self.owner.is_some_and(|owner| state.is_ok_and(|state| state.hold_of(owner).is_some()))
    }

    /// Whether the owner has lost this segment, and a guard of it is left.
    fn is_lost(&self, i: usize) -> bool {
        let Some(owner) = self.owner else { return false };
        let hold = self.segments[i].state().ok().and_then(|state| state.hold_of(owner));
        hold.is_some_and(|hold| hold.is_wanted() && hold.lease.loss().is_some())
    }

    fn answers_by(&self, begun: Instant) -> Result<Bounds, Error> {
        Ok(Bounds::answer_by(self.end_of_answers(begun)?))
    }

    /// By when the servers must have answered a caller that does not wait.
    fn end_of_answers(&self, begun: Instant) -> Result<Instant, Error> {
        let settings = &self.segments[0].state()?.target.engine.settings;
        Ok(begun + settings.command_timeout)
    }
}
