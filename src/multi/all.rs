//! All of several locks, taken so that nobody waits for somebody who waits for him.
//!
//! First all are tried at the same time, which waits for nobody. Where one is refused, those behind it
//! in the order are given back, and only then is it waited for: whoever waits holds only what
//! comes before that in the order. All callers of ours have the same order. Redisson's have that in
//! which they were written, so a wait that holds something is bounded, and starts over holding nothing.
//!
//! Of several callers who try the same free locks at once, each may be granted a part. The one that is
//! granted the first lock keeps it. All others are refused it, give back what they hold as soon as they know,
//! and hold nothing while they wait for it. So what the one is missing is free a moment later: it tries
//! that again at once, before it waits and before it gives up.

use std::time::Duration;

use futures::{
    future::{join_all, try_join_all},
    stream::{FuturesUnordered, StreamExt},
};
use tokio::time::{Instant, timeout};

use super::request::{GIVE_BACK, MultiRequest};
use crate::{
    error::Error,
    lock::Lock,
    locking::{request::Bounds, share::Share},
};

/// How long to hold some while waiting for another, for each lock. Short at first: should a caller
/// of Redisson's wait for what we hold, both stand still for so long. Each round that was in vain doubles
/// the next, up to Redisson's own: where all have our order, holding on is what gets one through.
const FIRST_ROUND: Duration = Duration::from_millis(100);
const LAST_ROUND: Duration = Duration::from_millis(1_500);

/// Takes them all, or none: `None` when they could not be had in the time given. They stand in the
/// order of all callers.
pub(super) async fn take(
    locks: &[Lock],
    request: MultiRequest,
) -> Result<Option<Vec<Share>>, Error> {
    let held = locks.iter().map(|_| None).collect();
    Taking { locks, request, held, early: Vec::new(), round: FIRST_ROUND }.run().await
}

/// How often whoever holds the first ones tries the others again before it waits for them.
const TRIES_AGAIN: usize = 2;

struct Taking<'a> {
    locks: &'a [Lock],
    request: MultiRequest,
    held: Vec<Option<Share>>,
    /// Which of them were held before the others were tried last.
    early: Vec<bool>,
    round: Duration,
}

