//! Acquisition of all of several locks, without deadlock.
//!
//! First all locks are tried at the same time, without waiting. If one is refused, the locks after
//! it in the global order are released. After that, the caller waits for the refused lock. It then holds
//! only locks that come earlier in the order. All callers of this crate have the same order.
//! Redisson's callers acquire in the order of their list. A wait that holds locks is therefore
//! bounded, and the caller then starts again without any.
//!
//! If several callers try the same free locks at once, each may be granted a part. The caller that
//! is granted the first lock keeps it. The others are refused it, release their part at once, and
//! wait without holding any. The locks that the first caller is missing are thus free a moment
//! later. It tries them again at once, before it waits and before it gives up.

mod patience;

use std::time::Duration;

use futures::{
    future::{join_all, try_join_all},
    stream::{FuturesUnordered, StreamExt},
};
use tokio::time::{Instant, timeout_at};

use self::patience::Patience;
use super::{
    one_server::must_be_several,
    request::{GIVE_BACK, MultiRequest, most_patient},
};
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

/// Acquires all locks or none. `None`: they were not free within the bounds. `locks` is in the
/// global order.
pub(super) async fn take(
    locks: &[Lock],
    request: MultiRequest,
) -> Result<Option<Vec<Share>>, Error> {
    let held = locks.iter().map(|_| None).collect();
    let begun = Instant::now();
    let end = most_patient(locks).and_then(|settings| request.bounds.ends_by(begun, settings));
    let patience = Patience::new(locks, &request);
    let taking = Taking {
        locks,
        request,
        end,
        held,
        early: Vec::new(),
        took: Duration::ZERO,
        held_at_end: None,
        patience,
    };
    taking.run().await
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
    /// A lock that was held when the wait was over, as far as this process knew then. The caller is told so,
    /// although a server does not answer.
    held_at_end: Option<usize>,
    patience: Patience,
}

