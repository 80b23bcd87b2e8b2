//! [`Handoff`]: a hold that was given back goes to the next waiter of this process, and the server sees one
//! hold that goes on.

use std::sync::{Arc, Mutex, MutexGuard, Weak};

use tokio::time::Instant;

use crate::locking::{
    budget::{Budget, Plan},
    hold::Hold,
};

/// A waiter that does not take over for so long is not being polled: others shall have the lock.
pub(crate) const ADOPT_WITHIN: std::time::Duration = std::time::Duration::from_millis(50);

/// What one lock's hand-off knows. `B` is what goes from one caller to the next.
#[derive(Debug)]
pub(crate) struct Handoff<B> {
    state: Mutex<State<B>>,
}

#[derive(Debug)]
struct State<B> {
    /// What was given back here and not yet taken over. Its drop may lock the state: what leaves the slot is to be
    /// dropped after the state is unlocked.
    slot: Option<B>,
    /// When a hold was last left in the slot.
    at: Option<Instant>,
    /// Whether somebody sees to it that nothing is forgotten in the slot.
    minded: bool,
    /// The hold of this process that was granted last. One before it is surely lost.
    current: Option<Current>,
    /// Whether it is to be swapped, by one who asks the server for that if it is polled.
    swapping: bool,
    budget: Budget,
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
                minded: false,
                current: None,
                swapping: false,
                budget: Budget::default(),
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

/// What has come of leaving a hold to the next waiter.
#[derive(Debug)]
pub(crate) enum Left<B> {
    /// It was left. With `unminded`, the caller has to see to it that it is not forgotten; see
    /// [`Handoff::forgotten`].
    Yes { unminded: bool },
    /// There is nobody, or this is not the hold to hand on.
    No(B),
}

/// What one finds who looks whether a hold was forgotten.
#[derive(Debug)]
pub(crate) struct Forgotten<B> {
    pub(crate) baton: Option<B>,
    /// Whether there is nothing to look after any more.
    pub(crate) idle: bool,
}

impl<B: AsRef<Hold>> Handoff<B> {
    fn state(&self) -> MutexGuard<'_, State<B>> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// What is to become of a hold that is being given back while somebody here waits.
    pub(crate) fn plan(&self, hold: &Hold) -> Plan {
        let state = self.state();
        match hold.may_pass() && state.is_current(hold) {
            true => state.budget.plan(Instant::now()),
            false => Plan::Release,
        }
    }

    /// Leaves the hold to the next waiter.
    pub(crate) fn leave(&self, baton: B) -> Left<B> {
        let (unminded, old) = {
            let mut state = self.state();
            let hold = baton.as_ref();
            let may_go_on = state.is_current(hold)
                && hold.target.engine.check_open().is_ok()
                && !hold.target.line.is_empty()
                && hold.detach();
            if !may_go_on {
                return Left::No(baton);
            }
            let old = state.slot.replace(baton);
            state.swapping = false;
            state.at = Some(Instant::now());
            state.budget.passed();
            (!std::mem::replace(&mut state.minded, true), old)
        };
        drop(old);
        Left::Yes { unminded }
    }

    pub(crate) fn is_offered(&self) -> bool {
        self.state().slot.is_some()
    }

    /// The hold that was left, if there is one.
    pub(crate) fn take(&self) -> Option<B> {
        self.state().slot.take()
    }

    /// Takes out a hold that was left to one who does not take it over. To be called every [`ADOPT_WITHIN`], until
    /// none was left for so long; `closing` is the last time in any case.
    pub(crate) fn forgotten(&self, closing: bool) -> Forgotten<B> {
        let mut state = self.state();
        let idle = state.at.is_none_or(|at| at.elapsed() >= ADOPT_WITHIN);
        state.minded = !idle && !closing;
        let baton = if idle || closing { state.slot.take() } else { None };
        Forgotten { baton, idle: !state.minded }
    }

    /// What was taken from here is to be swapped for another hold.
    pub(crate) fn swapping(&self) {
        self.state().swapping = true;
    }

    /// A hold was granted: while the lock was free, or in the place of one that was the current one or not.
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
            state.budget.won(Instant::now());
            state.slot.take()
        };
        // One of the two is lost. If the grant was heard of late, that may be this one: so the other is released.
        drop(stale);
    }

    /// The hold that was current until it was [released](Self::released) was swapped for this one.
    fn swapped(&self, hold: &Arc<Hold>) {
        let mut state = self.state();
        // Or else the lock was found free since then, and this hold is gone.
        if state.current.is_none() {
            state.current = Some(Current::of(hold));
        }
    }

    /// Another process was seen to hold the lock.
    pub(crate) fn lost(&self) {
        let mut state = self.state();
        if state.current.is_none() {
            state.budget.lost();
        }
    }

    /// The server has confirmed the hold, and said who else waits. Says whether it may go on.
    pub(crate) fn asked(&self, others: u64) -> bool {
        self.state().budget.asked(Instant::now(), others)
    }

    /// The lock was released on the server by a call sent then, or is surely not held any more; see
    /// [`Budget::released`]. `false`: the hold was not the current one.
    pub(crate) fn released(
        &self,
        hold: &Hold,
        told: Option<(Instant, u64)>,
        heard: Option<u64>,
    ) -> bool {
        let mut state = self.state();
        if !state.is_current(hold) {
            return false;
        }
        (state.current, state.swapping) = (None, false);
        if let Some((sent, others)) = told {
            let now = Instant::now();
            state.budget.released(now, now - sent, others, heard);
        }
        true
    }

    /// See [`Budget::yields_until`].
    pub(crate) fn yields_until(&self, heard: Option<u64>) -> Option<Instant> {
        self.state().budget.yields_until(Instant::now(), heard)
    }

    /// Whether somebody here holds the lock, and means to.
    pub(crate) fn is_wanted(&self) -> bool {
        self.current().is_some_and(|hold| hold.is_wanted() && hold.lease.is_trusted(Instant::now()))
    }

    /// Whether the server is about to say what becomes of a hold that was given back here.
    pub(crate) fn is_leaving(&self) -> bool {
        let swapping = self.state().swapping;
        self.current().is_some_and(|hold| !hold.is_wanted()) && !swapping && !self.is_offered()
    }

    fn current(&self) -> Option<Arc<Hold>> {
        self.state().current.as_ref()?.hold.upgrade()
    }

    /// Whether this process holds the lock, and will say when it does not any more.
    pub(crate) fn is_here(&self) -> bool {
        self.state().current.is_some()
    }
}
