//! The search for a segment that is free, and the wait until one is.
//!
//! The search asks for one segment at a time, so that it is never granted two, unless they are so many
//! that the time would run out. What is granted besides is released. The wait consists of
//! waits for single locks. They share lines, subscriptions and hand-offs with all other waiters of
//! the client. A wait for one more segment begins every [`STEP`]: where holds are short, most
//! callers are granted a segment before they wait for many.
//!
//! A segment whose server does not answer is passed over: after a while the next one is asked for
//! too. What went wrong there is reported only if no other segment was granted.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use futures::stream::{FuturesUnordered, StreamExt};
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::{
    error::Error,
    lock::Lock,
    locking::{may_ask_at_once, request::Bounds, share::Share},
    owner::OwnerId,
};

/// How long after one segment the next is waited for too.
const STEP: Duration = Duration::from_millis(10);

/// How long after an error a segment is waited for again.
const AFTER_ERROR: Duration = Duration::from_secs(1);

/// A hold on a segment, and the number of that segment.
pub(super) type Found = (usize, Share);

/// What came of the requests of a round.
#[derive(Default)]
struct Round {
    /// The segments that have not answered.
    open: BTreeSet<usize>,
    /// The first error.
    failed: Option<Error>,
}

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
        // Each is looked at once: a hold may end in between.
        let kept: Vec<_> = order.iter().copied().filter(|&i| !self.is_lost(i)).collect();
        if !kept.is_empty() {
            order = kept;
        }
        // An owner re-enters what it holds.
        order.sort_by_cached_key(|&i| !self.is_own(i));
        let end = self.end_of_answers()?;
        if self.bounds.is_one_answer() {
            return self.ask_each(&order, Bounds::answer_by(end), end, true).await;
        }
        let bounds = match self.bounds.deadline() {
            // One that waits for a moment only still gets an answer from each.
            Some(deadline) => Bounds::answer_by(deadline.max(end)),
            None => self.bounds.without_waiting(),
        };
        match self.ask_each(&self.not_known_as_held(&order), bounds, end, false).await? {
            Some(found) => Ok(Some(found)),
            None => self.wait(&order).await,
        }
    }

    /// Asks for one segment after the other, until one is granted, or until `end`. While a server does
    /// not answer, the next segment is asked for too.
    ///
    /// `to_the_end`: all answers are awaited, and an error is returned if none was granted. Otherwise
    /// the segments without an answer are left, for a caller that waits for them then.
    async fn ask_each(
        &self,
        order: &[usize],
        bounds: Bounds,
        end: Instant,
        to_the_end: bool,
    ) -> Result<Option<Found>, Error> {
        let mut round = Round::default();
        let found = match timeout_at(end, self.round(order, bounds, to_the_end, &mut round)).await {
            Ok(found) => found?,
            Err(_) => {
                let told = round.open.first().map(|&i| self.segments[i].with_context("acquiring"));
                round.failed = round.failed.or(told.map(|told| told(Error::timed_out())));
                None
            }
        };
        match round.failed {
            Some(error) if to_the_end && found.is_none() => Err(error),
            _ => Ok(found),
        }
    }

    /// The requests of [`ask_each`](Self::ask_each).
    async fn round(
        &self,
        order: &[usize],
        bounds: Bounds,
        to_the_end: bool,
        round: &mut Round,
    ) -> Result<Option<Found>, Error> {
        let mut asks = FuturesUnordered::new();
        let mut rest = order.iter();
        let begun = Instant::now();
        // After half of the time all of them are asked for, however many there are.
        let step = self.command_timeout()? / 2 / order.len().max(1) as u32;
        let mut patience = self.command_timeout()? / 8;
        let (mut is_next, mut silent_at) = (true, begun + patience);
        loop {
            let due = begun + step * (order.len() - rest.len()) as u32;
            if (is_next || due <= Instant::now())
                && let Some(&i) = rest.next()
            {
                round.open.insert(i);
                asks.push(self.acquire(i, bounds));
                is_next = false;
                continue;
            }
            let until = if rest.len() == 0 { silent_at } else { silent_at.min(due) };
            let ended = match timeout_at(until, asks.next()).await {
                Ok(ended) => ended,
                Err(_) if Instant::now() < silent_at => continue,
                // The server of the next one may be silent as well.
                Err(_) => {
                    patience = (patience / 2).max(STEP);
                    match rest.len() {
                        0 if to_the_end => asks.next().await,
                        0 => return Ok(None),
                        _ => {
                            (is_next, silent_at) = (true, Instant::now() + patience);
                            continue;
                        }
                    }
                }
            };
            (is_next, silent_at) = (true, Instant::now() + patience);
            let Some((i, answer)) = ended else { return Ok(None) };
            round.open.remove(&i);
            match answer {
                Ok(Some(found)) => return Ok(Some(found)),
                Ok(None) => {}
                Err(error) => drop(round.failed.get_or_insert(passed_over(error)?)),
            }
        }
    }

    /// Waits until one of the segments is granted.
    async fn wait(&self, order: &[usize]) -> Result<Option<Found>, Error> {
        let mut waits = FuturesUnordered::new();
        let mut rest = order;
        let mut next = Instant::now();
        // The segments whose last request failed: the error, and how many answers had come in their
        // line by then.
        let mut failed = BTreeMap::new();
        loop {
            let ended = match rest {
                [i, others @ ..] if !self.bounds.has_ended() => {
                    match timeout_at(next, waits.next()).await {
                        Ok(Some(ended)) => Some(ended),
                        Ok(None) | Err(_) => {
                            waits.push(self.wait_for(*i, Duration::ZERO));
                            (rest, next) = (others, Instant::now() + STEP);
                            continue;
                        }
                    }
                }
                _ => waits.next().await,
            };
            match ended {
                Some((_, Ok(Some(found)))) => return Ok(Some(found)),
                Some((i, Ok(None))) => drop(failed.remove(&i)),
                Some((i, Err(error))) => {
                    let error = passed_over(error)?;
                    // A segment whose server answers again counts as waited for, no longer as failed.
                    failed.retain(|&i, &mut (_, answers)| !self.serves_since(i, answers));
                    failed.remove(&i);
                    if failed.len() + 1 == order.len() {
                        return Err(error);
                    }
                    let answers = self.segments[i].state()?.target.line.answers.count();
                    failed.insert(i, (error, answers));
                    if !self.bounds.has_ended() {
                        waits.push(self.wait_for(i, AFTER_ERROR));
                    }
                }
                None => break,
            }
        }
        // Those that were not waited for may be free since they were asked for.
        let end = self.end_of_answers()?;
        match self.ask_each(rest, Bounds::answer_by(end), end, true).await? {
            None => failed.into_values().next().map_or(Ok(None), |(error, _)| Err(error)),
            found => Ok(found),
        }
    }

    /// Waits for this segment, after a pause.
    async fn wait_for(&self, i: usize, pause: Duration) -> (usize, Result<Option<Found>, Error>) {
        if !pause.is_zero() {
            let end = Instant::now() + pause;
            sleep_until(self.bounds.deadline().map_or(end, |deadline| deadline.min(end))).await;
        }
        self.acquire(i, self.bounds).await
    }

    /// Acquires this segment. `None`: it was held until the bounds were over.
    async fn acquire(&self, i: usize, bounds: Bounds) -> (usize, Result<Option<Found>, Error>) {
        let segment = &self.segments[i];
        let acquired = segment.handle().acquire(self.owner, self.lease, bounds).await;
        let acquired = acquired.map_err(segment.with_context("acquiring"));
        (i, acquired.map(|share| share.map(|share| (i, share))))
    }

    /// Whether the server has answered a waiter for this segment, after this many answers.
    fn serves_since(&self, i: usize, answers: u64) -> bool {
        let state = self.segments[i].state();
        state.is_ok_and(|state| state.target.line.answers.has_served_since(answers))
    }

    /// The segments that this client neither holds nor waits for, and those of the owner.
    fn not_known_as_held(&self, order: &[usize]) -> Vec<usize> {
        let may_be_free = |&i: &usize| {
            self.is_own(i) || self.segments[i].state().map_or(true, |state| may_ask_at_once(state))
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
        hold.is_some_and(|hold| hold.has_guard() && hold.lease.loss().is_some())
    }

    /// By when the servers must have answered a caller that begins to ask, and does not wait.
    fn end_of_answers(&self) -> Result<Instant, Error> {
        Ok(Instant::now() + self.command_timeout()?)
    }

    fn command_timeout(&self) -> Result<Duration, Error> {
        Ok(self.segments[0].state()?.target.engine.settings.command_timeout)
    }
}

/// The error of a segment, if the others may still be acquired.
fn passed_over(error: Error) -> Result<Error, Error> {
    match error {
        Error::Redis(_) | Error::NotReplicated { .. } => Ok(error),
        _ => Err(error),
    }
}