impl Taking<'_> {
    async fn run(mut self) -> Result<Option<Vec<Share>>, Error> {
        let deadline = self.request.bounds.deadline();
        let mut round_end = self.patience.round_end();
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
                        if !self.request.bounds.last_answer_decides()
                            && (self.request.lease.is_none()
                                || self.patience.may_hold_for_longer()) => {}
                    Err(error) => return Err(error),
                }
                self.give_back().await;
                round_end = self.patience.round_end();
                refused = self.try_again_and_again().await?;
                continue;
            };
            if self.request.bounds.is_one_answer() {
                self.give_back().await;
                return Ok(None);
            }
            let until = deadline.map_or(round_end, |deadline| deadline.min(round_end));
            // What the lock that was waited for has answered, or why it has not.
            let mut was_held = false;
            let mut unanswered = None;
            // A further request could exceed the wait by another `command_timeout`.
            if !self.request.bounds.has_ended() {
                match self.wait_for_a_round(missing, until).await? {
                    Ok(true) => {
                        refused = self.try_again_and_again().await?;
                        continue;
                    }
                    Ok(false) => was_held = true,
                    Err(error) => unanswered = Some(error),
                }
            }
            if !self.request.bounds.has_ended() {
                was_held &= self.must_not_be_held_here(missing).await?;
            }
            // Also if the wait was over while that was asked, and answered.
            if was_held && self.request.bounds.has_ended() {
                self.held_at_end = Some(missing);
            }
            if self.request.bounds.has_ended() && missing > 0 && self.has_time_to_try() {
                // The last moment: the lock may have been released since.
                refused = self.try_missing_by_end(None).await?;
                if refused.is_none() {
                    continue;
                }
                unanswered = None;
            }
            self.give_back().await;
            if self.request.bounds.has_ended() {
                return unanswered.map_or(Ok(None), Err);
            }
            // Its holder may have waited for what this caller held, which is free now.
            if !self.wait_for(missing, self.request.bounds).await? {
                return Ok(None);
            }
            self.patience.next_round();
            round_end = self.patience.round_end();
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
    /// lock behind the first refused one is held, unless the caller is about to give up.
    async fn try_again_and_again(&mut self) -> Result<Option<usize>, Error> {
        let mut refused = match self.request.bounds.is_one_answer() {
            // Each try has a bound of its own, and an error that says which server is silent.
            true => self.try_missing().await?,
            false => self.try_missing_by_end(None).await?,
        };
        for _ in 0..TRIES_AGAIN {
            if refused.is_none_or(|missing| missing == 0) || !self.has_time_to_try() {
                break;
            }
            let known = refused.filter(|_| self.request.bounds.is_one_answer());
            refused = self.try_missing_by_end(known).await?;
        }
        Ok(refused)
    }

    /// Whether servers that are as slow as the last time would answer before the call ends.
    fn has_time_to_try(&self) -> bool {
        let MultiRequest { owner, lease, .. } = self.request;
        // An owner waits for the release of what it has just given back. With a lease, the locks that are
        // held are prolonged afterwards.
        let answers = 1 + u32::from(owner.is_some()) + u32::from(lease.is_some());
        self.end.is_none_or(|end| Instant::now() + answers * self.took < end)
    }

    /// As [`try_missing`](Self::try_missing), until the call ends. A lock that was refused before the wait was
    /// over may be free by then. `known`: the lock that decides where a server does not answer.
    async fn try_missing_by_end(&mut self, known: Option<usize>) -> Result<Option<usize>, Error> {
        let tried = within(self.end, self.try_missing()).await.unwrap_or(Err(Error::timed_out()));
        match (tried, self.held_at_end.or(known)) {
            (Err(Error::Redis(_)), Some(held)) => Ok(Some(held)),
            (tried, _) => tried,
        }
    }

    /// Tries the locks that are not held until all are held, or one is refused: the first refused one in
    /// the global order. The locks behind it are released, unless the wait is over.
    async fn try_missing(&mut self) -> Result<Option<usize>, Error> {
        loop {
            let refused = self.try_once().await?;
            // Some may have been given back meanwhile.
            if refused.is_some() || self.held.iter().all(Option::is_some) {
                return Ok(refused);
            }
        }
    }

    /// Tries all locks that are not held, at the same time. What is held while a server is silent is given
    /// back after a while, without an end of the tries.
    async fn try_once(&mut self) -> Result<Option<usize>, Error> {
        let begun = Instant::now();
        let (locks, request, bounds) = (self.locks, self.request, self.request.bounds);
        let once = match self.end {
            _ if bounds.is_one_answer() => bounds,
            // The release of what was given back may be under way, and its owner waits for it.
            Some(end) if request.owner.is_some() || self.patience.gave_back() => {
                Bounds::answer_by(end)
            }
            _ => bounds.without_waiting(),
        };
        let missing = (0..locks.len()).filter(|&i| self.held[i].is_none());
        let mut tries: FuturesUnordered<_> =
            missing.map(|i| async move { (i, request.acquire(&locks[i], once).await) }).collect();
        self.early = self.held.iter().map(Option::is_some).collect();
        let mut refused: Option<usize> = None;
        let mut held_since = None;
        loop {
            let is_held = self.held.iter().any(Option::is_some);
            held_since = is_held.then(|| held_since.unwrap_or_else(Instant::now));
            let next = match held_since.filter(|_| !bounds.is_one_answer() && !bounds.has_ended()) {
                Some(since) => timeout_at(since + self.patience.with_silence(), tries.next()).await,
                None => Ok(tries.next().await),
            };
            let Ok(next) = next else {
                if bounds.has_ended() {
                    continue;
                }
                self.held.fill_with(|| None);
                self.patience.give_back();
                continue;
            };
            let Some((i, tried)) = next else { break };
            self.held[i] = tried?;
            if self.held[i].is_none() {
                refused = Some(refused.map_or(i, |first| first.min(i)));
                if bounds.has_ended() {
                    self.held_at_end = refused;
                }
            }
            // A caller that is about to give up gives them back itself, before its answer.
            let Some(first) = refused.filter(|_| !bounds.last_answer_decides()) else {
                continue;
            };
            // Others may need these locks, so they are released before all tries have answered.
            self.held[first..].fill_with(|| None);
            if first == 0 {
                break;
            }
        }
        self.took = begun.elapsed();
        Ok(refused)
    }

    /// Waits for one lock for a part of the time. If others are held and its server is silent, no longer than
    /// for two answers of a slow server. Returns whether it was granted. The inner error: there was no answer,
    /// and the call goes on.
    async fn wait_for_a_round(
        &mut self,
        i: usize,
        until: Instant,
    ) -> Result<Result<bool, Error>, Error> {
        let (bounds, whole) = (Bounds::until(until), self.request.bounds);
        let decides = bounds.deadline() == whole.deadline();
        let silence = self.patience.with_silence().max(2 * self.took);
        let holds = self.held.iter().any(Option::is_some);
        let longest = (holds && !decides).then(|| until.max(Instant::now() + silence));
        match within(longest, self.wait_for(i, bounds)).await {
            Some(Err(error @ Error::Redis(_))) if !decides && !whole.has_ended() => Ok(Err(error)),
            Some(answer) => answer.map(Ok),
            None => {
                self.patience.give_back();
                Ok(Err(Error::timed_out()))
            }
        }
    }

    /// Waits for one lock. Returns whether it was granted.
    async fn wait_for(&mut self, i: usize, bounds: Bounds) -> Result<bool, Error> {
        self.held[i] = self.request.acquire(&self.locks[i], bounds).await?;
        Ok(self.held[i].is_some())
    }

    /// Fails if the missing lock is held by this call, which has acquired it by another spelling of
    /// its server. Returns whether that server has answered.
    async fn must_not_be_held_here(&self, missing: usize) -> Result<bool, Error> {
        // Others are held meanwhile, so it must not take long.
        let limit = self.patience.of_one();
        must_be_several(&self.locks[missing], self.held.iter().flatten(), limit).await
    }

    /// Extends the locks that were acquired early: a fixed lease counts from the last one. Fails if
    /// a lock was lost meanwhile.
    async fn prolong(&self) -> Result<(), Error> {
        if let Some(lease) = self.request.lease {
            let asked = |share: &Share| share.hold().lease.confirmed();
            let last = self.held.iter().flatten().map(asked).max();
            // Of one try, too: another may have been granted by a later copy of its request. As exact
            // as a lease is trusted.
            let is_early = |share: &Share| last > Some(asked(share) + lease / 100);
            let held = self.held.iter().zip(&self.early);
            let shares = held.filter_map(|(share, early)| {
                share.as_ref().filter(|share| *early || is_early(share))
            });
            try_join_all(shares.map(|share| share.prolong(lease, self.request.bounds))).await?;
        }
        self.held.iter().flatten().try_for_each(|share| share.hold().lease.check_trusted())
    }

    /// Releases what is held. A slow release, and one for which no time is left, goes on in the background.
    async fn give_back(&mut self) {
        sometimes!("all: gives back");
        let held = self.held.iter_mut().filter_map(Option::take);
        let given_back = held.map(|share| share.into_baton().hand_off_or_release());
        let most = Instant::now() + GIVE_BACK;
        let until = self.end.map_or(most, |end| end.min(most));
        let _ = timeout_at(until, join_all(given_back)).await;
    }
}
