//! Acquisition of all of several locks, without deadlock.
//!
//! First all locks are tried at the same time, without waiting. If one is refused, the locks after
//! it in the global order are released. Only then is it waited for. A caller that waits thus holds
//! only locks that come earlier in the order. All callers of this crate have the same order.
//! Redisson's callers acquire in the order of their list. A wait that holds locks is therefore
//! bounded, and the caller then starts again without any.
//!
//! If several callers try the same free locks at once, each may be granted a part. The caller that
//! is granted the first lock keeps it. The others are refused it, release their part at once, and
//! wait without holding any. The locks that the first caller is missing are thus free a moment
//! later. It tries them again at once, before it waits and before it gives up.

use std::time::Duration;

use futures::{
    FutureExt,
    future::{join_all, try_join_all},
    stream::{FuturesUnordered, StreamExt},
};
use tokio::time::{Instant, timeout};

use super::request::{GIVE_BACK, MultiRequest, most_patient};
use crate::{
    error::Error,
    lock::Lock,
    locking::{
        may_ask_at_once,
        request::{Bounds, within},
        share::Share,
    },
    sometimes::sometimes,
};

/// How long locks are held while another is waited for, for each lock. It is short at first: if a
/// caller of Redisson waits for a lock held here, both stand still for this time. It doubles in
/// each round without success, up to Redisson's own value. Among callers of this crate, holding on
/// is what succeeds.
const FIRST_ROUND: Duration = Duration::from_millis(100);
const LAST_ROUND: Duration = Duration::from_millis(1_500);

/// Acquires all locks or none. `None`: they were not free within the bounds. `locks` is in the
/// global order.
pub(super) async fn take(
    locks: &[Lock],
    request: MultiRequest,
) -> Result<Option<Vec<Share>>, Error> {
    let held = locks.iter().map(|_| None).collect();
    let begun = Instant::now();
    let end = most_patient(locks).and_then(|settings| request.bounds.ends_by(begun, settings));
    let longest_round = request.shortest_lease(locks) / 3;
    let (early, took, refused) = (Vec::new(), Duration::ZERO, None);
    let round = FIRST_ROUND;
    let has_asked = false;
    Taking { locks, request, end, held, early, took, refused, round, has_asked, longest_round }
        .run()
        .await
}

/// How often the caller that holds the first locks tries the others again before it waits for them.
const TRIES_AGAIN: usize = 2;

