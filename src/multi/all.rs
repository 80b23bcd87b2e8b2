//! All of several locks, taken so that nobody waits for somebody who waits for him.
//!
//! First all are tried at the same time, which waits for nobody. Where one is refused, those behind it
//! in the order are given back, and only then is it waited for: whoever waits holds only what
//! comes before that in the order. All callers of ours have the same order. Redisson's have that in
//! which they were written, so a wait that holds something is bounded, and starts over holding nothing.

use std::time::Duration;

use futures::{
    future::{join_all, try_join_all},
    stream::{FuturesUnordered, StreamExt},
};
use tokio::time::{Instant, timeout};

use super::{GIVE_BACK, Terms};
use crate::{
    acquire::take as take_one, error::Error, lock::Lock, patience::Patience, share::Share,
};

/// How long to hold some while waiting for another, for each lock. Short at first: should a caller
/// of Redisson's wait for what we hold, both stand still for so long. Each round that was in vain doubles
/// the next, up to Redisson's own: where all have our order, holding on is what gets one through.
const FIRST_ROUND: Duration = Duration::from_millis(100);
const LAST_ROUND: Duration = Duration::from_millis(1_500);

/// Takes them all, or none: `None` when they could not be had in the time given. They stand in the
/// order of all callers.
pub(super) async fn take(locks: &[Lock], terms: Terms) -> Result<Option<Vec<Share>>, Error> {
    let held = locks.iter().map(|_| None).collect();
    Taking { locks, terms, held, round: FIRST_ROUND }.run().await
}

struct Taking<'a> {
    locks: &'a [Lock],
    terms: Terms,
    held: Vec<Option<Share>>,
    round: Duration,
}

impl Taking<'_> {
    async fn run(mut self) -> Result<Option<Vec<Share>>, Error> {
        let deadline = self.terms.patience.deadline();
        let mut round_end = self.round_end();
        loop {
            let early: Vec<_> = self.held.iter().map(Option::is_some).collect();
            let Some(refused) = self.try_missing().await? else {
                match self.prolong(&early).await {
                    Ok(()) => return Ok(Some(self.held.into_iter().flatten().collect())),
                    // A short lease will be over the next time as well; a lock that was taken away
                    // may not.
                    Err(Error::NotHeld { .. })
                        if self.terms.lease.is_none()
                            && !self.terms.patience.is_now()
                            && deadline.is_none_or(|deadline| deadline > Instant::now()) => {}
                    Err(error) => return Err(error),
                }
                self.give_back().await;
                round_end = self.round_end();
                continue;
            };
            if self.terms.patience.is_now() {
                self.give_back().await;
                return Ok(None);
            }
            self.held[refused..].fill_with(|| None);
            let until = deadline.map_or(round_end, |deadline| deadline.min(round_end));
            if self.wait_for(refused, Patience::Until(until)).await? {
                continue;
            }
            self.give_back().await;
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return Ok(None);
            }
            // Somebody may hold it who wants what we held: now it is free.
            if !self.wait_for(refused, self.terms.patience).await? {
                return Ok(None);
            }
            self.round = (2 * self.round).min(LAST_ROUND);
            round_end = self.round_end();
        }
    }

    /// Until when some may be held while another is waited for; not the same for any two callers.
    fn round_end(&self) -> Instant {
        let most = self.round * self.locks.len() as u32;
        // What was taken first must not end meanwhile.
        let most = self.terms.lease.map_or(most, |lease| most.min(lease / 3));
        Instant::now() + most.mul_f64(0.5 + fastrand::f64() / 2.0)
    }

    /// Tries all that are not held, at the same time. The first in the order that was refused.
    async fn try_missing(&mut self) -> Result<Option<usize>, Error> {
        let (locks, Terms { owner, lease, patience }) = (self.locks, self.terms);
        let missing = (0..locks.len()).filter(|&i| self.held[i].is_none());
        let mut tries: FuturesUnordered<_> = missing
            .map(|i| async move {
                let tried = take_one(&locks[i], owner, lease, patience.glance()).await;
                (i, tried.map_err(locks[i].told("acquiring")))
            })
            .collect();
        let mut refused: Option<usize> = None;
        while let Some((i, tried)) = tries.next().await {
            self.held[i] = tried?;
            if self.held[i].is_none() {
                refused = Some(refused.map_or(i, |first| first.min(i)));
            }
        }
        Ok(refused)
    }

    /// Whether it could be had.
    async fn wait_for(&mut self, i: usize, patience: Patience) -> Result<bool, Error> {
        let Terms { owner, lease, patience: whole } = self.terms;
        match take_one(&self.locks[i], owner, lease, patience).await {
            Ok(share) => self.held[i] = share,
            // Of a part of the time: whether the server answers in the whole, the next wait tells.
            Err(Error::Redis(_)) if patience.deadline() != whole.deadline() => {}
            Err(error) => return Err(self.locks[i].told("acquiring")(error)),
        }
        Ok(self.held[i].is_some())
    }

    /// A fixed lease counts from when the last was taken: those taken early get as much of it.
    /// Nothing may have been lost on the way.
    async fn prolong(&self, early: &[bool]) -> Result<(), Error> {
        if let Some(lease) = self.terms.lease {
            let early = self.held.iter().zip(early).filter(|(_, early)| **early);
            let shares = early.filter_map(|(share, _)| share.as_ref());
            try_join_all(shares.map(|share| share.prolong(lease, self.terms.patience))).await?;
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
