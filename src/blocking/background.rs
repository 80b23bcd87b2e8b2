//! [`Background`]: the thread of a client, and calls that wait for it.

use std::{
    fmt, io,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, Waker},
    thread,
};

use tokio::{
    runtime::{Builder, Handle, Runtime},
    sync::oneshot,
    task::coop,
};

use crate::{
    blocking::park,
    client::Client,
    error::Error,
    redis_error::{RedisError, RedisErrorKind},
};

/// A client, and the thread that runs its background tasks. The thread ends after this is dropped.
pub struct Background {
    pub(super) client: Client,
    handle: Handle,
    /// Takes the client, for the thread to close.
    end: Mutex<Option<oneshot::Sender<Client>>>,
}

impl fmt::Debug for Background {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.client.fmt(f)
    }
}

impl Background {
    pub(super) fn connect(
        connecting: impl Future<Output = Result<Client, Error>>,
    ) -> Result<Arc<Self>, Error> {
        may_block()?;
        let runtime = Builder::new_current_thread().enable_all().build().map_err(not_started)?;
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel();
        let thread = thread::Builder::new().name("redisson-lock".into());
        thread.spawn(move || serve(runtime, ended)).map_err(not_started)?;
        let client = park::block_on(&handle, connecting)?;
        Ok(Arc::new(Self { client, handle, end: Mutex::new(Some(end)) }))
    }

    /// Polls the future on the calling thread, and lets that thread sleep in between. The
    /// background thread serves what the future waits for.
    pub(super) fn run<T>(
        &self,
        future: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        may_block()?;
        park::block_on(&self.handle, future)
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let end = self.end.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(end) = end {
            // Fails only when the thread is gone.
            let _ = end.send(self.client.clone());
        }
    }
}

/// Runs the background tasks until the client is to end, or could not connect.
fn serve(runtime: Runtime, ended: oneshot::Receiver<Client>) {
    runtime.block_on(async {
        if let Ok(client) = ended.await
            && let Err(error) = client.close().await
        {
            log!(warn, %error, "closing a client whose last handle was dropped");
        }
    });
    // A look-up of an address may still be under way on another thread.
    runtime.shutdown_background();
}

fn not_started(error: io::Error) -> Error {
    let text = format!("the background thread could not be started: {error}");
    RedisError::new(RedisErrorKind::RuntimeEnded, text).into()
}

/// Refuses async code, and the destructor of a thread-local value in which tokio would panic: its
/// own values of the thread may be destroyed already.
fn may_block() -> Result<(), Error> {
    match Handle::try_current() {
        Err(error) if error.is_thread_local_destroyed() => {
            let text = "the calling thread is ending, and cannot wait for an answer any more";
            Err(RedisError::new(RedisErrorKind::RuntimeEnded, text).into())
        }
        Err(_) => Ok(()),
        Ok(_) if is_polled_by_tokio() => Err(Error::InAsyncCode),
        Ok(_) => Ok(()),
    }
}

/// Whether the caller is being polled by a tokio runtime, so that blocking would stop other tasks.
///
/// A thread of `spawn_blocking` or in `block_in_place` has a current runtime and a task id, too.
/// Only what is polled has a limited coop budget. The budget cannot be read. It is therefore spent
/// and given back.
///
/// Two sorts of async code have no limited budget, and are not recognised: what is polled within
/// `tokio::task::unconstrained`, and the body of `Runtime::block_on` between a `block_in_place` and
/// its next await. A call there blocks the thread.
fn is_polled_by_tokio() -> bool {
    /// More than a task's budget, which is a `u8`.
    const MOST_STEPS: usize = 256;

    if !coop::has_budget_remaining() {
        return true;
    }
    let mut context = Context::from_waker(Waker::noop());
    // When it is dropped, the budget is what it was before.
    let Poll::Ready(_before) = coop::poll_proceed(&mut context) else { return true };
    for _ in 0..MOST_STEPS {
        if !coop::has_budget_remaining() {
            return true;
        }
        if let Poll::Ready(step) = coop::poll_proceed(&mut context) {
            step.made_progress();
        }
    }
    false
}

#[cfg(test)]
mod tests;
