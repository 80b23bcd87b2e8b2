//! [`Lease`]: until when a hold can be trusted, and how its holder is told of its loss. [`renewal`]: when
//! it is renewed.

mod begin;
mod caller;
mod present_caller;
mod renewal;
#[cfg(test)]
mod tests;

use std::{
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicU32},
    time::Duration,
};

use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

pub(crate) use self::{present_caller::PresentCaller, renewal::Check};
use super::turns::Turns;
use crate::{
    broken::broken,
    config::whole_ms,
    determinism::select,
    error::{Error, Loss},
    observer::HoldEnd,
    protocol::Renew,
    wire::Script,
};

/// How long a hold can be trusted, counted from when its request was SENT: its lease, less the
/// possible drift of the clocks.
pub(crate) fn trust(lease: Duration) -> Duration {
    lease.saturating_sub(lease / 100 + Duration::from_millis(2))
}

/// The trust in one outermost hold, or in permits that were acquired together.
///
/// ```text
/// held --confirm--> held (until later)
/// held --trust over, key gone, client closed--> lost
/// held --end--> ended (released; the holder is told nothing more)
/// ```
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) renew: Renew,
    pub(crate) script: &'static Script,
    /// Whether a lease that is not renewed must be sent again anyway: see [`Protocol::is_upheld`](crate::protocol::Protocol::is_upheld).
    upheld: bool,
    /// The lease of a hold that the watchdog renews. In ms, to keep a hold small: at most a day.
    watchdog_ms: u32,
    /// For a read under the same owner's write: that write. Both live in one key.
    under: Option<Arc<Lease>>,
    /// How many shares of the hold have not been released.
    shares: AtomicU32,
    /// Who sees the turns of its callers.
    pub(crate) turns: Turns,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug)]
struct State {
    trusted_until: Instant,
    /// When the last request was sent that the server granted.
    confirmed: Instant,
    /// When the last requested lease ends, at the earliest, on the server.
    leased_until: Instant,
    /// The longest requested lease, and when a lease was last requested.
    longest: Duration,
    requested: Instant,
    loss: Option<Loss>,
    /// When its release began.
    ended: Option<Instant>,
    /// Its caller has released it, and was told so. Another one is to adopt or swap it.
    is_between_callers: bool,
    /// A copy of a swap may have replaced it.
    may_be_replaced: bool,
    /// How many guards of the hold want it renewed.
    watched: u32,
    /// When the next renewal is due.
    due: Instant,
    renewing: bool,
    /// When the watchdog checks it next. `None`: the watchdog does not know it yet.
    scheduled: Option<Instant>,
    caller: PresentCaller,
}

impl State {
    /// See [`Lease::confirm`].
    fn confirm(&mut self, sent: Instant, lease: Duration) {
        let sent = if broken("trust-from-answer") { Instant::now() } else { sent };
        self.trusted_until = self.trusted_until.max(sent + trust(lease));
        self.confirmed = self.confirmed.max(sent);
        self.leased_until = self.leased_until.max(sent + lease);
    }

    /// How much is left of the trust. Notes nothing.
    fn trust_left(&self, now: Instant) -> Duration {
        match self.loss {
            None => self.trusted_until.saturating_duration_since(now),
            Some(_) => Duration::ZERO,
        }
    }

    /// How much is left of the last requested lease.
    fn left(&self, now: Instant) -> Duration {
        whole_ms(self.leased_until.saturating_duration_since(now))
    }

    /// See [`Lease::requested`].
    fn requested(&mut self, now: Instant, lease: Duration) {
        self.longest = self.longest.max(lease);
        self.requested = self.requested.max(now);
    }
}

impl Lease {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server has granted or renewed the hold. The request was sent at `sent`.
    pub(crate) fn confirm(&self, sent: Instant, lease: Duration) {
        self.state().confirm(sent, lease);
    }

    /// The server is about to be asked to keep the key this long. With or without an answer, it may
    /// do so.
    pub(crate) fn requested(&self, now: Instant, lease: Duration) {
        self.state().requested(now, lease);
        if let Some(under) = &self.under {
            under.requested(now, lease);
        }
    }

    /// When the last request was sent that the server granted.
    pub(crate) fn confirmed(&self) -> Instant {
        self.state().confirmed
    }

