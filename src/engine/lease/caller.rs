//! The methods of a [`Lease`] that concern the caller that has the hold: a hand-off gives it another one.

use std::{sync::atomic::Ordering, time::Duration};

use tokio::time::Instant;

use super::{Lease, State, present_caller::PresentCaller, trust};

impl Lease {
    /// How many shares of the hold have not been released.
    pub(crate) fn shares(&self) -> u32 {
        self.shares.load(Ordering::SeqCst)
    }

    /// One more. Who adds it sees then that the client is closed, or the call that closes it sees the share:
    /// hence the order, here and in [`Lifecycle`](crate::engine::Lifecycle).
    pub(crate) fn add_share(&self) {
        self.shares.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns how many are left.
    pub(crate) fn remove_share(&self) -> u32 {
        self.shares.fetch_sub(1, Ordering::Relaxed) - 1
    }

    /// For permits: 1 while their caller has them, then 0.
    pub(crate) fn set_shares(&self, shares: u32) {
        self.shares.store(shares, Ordering::Relaxed);
    }

    /// Whether a guard of the hold is left.
    pub(crate) fn has_guard(&self) -> bool {
        self.shares() > 0
    }

    /// Its caller has released it, and is told so. It waits for the next local caller, who adopts or
    /// swaps it. That it ends before is no loss, nor that it is not there any more.
    pub(crate) fn mark_between_callers(&self) {
        self.state().is_between_callers = true;
    }

    /// Whether the next local caller has not got it yet.
    pub(crate) fn is_between_callers(&self) -> bool {
        self.state().is_between_callers
    }

    /// A copy of a swap may have replaced it, and it is released. That its release finds nothing is no
    /// loss then.
    pub(crate) fn mark_may_be_replaced(&self) {
        self.state().may_be_replaced = true;
    }

    pub(crate) fn may_be_replaced(&self) -> bool {
        self.state().may_be_replaced
    }

    /// Whether the rest of this lease suits a caller that asks for such a lease now. It must not be
    /// longer than requested. If it is not renewed, it must not be much shorter either. A caller that
    /// it suits holds it from now on.
    pub(crate) fn adopt(&self, lease: Duration, watched: bool) -> bool {
        let mut state = self.state();
        let now = Instant::now();
        let suits = state.suits(now, lease, watched);
        if suits {
            state.caller = PresentCaller::next(now);
            state.is_between_callers = false;
        }
        suits
    }

    /// Whether one more reader that asks for this lease may join this hold. Changes nothing.
    pub(crate) fn suits(&self, lease: Duration) -> bool {
        self.state().suits(Instant::now(), lease, true)
    }

    /// When its present caller adopted it. `None`: it has had no other.
    pub(crate) fn adopted_at(&self) -> Option<Instant> {
        let state = self.state();
        (!state.caller.is_first).then_some(state.caller.since)
    }

    /// Notes what the caller says about its hold.
    pub(crate) fn note(&self, text: &str) {
        self.state().caller.note(text);
    }

    /// Since when a caller has the hold, and its note, if it has had it for this long. Also when the
    /// last requested lease ends.
    pub(crate) fn long_held(
        &self,
        now: Instant,
        time: Duration,
    ) -> Option<(PresentCaller, Instant)> {
        let wanted = self.has_guard();
        let state = self.state();
        let over = state.ended.is_some() || state.loss.is_some() || now >= state.trusted_until;
        let is_long = now.saturating_duration_since(state.caller.since) >= time;
        (wanted && !over && is_long).then(|| (state.caller.clone(), state.leased_until))
    }
}

impl State {
    fn suits(&self, now: Instant, lease: Duration, watched: bool) -> bool {
        let left = self.trusted_until.saturating_duration_since(now);
        let longest_left = (self.requested + self.longest).saturating_duration_since(now);
        let least = if watched { lease / 2 } else { trust(lease).mul_f64(0.9) };
        self.loss.is_none() && left >= least && longest_left <= lease
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        engine::lease::{
            present_caller::LONGEST_NOTE,
            tests::{LEASE, lease},
        },
        error::Loss,
        observer::{HoldEnd, LockKind, Observed},
        protocol::Renewed,
        sim::ends::Ends,
    };

    /// A hold whose caller has released it, and the ends of its turns.
    fn left_to_be_swapped() -> (Lease, Ends) {
        let (lease, ends) = (lease(), Ends::default());
        let observed = Observed::by(ends.clone());
        let (key, id) = (&lease.renew.key, &lease.renew.id);
        lease.turns.begin(Some(observed), key, LockKind::Reentrant, id);
        lease.mark_between_callers();
        (lease, ends)
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_left_to_be_swapped_is_no_loss_until_a_caller_has_it_again() {
        for (again, end) in [(false, HoldEnd::ReleaseGivenUp), (true, HoldEnd::Lost(Loss::Expired))]
        {
            let (lease, ends) = left_to_be_swapped();
            assert!(!again || lease.adopt(LEASE, true));
            tokio::time::advance(LEASE).await;
            assert_eq!(lease.loss(), Some(Loss::Expired));
            assert_eq!(ends.so_far(), [end]);
        }
    }

    /// A renewal that comes after the swap finds the hold of another, or nothing.
    #[tokio::test(start_paused = true)]
    async fn what_is_left_to_be_swapped_is_not_lost_to_the_swap() {
        for answer in [Renewed::Taken, Renewed::Gone] {
            let (lease, ends) = left_to_be_swapped();
            lease.renewed(answer, Instant::now(), LEASE);
            assert_eq!(ends.so_far(), []);
            assert!(lease.loss().is_some() && !lease.adopt(LEASE, true), "nor is it a hold");
            lease.turns.end(HoldEnd::HandedOff);
            assert_eq!(ends.so_far(), [HoldEnd::HandedOff]);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_hold_that_is_adopted_begins_anew() {
        let (lease, begun) = (lease(), Instant::now());
        lease.add_share();
        lease.note(" one\nnote ");
        tokio::time::advance(LEASE / 10).await;
        let (held, _) = lease.long_held(Instant::now(), LEASE / 10).unwrap();
        assert_eq!((held.since, held.note.as_deref()), (begun, Some("one note")));
        assert!(lease.long_held(Instant::now(), LEASE / 9).is_none());
        assert!(!lease.adopt(LEASE / 100, true));
        assert!(lease.long_held(Instant::now(), LEASE / 10).is_some());
        assert!(lease.adopt(LEASE, true));
        assert!(lease.long_held(Instant::now(), Duration::from_millis(1)).is_none());
        let (held, _) = lease.long_held(Instant::now(), Duration::ZERO).unwrap();
        assert_eq!((held.since, held.note), (Instant::now(), None));
        lease.remove_share();
        assert!(lease.long_held(Instant::now(), Duration::ZERO).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_note_has_an_end() {
        let lease = lease();
        lease.add_share();
        lease.note(&"\u{e9}".repeat(1_000));
        let (held, _) = lease.long_held(Instant::now(), Duration::ZERO).unwrap();
        assert_eq!(held.note.unwrap().chars().count(), LONGEST_NOTE);
        lease.note("");
        assert_eq!(lease.long_held(Instant::now(), Duration::ZERO).unwrap().0.note, None);
    }
}
