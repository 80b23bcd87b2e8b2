//! [`Lifecycle`]: whether the client is open.
//!
//! ```text
//! open --close--> closing (nothing new begins, queued jobs are completed) --> closed
//! ```

use std::sync::{
    Weak,
    atomic::{AtomicBool, Ordering},
};

use crate::{
    determinism::{select, watch},
    error::Error,
    runtime::{ClientRuntime, RuntimeEnded},
};

/// Whether the client is open. The engine owns it. A background task that finds it gone ends.
#[derive(Debug)]
pub(crate) struct Lifecycle {
    state: watch::Sender<State>,
    /// Whether the state is `Open`. Every call reads it.
    is_open: AtomicBool,
    /// Everything that outlives a call runs here.
    pub(crate) runtime: ClientRuntime,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Open,
    Closing,
    Closed,
}

impl Lifecycle {
    pub(super) fn new(runtime: ClientRuntime) -> Self {
        let state = watch::Sender::new(State::Open);
        Self { state, is_open: AtomicBool::new(true), runtime }
    }

    /// Fails when nothing new may begin.
    pub(crate) fn check_open(&self) -> Result<(), Error> {
        if !self.is_open.load(Ordering::SeqCst) {
            return Err(Error::Closed);
        }
        if self.runtime.has_ended() {
            return Err(RuntimeEnded.into());
        }
        Ok(())
    }

    /// For a background task: whether it is to end, because the client is gone or closing, or its runtime
    /// has ended.
    pub(super) fn has_ended(life: &Weak<Self>) -> bool {
        life.upgrade().is_none_or(|life| life.check_open().is_err())
    }

    /// Whether the connections are closed, so that nothing can be undone.
    pub(crate) fn is_closed(&self) -> bool {
        *self.state.borrow() == State::Closed
    }

    /// Completes when the client is being closed, or its runtime has ended. Returns the error for
    /// waiters.
    pub(crate) async fn closing(&self) -> Error {
        let mut state = self.state.subscribe();
        select! {
            _ = state.wait_for(|state| *state >= State::Closing) => Error::Closed,
            () = self.runtime.ended() => RuntimeEnded.into(),
        }
    }

    pub(super) fn begin_closing(&self) {
        // Before waiters are woken. For the order see [`Lease::add_share`](super::lease::Lease::add_share).
        self.is_open.store(false, Ordering::SeqCst);
        self.state.send_if_modified(|state| {
            let open = *state == State::Open;
            *state = State::Closing.max(*state);
            open
        });
    }

    pub(super) fn end_closing(&self) {
        self.state.send_replace(State::Closed);
    }
}
