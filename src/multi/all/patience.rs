//! For how long a part of several locks is held: while another of them is waited for, and while a
//! server is silent.

use std::time::Duration;

use tokio::time::Instant;

use crate::{
    lock::Lock,
    multi::request::{MultiRequest, most_patient},
    sometimes::sometimes,
};

/// How long locks are held while another is waited for, for each lock. It is short at first: if a
/// caller of Redisson waits for a lock held here, both stand still for this time. It doubles in
/// each round without success, up to Redisson's own value. Among callers of this crate, holding on
/// is what succeeds.
const FIRST_ROUND: Duration = Duration::from_millis(100);
const LAST_ROUND: Duration = Duration::from_millis(1_500);

/// A lock with such a lease is not given back while a server is slow: it could not be extended in time.
const SHORT_LEASE: Duration = Duration::from_secs(2);

pub(super) struct Patience {
    /// How many locks there are.
    locks: u32,
    round: Duration,
    /// The locks acquired first must not expire meanwhile.
    longest_round: Duration,
    /// For how long locks are held while a server is silent.
    silence: Duration,
    /// Each server has answered after this time, or the call fails.
    longest_silence: Duration,
    /// The lease, if it is short: it ends soon by itself.
    short_lease: Option<Duration>,
    /// Whether locks were given back while a server was silent.
    gave_back: bool,
}

impl Patience {
    pub(super) fn new(locks: &[Lock], request: &MultiRequest) -> Self {
        let retries = most_patient(locks).map(|settings| settings.retry_timeout);
        Self {
            locks: locks.len() as u32,
            round: FIRST_ROUND,
            longest_round: request.shortest_lease(locks) / 3,
            silence: FIRST_ROUND * locks.len() as u32,
            longest_silence: retries.unwrap_or(LAST_ROUND),
            short_lease: request.lease.filter(|lease| *lease <= SHORT_LEASE),
            gave_back: false,
        }
    }

    /// Until when locks may be held while another is waited for, from now on. Random, so that no two
    /// callers have the same.
    pub(super) fn round_end(&self) -> Instant {
        let most = (self.round * self.locks).min(self.longest_round);
        Instant::now() + most.mul_f64(0.5 + fastrand::f64() / 2.0)
    }

    /// How long one lock may hold on in this round.
    pub(super) fn of_one(&self) -> Duration {
        self.round.min(self.longest_round)
    }

    /// A round was in vain.
    pub(super) fn next_round(&mut self) {
        self.round = (2 * self.round).min(LAST_ROUND);
    }

    /// For how long locks are held while a server is silent.
    pub(super) fn with_silence(&self) -> Duration {
        self.silence.max(self.short_lease.unwrap_or_default() / 2)
    }

    /// Locks are given back because a server is silent. The next time they are held for longer.
    pub(super) fn give_back(&mut self) {
        sometimes!("all: a server is silent while locks are held");
        self.gave_back = true;
        self.silence = (2 * self.silence).min(self.longest_silence);
    }

    pub(super) fn gave_back(&self) -> bool {
        self.gave_back
    }

    /// Whether a lease may have ended before it could be extended because others were given back. Then
    /// nothing is given back any more.
    pub(super) fn may_hold_for_longer(&mut self) -> bool {
        let most = self.longest_silence;
        self.gave_back && std::mem::replace(&mut self.silence, most) < most
    }
}
