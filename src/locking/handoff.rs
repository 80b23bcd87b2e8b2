//! A hold that is passed on inside the process: the next local waiter takes over what the one before
//! it gave back, and the server sees one hold that goes on.

use std::sync::{Arc, Mutex, MutexGuard, Weak};

use tokio::time::{Instant, sleep};

use crate::{
    locking::budget::{Plan, Tenure},
    locking::hold::Hold,
    locking::registry::Entry,
    locking::share::Share,
};

/// A waiter that does not take over for so long is not being polled: others shall have the lock.
const PATIENCE: std::time::Duration = std::time::Duration::from_millis(50);

#[derive(Debug, Default)]
pub(crate) struct Passing {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    baton: Slot,
    /// When a hold was last passed on.
    at: Option<Instant>,
    /// Whether somebody sees to it that no baton is forgotten.
    minded: bool,
    /// The hold of this process that was granted last. One before it is surely lost.
    current: Option<Weak<Hold>>,
    /// Whether it is to be swapped, by one who asks the server for that if it is polled.
    swapping: bool,
    tenure: Tenure,
}

impl State {
    fn is_current(&self, hold: &Hold) -> bool {
        self.current.as_ref().is_some_and(|current| std::ptr::eq(current.as_ptr(), hold))
    }
}

/// A hold that was given back here and not yet taken over. Dropping a [`Share`] locks the state: what
/// leaves the slot has to be dropped after the state is unlocked.
#[derive(Debug, Default)]
struct Slot(Option<Share>);

impl Slot {
    #[must_use = "to be dropped when the state is not locked any more"]
    fn replace(&mut self, share: Option<Share>) -> Option<Share> {
        std::mem::replace(&mut self.0, share)
    }

    fn is_some(&self) -> bool {
        self.0.is_some()
    }
}

impl Passing {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// What is to become of a hold that is being given back while somebody here waits.
    pub(crate) fn plan(&self, share: &Share) -> Plan {
        let state = self.state();
        match share.hold().may_pass() && state.is_current(share.hold()) {
            true => state.tenure.plan(Instant::now()),
            false => Plan::Release,
        }
    }

    /// Leaves the hold to the next waiter. It comes back if `waits` says that there is none any more,
    /// or if it is not the hold to pass on.
    pub(crate) fn park(&self, share: Share, waits: impl Fn() -> bool) -> Result<(), Share> {
        let entry = share.hold().entry.clone();
        let (first, old) = {
            let mut state = self.state();
            let current = state.is_current(share.hold());
            if !current || entry.engine.check_open().is_err() || !waits() || !share.hold().detach()
            {
                return Err(share);
            }
            let old = state.baton.replace(Some(share));
            state.swapping = false;
            state.at = Some(Instant::now());
            state.tenure.passed();
            (!std::mem::replace(&mut state.minded, true), old)
        };
        drop(old);
        if first {
            let janitor = entry.engine.janitor.clone();
            janitor.spawn(mind(entry));
        }
        Ok(())
    }

    pub(crate) fn is_offered(&self) -> bool {
        self.state().baton.is_some()
    }

    /// The hold that was left, if there is one.
    pub(crate) fn take(&self) -> Option<Share> {
        self.state().baton.replace(None)
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
            state.current = Some(Arc::downgrade(hold));
            state.swapping = false;
            state.tenure.won(Instant::now());
            state.baton.replace(None)
        };
        // One of the two is lost. If the grant was heard of late, that may be this one: so the other is released.
        drop(stale);
    }

    /// The hold that was current until it was [released](Self::released) was swapped for this one.
    fn swapped(&self, hold: &Arc<Hold>) {
        let mut state = self.state();
        // Or else the lock was found free since then, and this hold is gone.
        if state.current.is_none() {
            state.current = Some(Arc::downgrade(hold));
        }
    }

    /// Another process was seen to hold the lock.
    pub(crate) fn lost(&self) {
        let mut state = self.state();
        if state.current.is_none() {
            state.tenure.lost();
        }
    }

    /// The server has confirmed the hold, and said who else waits. Says whether it may be passed on.
    pub(crate) fn asked(&self, others: u64) -> bool {
        self.state().tenure.asked(Instant::now(), others)
    }

    /// The lock was released on the server by a call sent then, or is surely not held any more; see
    /// [`Tenure::released`]. `false`: the hold was not the current one.
    pub(crate) fn released(
        &self,
        hold: &Hold,
        told: Option<(Instant, u64)>,
        heard: Option<u64>,
    ) -> bool {
        {
            let mut state = self.state();
            if !state.is_current(hold) {
                return false;
            }
            (state.current, state.swapping) = (None, false);
            if let Some((sent, others)) = told {
                let now = Instant::now();
                state.tenure.released(now, now - sent, others, heard);
            }
        }
        true
    }

    /// See [`Tenure::steps_back`].
    pub(crate) fn steps_back(&self, heard: Option<u64>) -> Option<Instant> {
        self.state().tenure.steps_back(Instant::now(), heard)
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
        self.state().current.as_ref()?.upgrade()
    }

    /// Whether this process holds the lock, and will say when it does not any more.
    pub(crate) fn is_here(&self) -> bool {
        self.state().current.is_some()
    }
}

/// Releases a hold that was left to one who does not take it over; ends when none was passed on for a
/// while.
async fn mind(entry: Arc<Entry>) {
    loop {
        let closing = tokio::select! {
            () = sleep(PATIENCE) => false,
            _ = entry.engine.closing() => true,
        };
        let (forgotten, idle) = {
            let mut state = entry.queue.passing.state();
            let idle = state.at.is_none_or(|at| at.elapsed() >= PATIENCE);
            state.minded = !idle && !closing;
            let forgotten = if idle || closing { state.baton.replace(None) } else { None };
            (forgotten, !state.minded)
        };
        if let Some(share) = forgotten {
            let _ = share.free().await;
        }
        if idle {
            return;
        }
    }
}