struct Taking<'a> {
    locks: &'a [Lock],
    request: MultiRequest,
    /// By when the call ends in any case.
    end: Option<Instant>,
    held: Vec<Option<Share>>,
    /// Which locks were held before the others were last tried.
    early: Vec<bool>,
    /// How long the last try took.
    took: Duration,
    /// The first lock that was refused then.
    refused: Option<usize>,
    round: Duration,
    /// Whether the server of a refused lock has said who holds it.
    has_asked: bool,
    /// The locks acquired first must not expire meanwhile.
    longest_round: Duration,
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
                let prolonged = within(self.end, self.prolong()).await;
                match prolonged.unwrap_or(Err(Error::timed_out())) {
                    Ok(()) => {
                        self.request.keep(self.held.iter_mut().flatten());
                        return Ok(Some(self.held.into_iter().flatten().collect()));
                    }
                    // A short lease would end the next time too. A lock that was removed may not
                    // be.
                    Err(Error::NotHeld { .. })
                        if self.request.lease.is_none()
                            && !self.request.bounds.last_answer_decides() => {}
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
            // A further request could exceed the wait by another `command_timeout`.
            if !self.request.bounds.has_ended()
                && self.wait_for(missing, Bounds::until(until)).await?
            {
                refused = self.try_again_and_again().await?;
                continue;
            }
            if !self.request.bounds.has_ended() {
                self.must_not_be_held_here(missing).await?;
            }
            if self.request.bounds.has_ended() && missing > 0 && self.has_time_to_try() {
                // The last moment: the lock may have been released since.
                refused = self.try_missing_or(Ok(Some(missing))).await?;
                if refused.is_none() {
                    continue;
                }
            }
            self.give_back().await;
            if self.request.bounds.has_ended() {
                return Ok(None);
            }
            // Its holder may have waited for what this caller held, which is free now.
            if !self.wait_for(missing, self.request.bounds).await? {
                return Ok(None);
            }
            self.round = (2 * self.round).min(LAST_ROUND);
            round_end = self.round_end();
            refused = self.try_again_and_again().await?;
        }
    }

    /// Whether local callers are known to hold the first lock, or to wait for it. A caller that is
    /// refused the first lock would only take the others from the next holder.
    fn is_in_line(&self) -> bool {
        let (first, MultiRequest { owner, bounds, .. }) = (self.locks[0].state(), self.request);
        let Ok(state) = first else { return false };
        !bounds.is_one_answer()
            && !may_ask_at_once(state)
            && owner.is_none_or(|owner| state.hold_of(owner).is_none())
    }

    /// Tries all locks that are not held, and again while the first ones are held. Afterwards no
    /// lock behind the first refused one is held.
    async fn try_again_and_again(&mut self) -> Result<Option<usize>, Error> {
        let mut refused = match self.request.bounds.is_one_answer() {
            // Each try has a bound of its own, and an error that says which server is silent.
            true => self.try_missing().await?,
            false => self.try_missing_or(Err(Error::timed_out())).await?,
        };
        for _ in 0..TRIES_AGAIN {
            let Some(missing) = refused.filter(|refused| *refused > 0) else { break };
            if !self.has_time_to_try() {
                break;
            }
            refused = self.try_missing_or(Ok(Some(missing))).await?;
        }
        Ok(refused)
    }

    /// Whether servers that are as slow as the last time would answer before the call ends.
    fn has_time_to_try(&self) -> bool {
        // With a lease, the locks that are held are prolonged afterwards.
        let answers = if self.request.lease.is_some() { 2 } else { 1 };
        self.end.is_none_or(|end| Instant::now() + answers * self.took < end)
    }

    /// As [`try_missing`](Self::try_missing), or this if the call ends before all have answered, and none
    /// was refused until then.
    async fn try_missing_or(
        &mut self,
        otherwise: Result<Option<usize>, Error>,
    ) -> Result<Option<usize>, Error> {
        match within(self.end, self.try_missing()).await {
            Some(tried) => tried,
            None => self.refused.map_or(otherwise, |refused| Ok(Some(refused))),
        }
    }

    /// Until when locks may be held while another is waited for. Random, so that no two callers
    /// have the same.
    fn round_end(&self) -> Instant {
        let most = (self.round * self.locks.len() as u32).min(self.longest_round);
        Instant::now() + most.mul_f64(0.5 + fastrand::f64() / 2.0)
    }

    /// Tries all locks that are not held, at the same time. Returns the first refused one in the
    /// global order. The locks behind it are released, unless the wait is over.
    async fn try_missing(&mut self) -> Result<Option<usize>, Error> {
        let begun = Instant::now();
        self.early = self.held.iter().map(Option::is_some).collect();
        let (locks, request, bounds) = (self.locks, self.request, self.request.bounds);
        let missing = (0..locks.len()).filter(|&i| self.held[i].is_none());
        let mut tries: FuturesUnordered<_> = missing
            .map(|i| async move { (i, request.acquire(&locks[i], bounds.without_waiting()).await) })
            .collect();
        self.refused = None;
        while let Some((i, tried)) = tries.next().await {
            let share = match tried {
                // One was refused, and no time is left to wait for it.
                Err(Error::Redis(_)) if self.refused.is_some() && bounds.has_ended() => break,
                tried => tried?,
            };
            if share.is_none() {
                self.refused = Some(self.refused.map_or(i, |first| first.min(i)));
            }
            self.held[i] = share;
            // A caller that is about to give up gives them back itself, before its answer.
            let Some(first) = self.refused.filter(|_| !bounds.last_answer_decides()) else {
                continue;
            };
            // Others may need these locks, so they are released before all tries have answered.
            self.held[first..].fill_with(|| None);
            if first == 0 {
                break;
            }
        }
        self.took = begun.elapsed();
        Ok(self.refused)
    }

    /// Waits for one lock. Returns whether it was granted.
    async fn wait_for(&mut self, i: usize, bounds: Bounds) -> Result<bool, Error> {
        let whole = self.request.bounds;
        match self.request.acquire(&self.locks[i], bounds).await {
            Ok(share) => self.held[i] = share,
            // This wait covers only a part of the time. The next wait, if there is one, finds out
            // whether the server answers.
            Err(Error::Redis(_)) if bounds.deadline() != whole.deadline() && !whole.has_ended() => {
            }
            Err(error) => return Err(error),
        }
        Ok(self.held[i].is_some())
    }

    /// Fails if the missing lock is held by this call, which has acquired it by another spelling of
    /// its server. Asks that server at most once.
    async fn must_not_be_held_here(&mut self, missing: usize) -> Result<(), Error> {
        if self.has_asked {
            return Ok(());
        }
        let refused = self.locks[missing].state()?;
        let held = self.held.iter().zip(self.locks).filter_map(|(share, lock)| {
            let state = lock.state().ok().filter(|state| state.name() == refused.name())?;
            Some((share.as_ref()?.hold().id().as_str(), state))
        });
        let namesakes: Vec<_> = held.collect();
        if namesakes.is_empty() {
            return Ok(());
        }
        // Others are held meanwhile, so it must not take long.
        let most = self.round.min(self.longest_round);
        let asked = timeout(most, self.locks[missing].inspect_all().boxed()).await;
        let Ok(Ok(seen)) = asked else { return Ok(()) };
        self.has_asked = true;
        let is_there = |id: &str| seen.holders.iter().any(|holder| holder.id == id);
        let Some((_, same)) = namesakes.into_iter().find(|(id, _)| is_there(id)) else {
            return Ok(());
        };
        let [one, other] = [same, refused].map(|state| &state.target.engine.settings.server);
        let name = refused.name();
        Err(Error::Invalid(format!(
            "the lock {name:?} is named twice: {one} and {other} are one server"
        )))
    }

    /// Extends the locks that were acquired early: a fixed lease counts from the last one. Fails if
    /// a lock was lost meanwhile.
    async fn prolong(&self) -> Result<(), Error> {
        if let Some(lease) = self.request.lease {
            let early = self.held.iter().zip(&self.early).filter(|(_, early)| **early);
            let shares = early.filter_map(|(share, _)| share.as_ref());
            try_join_all(shares.map(|share| share.prolong(lease, self.request.bounds))).await?;
        }
        let lost = self.held.iter().flatten().find_map(|share| share.hold().lease.loss());
        lost.map_or(Ok(()), |why| Err(Error::NotHeld { why }))
    }

    /// Releases what is held. A slow release goes on in the background.
    async fn give_back(&mut self) {
        sometimes!("all: gives back");
        let held = self.held.iter_mut().filter_map(Option::take);
        let given_back = held.map(|share| share.into_baton().hand_off_or_release());
        let _ = timeout(GIVE_BACK, join_all(given_back)).await;
    }
}
