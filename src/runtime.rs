//! The tokio runtime that a client was connected on.
//!
//! Everything that outlives a call runs there: a caller's runtime may end at any moment, and all timers
//! and tasks of it end with it. What was first polled on one runtime and is finished on another must
//! therefore have its timers on the client's own.

use std::{
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    pin::{Pin, pin},
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use tokio::{
    runtime::Handle,
    sync::{Notify, oneshot},
    task::JoinHandle,
};

use crate::error::{Error, RedisError};

/// The runtime that a client was connected on.
#[derive(Clone, Debug)]
pub(crate) struct ClientRuntime {
    handle: Handle,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    ended: AtomicBool,
    end: Notify,
    /// Dropped with the last handle: then nobody needs to know of the end any more.
    _handles: oneshot::Sender<()>,
}

/// The runtime has ended, and the client's connections with it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RuntimeEnded;

impl From<RuntimeEnded> for RedisError {
    fn from(_: RuntimeEnded) -> Self {
        Self::new("the tokio runtime this client was connected on has ended")
    }
}

impl From<RuntimeEnded> for Error {
    fn from(ended: RuntimeEnded) -> Self {
        Self::Redis(ended.into())
    }
}

/// A runtime that ends drops its tasks, and this with the one that has it.
struct Witness(Weak<State>);

impl Drop for Witness {
    fn drop(&mut self) {
        if let Some(state) = self.0.upgrade() {
            state.ended.store(true, Ordering::Release);
            state.end.notify_waiters();
        }
    }
}

impl ClientRuntime {
    /// The one this is called on.
    pub(crate) fn current() -> Self {
        let handle = Handle::current();
        let (handles, all_gone) = oneshot::channel();
        let state = State { ended: AtomicBool::new(false), end: Notify::new(), _handles: handles };
        let state = Arc::new(state);
        let witness = Witness(Arc::downgrade(&state));
        handle.spawn(async move {
            let _witness = witness;
            let _ = all_gone.await;
        });
        Self { handle, state }
    }

    /// Starts a task. Does nothing when the runtime has ended.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.handle.spawn(task)
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.state.ended.load(Ordering::Acquire)
    }

    /// Done when the runtime has ended.
    pub(crate) async fn ended(&self) {
        let mut end = pin!(self.state.end.notified());
        end.as_mut().enable();
        if !self.has_ended() {
            end.await;
        }
    }

    fn is_current(&self) -> bool {
        Handle::try_current().is_ok_and(|current| current.id() == self.handle.id())
    }

    /// Polls a future as if on this runtime: what it starts, timers above all, is started there. So it
    /// may be polled on any runtime, and on another the next time.
    pub(crate) fn poll<T, E: From<RuntimeEnded>>(
        &self,
        future: Pin<&mut (impl Future<Output = Result<T, E>> + ?Sized)>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<T, E>> {
        if self.has_ended() {
            return Poll::Ready(Err(RuntimeEnded.into()));
        }
        // Most are polled there anyway.
        let _here = (!self.is_current()).then(|| self.handle.enter());
        match catch_unwind(AssertUnwindSafe(|| future.poll(cx))) {
            Ok(polled) => polled,
            // It ended this very moment, and its timers panic.
            Err(_) if self.has_ended() => Poll::Ready(Err(RuntimeEnded.into())),
            Err(panic) => resume_unwind(panic),
        }
    }

    /// The same, for all of a future. It is made at the first poll.
    pub(crate) async fn run<T, E: From<RuntimeEnded>, F: Future<Output = Result<T, E>>>(
        &self,
        make: impl FnOnce() -> F,
    ) -> Result<T, E> {
        let mut future = pin!(make());
        poll_fn(|cx| self.poll(future.as_mut(), cx)).await
    }
}