impl Taking<'_> {
    async fn run(mut self) -> Result<Option<Vec<Share>>, Error> {
        let deadline = self.request.bounds.deadline();
        let mut round_end = self.round_end();
        let mut refused = match self.is_in_line() {
            true => Some(0),
            false => self.try_again_and_again().await?,
        };
        loop {
            let Some(missing) = refused else {
                match self.prolong().await {
                    Ok(()) => return Ok(Some(self.held.into_iter().flatten().collect())),
                    // A short lease will be over the next time as well; a lock that was taken away
                    // may not.
                    Err(Error::NotHeld { .. })
                        if self.request.lease.is_none()
                            && !self.request.bounds.is_one_answer()
                            && deadline.is_none_or(|deadline| deadline > Instant::now()) => {}
                    Err(error) => return Err(error),
                }
                self.give_back().await;
                round_end = self.round_end();
                refused = self.try_again_and_again().await?;
                continue;
            };
            if self.request.bounds.is_one_answer() {
                self.give_back().await;
                return Ok(None);
            }
            let until = deadline.map_or(round_end, |deadline| deadline.min(round_end));
            let over = || deadline.is_some_and(|deadline| deadline <= Instant::now());
            if self.wait_for(missing, Bounds::until(until)).await? {
                refused = self.try_again_and_again().await?;
                continue;
            }
            if over() && missing > 0 {
                // The last moment, in which it may have been given back.
                refused = self.try_missing().await?;
                if refused.is_none() {
                    continue;
                }
            }
            self.give_back().await;
            if over() {
                return Ok(None);
            }
            // Somebody may hold it who wants what we held: now it is free.
            if !self.wait_for(missing, self.request.bounds).await? {
                return Ok(None);
            }
            self.round = (2 * self.round).min(LAST_ROUND);
            round_end = self.round_end();
            refused = self.try_again_and_again().await?;
        }
    }

    /// Whether it is known that the first one is not free: others here wait for it or hold it. Who
    /// is refused it would only take the others from whoever gets it.
    fn is_in_line(&self) -> bool {
        let (first, MultiRequest { owner, bounds, .. }) = (self.locks[0].state(), self.request);
        let Ok(entry) = first else { return false };
        !bounds.is_one_answer()
            && !entry.is_open()
            && owner.is_none_or(|owner| entry.hold_of(owner).is_none())
    }

    /// Tries all that are not held, and again while the first ones are held. What stands behind the
    /// first that was refused is not held then.
    async fn try_again_and_again(&mut self) -> Result<Option<usize>, Error> {
        let mut refused = self.try_missing().await?;
        for _ in 0..TRIES_AGAIN {
            if refused.is_none_or(|refused| refused == 0) {
                break;
            }
            refused = self.try_missing().await?;
        }
        Ok(refused)
    }

    /// Until when some may be held while another is waited for; not the same for any two callers.
    fn round_end(&self) -> Instant {
        let most = self.round * self.locks.len() as u32;
        // What was taken first must not end meanwhile.
        let most = self.request.lease.map_or(most, |lease| most.min(lease / 3));
        Instant::now() + most.mul_f64(0.5 + fastrand::f64() / 2.0)
    }

    /// Tries all that are not held, at the same time. The first in the order that was refused: what
    /// stands behind it is given back.
    async fn try_missing(&mut self) -> Result<Option<usize>, Error> {
        self.early = self.held.iter().map(Option::is_some).collect();
        let (locks, MultiRequest { owner, lease, bounds }) = (self.locks, self.request);
        let missing = (0..locks.len()).filter(|&i| self.held[i].is_none());
        let mut tries: FuturesUnordered<_> = missing
            .map(|i| async move {
                let tried = locks[i].wanted().acquire(owner, lease, bounds.without_waiting()).await;
                (i, tried.map_err(locks[i].told("acquiring")))
            })
            .collect();
        let mut refused: Option<usize> = None;
        while let Some((i, tried)) = tries.next().await {
            let share = tried?;
            if share.is_none() {
                refused = Some(refused.map_or(i, |first| first.min(i)));
            }
            self.held[i] = share;
            let Some(first) = refused.filter(|_| !bounds.is_one_answer()) else { continue };
            // Others may need them: at once, whoever has yet to answer.
            self.held[first..].fill_with(|| None);
            if first == 0 {
                break;
            }
        }
        Ok(refused)
    }

    /// Whether it could be had.
    async fn wait_for(&mut self, i: usize, bounds: Bounds) -> Result<bool, Error> {
        let MultiRequest { owner, lease, bounds: whole } = self.request;
        match self.locks[i].wanted().acquire(owner, lease, bounds).await {
            Ok(share) => self.held[i] = share,
            // Of a part of the time: whether the server answers in the whole, the next wait tells, if
            // there is one.
            Err(Error::Redis(_))
                if bounds.deadline() != whole.deadline()
                    && whole.deadline().is_none_or(|end| end > Instant::now()) => {}
            Err(error) => return Err(self.locks[i].told("acquiring")(error)),
        }
        Ok(self.held[i].is_some())
    }

    /// A fixed lease counts from when the last was taken: those taken early get as much of it.
    /// Nothing may have been lost on the way.
    async fn prolong(&self) -> Result<(), Error> {
        if let Some(lease) = self.request.lease {
            let early = self.held.iter().zip(&self.early).filter(|(_, early)| **early);
            let shares = early.filter_map(|(share, _)| share.as_ref());
            try_join_all(shares.map(|share| share.prolong(lease, self.request.bounds))).await?;
        }
        let lost = self.held.iter().flatten().find_map(|share| share.hold().lease.loss());
        lost.map_or(Ok(()), |why| Err(Error::NotHeld { why }))
    }

    /// Gives back what is held; in the background what takes long.
    async fn give_back(&mut self) {
        let held = self.held.iter_mut().filter_map(Option::take);
        let _ = timeout(GIVE_BACK, join_all(held.map(Share::release))).await;
    }
}
