//! [`Janitor`]: runs the jobs of a client in the background, and waits for them at the end: what a dropped
//! future or guard left undone, and releases that are repeated. Each job is written where it arises.

use std::{
    panic::{AssertUnwindSafe, resume_unwind},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use futures::{
    FutureExt,
    future::BoxFuture,
    stream::{FuturesUnordered, StreamExt},
};
use tokio::sync::{Notify, mpsc, oneshot};

use crate::{
    broken::broken,
    determinism::select,
    error::Error,
    runtime::{ClientRuntime, RuntimeEnded},
    wire::Transport,
};

type Job = BoxFuture<'static, ()>;

/// Hands jobs to the one task that completes them. May be called from anywhere, also from `Drop`
/// outside a runtime.
#[derive(Clone, Debug)]
pub(crate) struct Janitor(Arc<Desk>);

#[derive(Debug)]
struct Desk {
    runtime: ClientRuntime,
    jobs: mpsc::UnboundedSender<(Job, Busy)>,
    pending: Arc<Pending>,
}

#[derive(Debug, Default)]
struct Pending {
    count: AtomicUsize,
    none: Notify,
}

/// Marks an operation that may leave something to undo. The client is not closed before it is
/// dropped.
#[derive(Debug)]
pub(crate) struct Busy {
    pending: Arc<Pending>,
}

impl Janitor {
    /// Starts the task. When all handles to it are gone, it closes the connections and ends.
    pub(crate) fn start(transport: Arc<dyn Transport>, runtime: ClientRuntime) -> Self {
        let (jobs, queue) = mpsc::unbounded_channel();
        runtime.spawn(run(queue, transport));
        Self(Arc::new(Desk { runtime, jobs, pending: Arc::default() }))
    }

    pub(crate) fn busy(&self) -> Busy {
        self.0.pending.count.fetch_add(1, Ordering::Relaxed);
        Busy { pending: self.0.pending.clone() }
    }

    /// Runs a job to its end, whatever happens to the caller. For jobs whose result nobody waits for.
    pub(crate) fn spawn(&self, job: impl Future<Output = ()> + Send + 'static) {
        if broken("no-janitor") {
            return;
        }
        // Fails only when the runtime has ended, and with it every connection.
        let _ = self.0.jobs.send((job.boxed(), self.busy()));
    }

    /// A future that runs to its end, even if it is dropped or the runtime that polls it ends.
    ///
    /// In that case its output is dropped too. The output should undo itself on drop.
    ///
    /// The caller polls it. While the caller does not, it stands still: it suits only what no other
    /// call waits for.
    pub(crate) fn finish_if_dropped<T: Send + 'static>(
        &self,
        future: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Finish<T> {
        Finish { future: Some(future.boxed()), _busy: self.busy(), janitor: self.clone() }
    }

    /// Runs the future to its end in the background from the start, and returns its output. For what
    /// other calls wait for, such as a change of a hold count, of a slot or of a shared hold: it has to
    /// go on while the caller is not polled.
    pub(crate) async fn run_apart<T: Send + 'static>(
        &self,
        future: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        let (tell, told) = oneshot::channel();
        self.spawn(async move {
            let result = AssertUnwindSafe(future).catch_unwind().await;
            if let Err(Err(panic)) = tell.send(result) {
                resume_unwind(panic);
            }
        });
        match told.await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => panic!("a call that goes on in the background panicked"),
            // A runtime that ends drops the job, perhaps before it says that it has ended.
            Err(_) => Err(RuntimeEnded.into()),
        }
    }

    /// Completes when nothing is under way and nothing is left to undo.
    pub(crate) async fn drained(&self) {
        loop {
            let none = self.0.pending.none.notified();
            if self.0.pending.count.load(Ordering::Acquire) == 0 {
                return;
            }
            none.await;
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        if self.pending.count.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.pending.none.notify_waiters();
        }
    }
}

async fn run(mut queue: mpsc::UnboundedReceiver<(Job, Busy)>, transport: Arc<dyn Transport>) {
    let mut running = FuturesUnordered::new();
    loop {
        select! {
            job = queue.recv() => match job {
                Some((job, busy)) => {
                    let job = AssertUnwindSafe(job).catch_unwind();
                    running.push(job.map(move |result| (result, busy)));
                }
                None => break,
            },
            Some((result, _busy)) = running.next() => {
                if result.is_err() {
                    log!(error, "a clean-up panicked; what it held ends with its lease");
                }
            }
        }
    }
    // Every job holds a handle to this task through what it works on, so no job can be left here.
    transport.quit().await;
}

/// See [`Janitor::finish_if_dropped`].
#[must_use]
pub(crate) struct Finish<T: Send + 'static> {
    future: Option<BoxFuture<'static, Result<T, Error>>>,
    // Dropped after the future was handed over, so that there is no gap.
    _busy: Busy,
    janitor: Janitor,
}

impl<T: Send> Future for Finish<T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { future, janitor, .. } = &mut *self;
        let future = future.as_mut().expect("polled after its end");
        let output = std::task::ready!(janitor.0.runtime.poll(future.as_mut(), cx));
        self.future = None;
        Poll::Ready(output)
    }
}

impl<T: Send> Drop for Finish<T> {
    fn drop(&mut self) {
        if let Some(future) = self.future.take() {
            self.janitor.spawn(future.map(drop));
        }
    }
}

#[cfg(test)]
mod tests;