    /// When the last lease that the server granted ends there, at the earliest.
    pub(crate) fn leased_until(&self) -> Instant {
        self.state().leased_until
    }

    /// The longest lease that was requested. The server keeps the key no longer than this after the
    /// last request.
    pub(crate) fn longest(&self) -> Duration {
        self.state().longest
    }

    /// When the server has certainly freed the key of a hold whose release began at `begun`, as far
    /// as known.
    pub(crate) fn outlived_at(&self, begun: Instant) -> Instant {
        let state = self.state();
        begun.max(state.requested) + state.longest
    }

    /// The hold is being released since then. From now on there are no renewals and no loss.
    pub(crate) fn end(&self, begun: Instant) {
        self.state().ended.get_or_insert(begun);
    }

    /// How long ago its release began, if it has.
    pub(crate) fn ended_for(&self) -> Option<Duration> {
        self.state().ended.map(|ended| ended.elapsed())
    }

    /// Whether the hold could be trusted at this moment. Notes nothing.
    pub(crate) fn is_trusted(&self, now: Instant) -> bool {
        let state = self.state();
        state.loss.is_none() && now < state.trusted_until
    }

    /// Marks the hold as lost. Only the first reason counts.
    pub(crate) fn lose(&self, why: Loss) {
        let is_between_callers = {
            let mut state = self.state();
            if state.ended.is_some() || state.loss.is_some() {
                return;
            }
            state.loss = Some(why);
            state.is_between_callers
        };
        self.changed.notify_waiters();
        match why {
            Loss::Expired if is_between_callers => return self.turns.end(HoldEnd::ReleaseGivenUp),
            // The swap may have been first. Its answer ends the turn.
            Loss::Removed | Loss::Taken if is_between_callers => return,
            _ => {}
        }
        let key = String::from_utf8_lossy(&self.renew.key);
        let holder = &self.renew.id;
        let log = || match self.is_of_permits() {
            false => log!(warn, lock = %key, ?holder, %why, "lock lost"),
            true => log!(warn, %key, ?holder, %why, "permits lost"),
        };
        self.turns.lost(why, log);
    }

    /// Whether it is no hold on a lock, but permits of a semaphore.
    pub(crate) fn is_of_permits(&self) -> bool {
        self.renew.members.is_some()
    }

    /// Why the hold is lost, if it is. Notes, logs and tells a loss by expiry that nobody has noted
    /// yet.
    pub(crate) fn loss(&self) -> Option<Loss> {
        self.loss_at(Instant::now())
    }

    /// Fails if the hold is lost.
    pub(crate) fn check_trusted(&self) -> Result<(), Error> {
        self.loss().map_or(Ok(()), |why| Err(Error::NotHeld { why }))
    }

    /// Why the hold is lost at `now`. Notes, logs and tells an expiry.
    pub(crate) fn loss_at(&self, now: Instant) -> Option<Loss> {
        let (loss, over) = {
            let state = self.state();
            (state.loss, now >= state.trusted_until)
        };
        if loss.is_none() && over {
            self.lose(Loss::Expired);
            return Some(Loss::Expired);
        }
        loss
    }

    /// Why the key is gone, as far as known.
    pub(crate) fn why_gone(&self) -> Loss {
        self.loss().unwrap_or(Loss::Removed)
    }

    /// How long the hold can still be trusted. Zero when it is lost. Notes, logs and tells an expiry:
    /// whoever was told of it acts on it, and no late answer to a renewal takes it back.
    pub(crate) fn trusted_for(&self) -> Duration {
        let now = Instant::now();
        match self.loss_at(now) {
            None => self.state().trust_left(now),
            Some(_) => Duration::ZERO,
        }
    }

    /// The same, and notes nothing: to be shown.
    pub(crate) fn trust_left(&self) -> Duration {
        self.state().trust_left(Instant::now())
    }

    /// Completes when the hold is lost.
    pub(crate) async fn lost(&self) -> Loss {
        let mut changed = pin!(self.changed.notified());
        loop {
            changed.as_mut().enable();
            if let Some(loss) = self.loss() {
                return loss;
            }
            let trusted_until = self.state().trusted_until;
            select! {
                () = changed.as_mut() => changed.set(self.changed.notified()),
                () = sleep_until(trusted_until) => {}
            }
        }
    }
}
