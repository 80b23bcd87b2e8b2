//! [`Batcher`]: calls that pile up while others are under way are sent as one batch.
//!
//! A batch costs the client about what one call costs. A call that meets no other is sent at once, by itself.

use std::{
    collections::VecDeque,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use dashmap::DashMap;
use futures::FutureExt;
use tokio::{
    sync::oneshot,
    time::{Instant, timeout},
};

use crate::{
    protocol::{combine, combined, is_combinable},
    runtime::{ClientRuntime, RuntimeEnded},
    wire::{Flight, Invocation, Reply, Transport, WireError},
};

/// The most calls in one batch. It bounds how long the server serves nobody else.
const LARGEST_BATCH: usize = 32;

/// While so many single calls are under way, further calls are queued.
const MOST_SINGLE: usize = 1;

/// While so many batches are under way, the queue grows: for `GROW_FOR` at most, for they may never be answered.
const MOST_TASKS: usize = 2;
const GROW_FOR: Duration = Duration::from_millis(5);

type Answer = Result<Reply, WireError>;

#[derive(Debug)]
pub(crate) struct Batcher {
    transport: Arc<dyn Transport>,
    /// The client's own. A caller's may end, or just not be polled any more.
    runtime: ClientRuntime,
    /// How long a call may take, the time in the queue included.
    timeout: Duration,
    /// Elsewhere than in a cluster, where one script stays within one slot.
    home: Option<Arc<Queue>>,
    by_slot: DashMap<u16, Arc<Queue>>,
}

/// Calls that may be sent in one batch.
#[derive(Debug, Default)]
struct Queue(Mutex<Traffic>);

#[derive(Debug, Default)]
struct Traffic {
    /// How many single calls are under way.
    single: usize,
    /// How many [`BatchTask`]s send.
    tasks: usize,
    queued: VecDeque<Queued>,
}

#[derive(Debug)]
struct Queued {
    call: Invocation,
    /// Until when it is to be answered.
    by: Instant,
    answer: oneshot::Sender<Answer>,
}

impl Batcher {
    pub(crate) fn new(
        transport: Arc<dyn Transport>,
        runtime: ClientRuntime,
        timeout: Duration,
    ) -> Self {
        let home = (!transport.is_cluster()).then(Arc::default);
        Self { transport, runtime, timeout, home, by_slot: DashMap::new() }
    }

    /// Sends one copy of the call, at the first poll, by itself or in a batch.
    pub(crate) fn call(&self, call: Invocation) -> Flight {
        if !is_combinable(&call) {
            return self.transport.call(call);
        }
        let queue = self.queue(call.key());
        let (transport, runtime) = (self.transport.clone(), self.runtime.clone());
        let timeout = self.timeout;
        async move {
            if let Some(_permit) = Permit::of(&queue) {
                return transport.call(call).await;
            }
            let (answer, answered) = oneshot::channel();
            let by = Instant::now() + timeout;
            queue.traffic().queued.push_back(Queued { call, by, answer });
            BatchTask::start(queue, transport, runtime);
            // The task ends only with its runtime.
            answered.await.unwrap_or_else(|_| Err(RuntimeEnded.into()))
        }
        .boxed()
    }

    fn queue(&self, key: &[u8]) -> Arc<Queue> {
        if let Some(home) = &self.home {
            return home.clone();
        }
        let slot = self.transport.slot(key);
        let known = self.by_slot.get(&slot).map(|queue| queue.clone());
        known.unwrap_or_else(|| self.by_slot.entry(slot).or_default().clone())
    }
}

impl Queue {
    fn traffic(&self) -> MutexGuard<'_, Traffic> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to send a single call.
struct Permit<'a>(&'a Queue);

impl<'a> Permit<'a> {
    /// `None`: enough single calls are under way.
    fn of(queue: &'a Queue) -> Option<Self> {
        let mut traffic = queue.traffic();
        if traffic.single == MOST_SINGLE {
            return None;
        }
        traffic.single += 1;
        Some(Self(queue))
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.0.traffic().single -= 1;
    }
}

/// Sends batches until the queue is empty.
struct BatchTask {
    queue: Arc<Queue>,
    transport: Arc<dyn Transport>,
    runtime: ClientRuntime,
    /// Whether `Traffic::tasks` counts it.
    counted: bool,
}

impl BatchTask {
    /// Starts a task, unless enough of them run or the queue is empty.
    fn start(queue: Arc<Queue>, transport: Arc<dyn Transport>, runtime: ClientRuntime) {
        {
            let mut traffic = queue.traffic();
            if traffic.tasks == MOST_TASKS || traffic.queued.is_empty() {
                return;
            }
            traffic.tasks += 1;
        }
        let task = Self { queue, transport, runtime: runtime.clone(), counted: true };
        runtime.spawn(task.run());
    }

    async fn run(mut self) {
        while let Some(batch) = self.next_batch() {
            let mut answers = pin!(send(self.transport.clone(), self.runtime.clone(), batch));
            if timeout(GROW_FOR, &mut answers).await.is_err() {
                self.leave();
                return answers.await;
            }
        }
    }

    /// `None`: the queue is empty, and the task is not counted any more.
    fn next_batch(&mut self) -> Option<Vec<Queued>> {
        let mut traffic = self.queue.traffic();
        let most = traffic.queued.len().min(LARGEST_BATCH);
        if most > 0 {
            return Some(traffic.queued.drain(..most).collect());
        }
        traffic.queued.shrink_to(LARGEST_BATCH);
        traffic.tasks -= 1;
        self.counted = false;
        None
    }

    /// The task has to wait for an answer: another one may start.
    fn leave(&mut self) {
        self.counted = false;
        self.queue.traffic().tasks -= 1;
        Self::start(self.queue.clone(), self.transport.clone(), self.runtime.clone());
    }
}

/// A task that is dropped, with its runtime, leaves no call in the queue that nobody would send.
impl Drop for BatchTask {
    fn drop(&mut self) {
        if self.counted {
            let left = {
                let mut traffic = self.queue.traffic();
                traffic.tasks -= 1;
                std::mem::take(&mut traffic.queued)
            };
            drop(left);
        }
    }
}

/// Sends them and gives each its answer.
async fn send(transport: Arc<dyn Transport>, runtime: ClientRuntime, mut batch: Vec<Queued>) {
    if batch.len() == 1 {
        let Queued { call, by, answer } = batch.remove(0);
        let _ = answer.send(transport.call_by(call, by).await);
        return;
    }
    // Of the one that came first.
    let by = batch[0].by;
    let (calls, answers): (Vec<_>, Vec<_>) =
        batch.into_iter().map(|Queued { call, answer, .. }| (call, answer)).unzip();
    let reply = transport.call_by(combine(&calls), by).await;
    for ((call, answer), reply) in calls.iter().zip(answers).zip(each(reply, calls.len())) {
        match reply {
            Some(reply) => drop(answer.send(reply)),
            None => {
                let alone = transport.call_by(call.clone(), by);
                runtime.spawn(async move { drop(answer.send(alone.await)) });
            }
        }
    }
}

/// Whether the call did nothing, and may do better by itself.
fn may_do_alone(answer: &Answer) -> bool {
    match answer {
        // A key that another of them had just freed, in a slot that moves, too: the next is made elsewhere.
        Err(WireError::NotNow(_)) => true,
        _ => false,
    }
}

/// What the answer to so many means for each. `None`: it did not run, but may by itself.
fn each(reply: Answer, calls: usize) -> Vec<Option<Answer>> {
    match reply.map(|reply| combined(reply, calls)) {
        Ok(Ok(answers)) => {
            answers.into_iter().map(|answer| (!may_do_alone(&answer)).then_some(answer)).collect()
        }
        // It ran, and nobody knows what came of it.
        Ok(Err(error)) => vec![Some(Err(WireError::unanswered(&error.to_string()))); calls],
        Err(error @ WireError::Unanswered(_)) => vec![Some(Err(error)); calls],
        Err(error @ WireError::NotNow(_)) if !error.is_of_keys_apart() => {
            vec![Some(Err(error)); calls]
        }
        // Each learns for itself what the server has against it.
        Err(_) => vec![None; calls],
    }
}
