//! [`ClientRuntime`]: the tokio runtime on which a client was connected.
//!
//! Everything that outlives a call runs there. A caller's runtime may end at any moment, and all
//! its timers and tasks end with it. A future that is first polled on one runtime and finished on
//! another therefore needs its timers on the client's runtime.

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

use crate::{
    error::Error,
    redis_error::{RedisError, RedisErrorKind},
};

/// The tokio runtime on which a client was connected.
#[derive(Clone, Debug)]
pub(crate) struct ClientRuntime {
    handle: Handle,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    ended: AtomicBool,
    end: Notify,
    /// Dropped with the last handle. The task that waits for the runtime's end then ends.
    _handles: oneshot::Sender<()>,
}

/// The runtime has ended, and with it the client's connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RuntimeEnded;

impl From<RuntimeEnded> for RedisError {
    fn from(_: RuntimeEnded) -> Self {
        let text = "the tokio runtime this client was connected on has ended";
        Self::new(RedisErrorKind::RuntimeEnded, text)
    }
}

impl From<RuntimeEnded> for Error {
    fn from(ended: RuntimeEnded) -> Self {
        Self::Redis(ended.into())
    }
}

/// A task owns it. A runtime that ends drops its tasks, and so this value.
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
    /// The runtime of the calling task.
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

    /// Completes when the runtime has ended.
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

    /// Polls a future as if on this runtime: it starts its timers and tasks there. The future may
    /// then be polled on any runtime, and on another one the next time.
    pub(crate) fn poll<T, E: From<RuntimeEnded>>(
        &self,
        future: Pin<&mut (impl Future<Output = Result<T, E>> + ?Sized)>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<T, E>> {
        if self.has_ended() {
            return Poll::Ready(Err(RuntimeEnded.into()));
        }
        // Most futures are already polled on this runtime.
        let _here = (!self.is_current()).then(|| self.handle.enter());
        match catch_unwind(AssertUnwindSafe(|| future.poll(cx))) {
            Ok(polled) => polled,
            // The runtime ended during the poll, and its timers panicked.
            Err(_) if self.has_ended() => Poll::Ready(Err(RuntimeEnded.into())),
            Err(panic) => resume_unwind(panic),
        }
    }

    /// Runs a whole future that way. The future is made at the first poll.
    pub(crate) async fn run<T, E: From<RuntimeEnded>, F: Future<Output = Result<T, E>>>(
        &self,
        make: impl FnOnce() -> F,
    ) -> Result<T, E> {
        let mut future = pin!(make());
        poll_fn(|cx| self.poll(future.as_mut(), cx)).await
    }
}
