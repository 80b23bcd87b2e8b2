//! A hold that is passed on inside the process: the next local waiter takes over what the one before
//! it gave back, and the server sees one hold that goes on.

use std::sync::{Arc, Mutex, MutexGuard};

use tokio::{
    sync::Notify,
    time::{Instant, sleep},
};

use crate::{
    engine::Lease,
    entry::Entry,
    share::Share,
    tenure::{Plan, Tenure},
};

/// A waiter that does not take over for so long is not being polled: others shall have the lock.
const PATIENCE: std::time::Duration = std::time::Duration::from_millis(50);

#[derive(Debug, Default)]
pub(crate) struct Passing {
    state: Mutex<State>,
    /// Tells the head of the queue that there is something for it.
    offered: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Given back here, and not yet taken over.
    baton: Option<Share>,
    /// When a hold was last passed on.
    at: Option<Instant>,
    /// Whether somebody sees to it that no baton is forgotten.
    minded: bool,
    /// The hold of this process that was granted last. One before it is surely lost.
    current: Option<usize>,
    tenure: Tenure,
}

impl Passing {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// What is to become of a hold that is being given back while somebody here waits.
    pub(crate) fn plan(&self, share: &Share) -> Plan {
        let state = self.state();
        match share.hold().may_pass() && state.current == Some(address(&share.hold().lease)) {
            true => state.tenure.plan(Instant::now()),
            false => Plan::Release,
        }
    }

    /// Leaves the hold to the next waiter. It comes back if `waits` says that there is none any more,
    /// or if it is not the hold to pass on.
    pub(crate) fn park(&self, share: Share, waits: impl Fn() -> bool) -> Result<(), Share> {
        let entry = share.hold().entry.clone();
        let first = {
            let mut state = self.state();
            let current = state.current == Some(address(&share.hold().lease));
            if !current || entry.engine.check_open().is_err() || !waits() || !share.hold().detach()
            {
                return Err(share);
            }
            state.baton = Some(share);
            state.at = Some(Instant::now());
            state.tenure.passed();
            !std::mem::replace(&mut state.minded, true)
        };
        self.offered.notify_one();
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
        self.state().baton.take()
    }

    /// Done when something may have been left, or the lock be free.
    pub(crate) async fn offered(&self) {
        self.offered.notified().await;
    }

    /// A hold was granted while the lock was free.
    pub(crate) fn won(&self, lease: &Arc<Lease>) {
        let stale = {
            let mut state = self.state();
            state.current = Some(address(lease));
            state.tenure.won(Instant::now());
            state.baton.take()
        };
        if let Some(stale) = stale {
            stale.gone();
        }
    }

    /// A hold was swapped for this one.
    pub(crate) fn swapped(&self, lease: &Arc<Lease>) {
        self.state().current = Some(address(lease));
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
    /// [`Tenure::released`].
    pub(crate) fn released(
        &self,
        lease: &Arc<Lease>,
        told: Option<(Instant, u64)>,
        heard: Option<u64>,
    ) {
        {
            let mut state = self.state();
            if state.current != Some(address(lease)) {
                return;
            }
            state.current = None;
            if let Some((sent, others)) = told {
                let now = Instant::now();
                state.tenure.released(now, now - sent, others, heard);
            }
        }
        self.offered.notify_one();
    }

    /// See [`Tenure::steps_back`].
    pub(crate) fn steps_back(&self, heard: Option<u64>) -> Option<Instant> {
        self.state().tenure.steps_back(Instant::now(), heard)
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
            (state.baton.take_if(|_| idle || closing), !state.minded)
        };
        if let Some(share) = forgotten {
            let _ = share.free().await;
        }
        if idle {
            return;
        }
    }
}

fn address(lease: &Arc<Lease>) -> usize {
    Arc::as_ptr(lease) as usize
}
