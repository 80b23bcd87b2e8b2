//! [`Handoff`]: a released hold goes to the next local waiter. The server sees one hold that goes on.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::time::Instant;

use crate::locking::{
    budget::{Budget, Plan},
    hold::{Hold, release::Told},
};

/// A waiter that takes nothing from the slot within this time is not being polled. Others then get
/// the lock.
pub(crate) const ADOPT_WITHIN: std::time::Duration = std::time::Duration::from_millis(50);

/// The hand-off state of one lock. `B` is what goes from one caller to the next.
///
/// Generic, because `baton.rs` uses this file: files form no circle.
#[derive(Debug)]
pub(crate) struct Handoff<B> {
    state: Mutex<State<B>>,
}

#[derive(Debug)]
struct State<B> {
    /// What was left here and not yet taken. Its drop may lock the state, so it is dropped after the
    /// state is unlocked.
    slot: Option<B>,
    /// When a hold was last left in the slot.
    at: Option<Instant>,
    /// Whether a task watches the slot for forgotten holds.
    has_task: bool,
    /// The local hold that was granted last. An earlier one is certainly lost.
    current: Option<Current>,
    /// Whether a waiter has taken the hold to swap it. It asks the server for that when it is
    /// polled.
    swapping: bool,
    budget: Budget,
    /// Until when a task keeps this state. `None`: there is no such task.
    kept_until: Option<Instant>,
}

#[derive(Debug)]
struct Current {
    number: u64,
    hold: Weak<Hold>,
}

impl<B> Default for Handoff<B> {
    fn default() -> Self {
        Self {
            state: Mutex::new(State {
                slot: None,
                at: None,
                has_task: false,
                current: None,
                swapping: false,
                budget: Budget::default(),
                kept_until: None,
            }),
        }
    }
}

impl<B> State<B> {
    fn is_current(&self, hold: &Hold) -> bool {
        self.current.as_ref().is_some_and(|current| current.number == hold.id().number())
    }
}

impl Current {
    fn of(hold: &Arc<Hold>) -> Self {
        Self { number: hold.id().number(), hold: Arc::downgrade(hold) }
    }
}

/// The result of offering a hold to the next local waiter.
#[derive(Debug)]
pub(crate) enum Offered<B> {
    /// It was taken into the slot. If `needs_task`, the caller must start a task that watches for a
    /// forgotten hold: see [`Handoff::forgotten`].
    Yes { needs_task: bool },
    /// There is no waiter, or this is not the hold to hand off.
    No(B),
}

/// The result of a check for a forgotten hold.
#[derive(Debug)]
pub(crate) struct Forgotten<B> {
    pub(crate) baton: Option<B>,
    /// Whether there is nothing left to watch.
    pub(crate) idle: bool,
}

impl<B: AsRef<Hold>> Handoff<B> {
    fn state(&self) -> MutexGuard<'_, State<B>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What to do with a hold that is being released while a local waiter exists.
    pub(crate) fn plan(&self, hold: &Hold, now: Instant) -> Plan {
        // Before the state is locked: this may tell an observer of a loss, who may release a guard.
        let may_be_handed_off = hold.may_be_handed_off(now);
        let state = self.state();
        match may_be_handed_off && state.is_current(hold) {
            true => state.budget.plan(now),
            false => Plan::Release,
        }
    }

    /// Offers the hold to the next local waiter.
    pub(crate) fn offer(&self, baton: B, now: Instant) -> Offered<B> {
        let (needs_task, old) = {
            let mut state = self.state();
            let hold = baton.as_ref();
            let may_go_on = state.is_current(hold)
                && hold.target.engine.check_open().is_ok()
                && !hold.target.line.is_empty()
                && hold.detach();
            if !may_go_on {
                return Offered::No(baton);
            }
            hold.lease.mark_between_callers();
            let old = state.slot.replace(baton);
            state.swapping = false;
            state.at = Some(now);
            state.budget.handed_off();
            (!std::mem::replace(&mut state.has_task, true), old)
        };
        drop(old);
        Offered::Yes { needs_task }
    }

    pub(crate) fn is_offered(&self) -> bool {
        self.state().slot.is_some()
    }

    /// Takes the hold that was left, if there is one.
    pub(crate) fn take(&self) -> Option<B> {
        self.state().slot.take()
    }

    /// Takes a hold that a waiter did not take. Call it every [`ADOPT_WITHIN`] until the
    /// result is idle. With `closing` it is the last call in any case.
    pub(crate) fn forgotten(&self, closing: bool) -> Forgotten<B> {
        let mut state = self.state();
        let idle = closing || state.at.is_none_or(|at| at.elapsed() >= ADOPT_WITHIN);
        state.has_task = !idle;
        Forgotten { baton: if idle { state.slot.take() } else { None }, idle }
    }

