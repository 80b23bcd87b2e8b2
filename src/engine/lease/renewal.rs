//! When a [`Lease`] is renewed, and what it notes of the answer.
//!
//! While a guard wants it, a hold is renewed every [`period`](Lease::period): a third of the watchdog's
//! time. The watchdog asks a hold when to [check](Lease::check) it, and puts that into its schedule.

use std::time::Duration;

use tokio::time::Instant;

use super::Lease;
use crate::{broken::broken, error::Loss, protocol::Renewed, sometimes::sometimes};

/// How long a hold that has ended may stay scheduled, and with it in memory.
const FORGOTTEN_WITHIN: Duration = Duration::from_secs(30);

/// How soon a renewal that was not answered is sent again, at the latest.
const AGAIN_WITHIN: Duration = Duration::from_secs(2);

/// What the watchdog does about a hold that it has checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    /// Renew it to this lease. [`Lease::renewed`] or [`Lease::not_renewed`] must follow.
    Renew(Duration),
    /// Nothing yet.
    Wait,
    /// Its trust has ended. [`Lease::expired`] must follow.
    Expired,
    /// Nothing: the hold has ended or is lost, or another entry of the schedule will check it. Drop
    /// this entry.
    Over,
}

/// How long after a renewal the next one is due, for holds with this lease.
pub(super) fn period(watchdog: Duration) -> Duration {
    watchdog / 3
}

impl Lease {
    /// The lease of a hold that the watchdog renews.
    fn watchdog(&self) -> Duration {
        Duration::from_millis(self.watchdog_ms.into())
    }

    /// See [`period`].
    pub(crate) fn period(&self) -> Duration {
        period(self.watchdog())
    }

    /// One more guard wants the hold renewed. The first renewal is then due at `due`.
    pub(crate) fn watch(&self, due: Instant) {
        let mut state = self.state();
        if state.watched == 0 {
            state.due = due;
        }
        state.watched += 1;
    }

    /// One guard wants a hold renewed that was just granted with the watchdog's lease. The request was
    /// sent at `sent`.
    pub(crate) fn watch_granted(&self, sent: Instant) {
        self.watch(sent + self.period());
    }

    pub(crate) fn unwatch(&self) {
        self.state().watched -= 1;
    }

    /// Whether the server confirmed the hold lately. While renewals are answered, it does so every
    /// [`period`](Self::period).
    pub(crate) fn was_renewed(&self, now: Instant) -> bool {
        let state = self.state();
        (state.watched > 0 || self.upheld) && now <= state.confirmed + self.watchdog() / 2
    }

    /// When to check it next. `None`: no check is needed, or an earlier one is scheduled.
    pub(crate) fn schedule(&self, now: Instant) -> Option<Instant> {
        let mut state = self.state();
        if state.ended.is_some() || state.loss.is_some() {
            return None;
        }
        let wanted = state.watched > 0 || self.upheld;
        let next = if wanted { state.due.min(state.trusted_until) } else { state.trusted_until };
        // No later than this: a hold that has ended is then forgotten. A guard that asks for renewals
        // from now on has just been given a full lease of the watchdog.
        let next = next.min(now + self.period().min(FORGOTTEN_WITHIN));
        if state.scheduled.is_some_and(|scheduled| scheduled <= next) {
            return None;
        }
        state.scheduled = Some(next);
        Some(next)
    }

    /// What to do, for a check of the holds that are due by `by`. Unless it is over, the hold has
    /// to be scheduled again.
    pub(crate) fn check(&self, now: Instant, by: Instant) -> Check {
        let mut state = self.state();
        if state.ended.is_some()
            || state.loss.is_some()
            || state.scheduled.is_none_or(|scheduled| scheduled > by)
        {
            return Check::Over;
        }
        if now >= state.trusted_until {
            return Check::Expired;
        }
        state.scheduled = None;
        let watched = state.watched > 0;
        if state.renewing || !(watched || self.upheld) || state.due > by {
            return Check::Wait;
        }
        state.renewing = true;
        // Random, so that holds granted together are not renewed together for ever.
        state.due = now + self.period().mul_f64(0.9 + fastrand::f64() / 10.0);
        let left = state.left(now);
        let lease = if watched { left.max(self.watchdog()) } else { left };
        state.requested(now, lease);
        drop(state);
        if let Some(under) = &self.under {
            under.requested(now, lease);
        }
        Check::Renew(lease)
    }

    /// What a renewal asks for that [`check`](Self::check) wanted to be sent, and that is sent now: a
    /// fixed lease ends when it was to end.
    pub(crate) fn still_wanted(&self, now: Instant, lease: Duration) -> Duration {
        let state = self.state();
        if state.watched > 0 {
            return lease;
        }
        lease.min(state.left(now)).max(Duration::from_millis(1))
    }

    /// The server's answer to a renewal that was sent at `sent`.
    pub(crate) fn renewed(&self, answer: Renewed, sent: Instant, lease: Duration) {
        match answer {
            Renewed::Yes => {
                let mut state = self.state();
                let margin = self.turns.are_seen().then(|| state.trust_left(Instant::now()));
                state.confirm(sent, lease);
                state.renewing = false;
                drop(state);
                return self.turns.renewed(margin);
            }
            Renewed::Gone | Renewed::Taken if broken("deaf") => self.confirm(sent, lease),
            Renewed::Gone => {
                sometimes!("lease: gone");
                self.lose(self.why_gone())
            }
            Renewed::Taken => {
                sometimes!("lease: taken");
                self.lose(Loss::Taken)
            }
        }
        self.state().renewing = false;
    }

    /// A renewal was not answered: the hold is neither renewed nor lost. It has to be scheduled
    /// again.
    pub(crate) fn not_renewed(&self) {
        let mut state = self.state();
        state.renewing = false;
        state.due = Instant::now() + (self.watchdog() / 30).min(AGAIN_WITHIN);
    }

    /// Tells the holder that the trust has ended.
    pub(crate) fn expired(&self) {
        sometimes!("lease: expired");
        self.lose(Loss::Expired);
    }
}