    /// The hold that was taken from here is to be swapped for another one.
    pub(crate) fn swapping(&self) {
        self.state().swapping = true;
    }

    /// A hold was granted. `swapped`: whether it replaced the current hold, or another one. `None`:
    /// the lock was free.
    pub(crate) fn granted(&self, hold: &Arc<Hold>, swapped: Option<bool>) {
        match swapped {
            Some(true) => self.swapped(hold),
            Some(false) => {}
            None => self.won(hold),
        }
    }

    fn won(&self, hold: &Arc<Hold>) {
        let stale = {
            let mut state = self.state();
            state.current = Some(Current::of(hold));
            state.swapping = false;
            state.budget.won(Instant::now(), hold.lease.confirmed());
            state.slot.take()
        };
        // One of the two is lost. If the news of the grant is late, that may be the new one. The
        // older one is therefore released.
        drop(stale);
    }

    /// The hold that was current until it was [released](Self::released) was swapped for this one.
    fn swapped(&self, hold: &Arc<Hold>) {
        let mut state = self.state();
        // Otherwise the lock was found free since then, and this hold is gone.
        if state.current.is_none() {
            state.current = Some(Current::of(hold));
        }
    }

    /// Another process was seen to hold the lock.
    pub(crate) fn seen_elsewhere(&self) {
        let mut state = self.state();
        if state.current.is_none() {
            state.budget.seen_elsewhere();
        }
    }

    /// The server has confirmed the hold, and said how many others wait. Returns whether it may be
    /// handed off.
    pub(crate) fn confirmed_by_server(&self, hold: &Hold, others: u64) -> bool {
        self.state().budget.confirmed_by_server(Instant::now(), hold.lease.confirmed(), others)
    }

    /// The lock was released on the server, or is certainly no longer held. See [`Budget::released`].
    /// `false`: the hold was not the current one.
    pub(crate) fn released(&self, hold: &Hold, told: Option<Told>) -> bool {
        let mut state = self.state();
        if !state.is_current(hold) {
            return false;
        }
        (state.current, state.swapping) = (None, false);
        if let Some(Told { sent, others, .. }) = told {
            let now = Instant::now();
            state.budget.released(now, now - sent, others);
        }
        true
    }

    /// Whether this process neither holds the lock nor leaves it to others.
    pub(crate) fn is_free_here(&self) -> bool {
        let State { current, budget, .. } = &mut *self.state();
        // The clock is read only while it yields.
        current.is_none()
            && (!budget.is_yielding() || budget.yields_until(Instant::now(), None).is_none())
    }

    /// See [`Budget::yields_until`].
    pub(crate) fn yields_until(&self, heard: Option<u64>) -> Option<Instant> {
        self.state().budget.yields_until(Instant::now(), heard)
    }

    /// Whether a local holder has the lock and has not released it.
    pub(crate) fn has_trusted_guard(&self) -> bool {
        self.current().is_some_and(|hold| hold.has_guard() && hold.lease.is_trusted(Instant::now()))
    }

    /// Whether the server's answer about a hold that was released here is still to come. It is not
    /// waited for any longer than it may take: perhaps nobody polls the release.
    pub(crate) fn is_being_released(&self) -> bool {
        let swapping = self.state().swapping;
        let is_awaited = |hold: &Hold| {
            let may_take = hold.target.engine.settings.command_timeout;
            !hold.has_guard() && hold.lease.ended_for().is_none_or(|ended| ended < may_take)
        };
        self.current().is_some_and(|hold| is_awaited(&hold)) && !swapping && !self.is_offered()
    }

    /// The state is to be kept until then. Returns whether the caller must start a task that does so: see
    /// [`Handoff::kept_until`].
    pub(crate) fn keep_until(&self, until: Instant) -> bool {
        self.state().kept_until.replace(until).is_none()
    }

    /// Until when the task keeps the state, as far as known now. `None`: no longer, and it ends.
    pub(crate) fn kept_until(&self, now: Instant) -> Option<Instant> {
        let kept_until = &mut self.state().kept_until;
        kept_until.take_if(|until| *until <= now);
        *kept_until
    }

    fn current(&self) -> Option<Arc<Hold>> {
        self.state().current.as_ref()?.hold.upgrade()
    }

    /// Whether this process holds the lock. Its waiters are then told about the end of the hold.
    pub(crate) fn is_here(&self) -> bool {
        self.state().current.is_some()
    }
}

#[cfg(test)]
mod tests;
