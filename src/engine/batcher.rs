//! [`Batcher`]: sends calls in batches while others are under way.
//!
//! A batch costs the client about as much as one call. A call that meets no other is sent at once,
//! by itself.

use std::{
    collections::VecDeque,
    pin::{Pin, pin},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    sync::oneshot,
    task::yield_now,
    time::{Instant, timeout},
};

use crate::{
    determinism::DashMap,
    protocol::{Part, combine, combined},
    runtime::{ClientRuntime, RuntimeEnded},
    sometimes::sometimes,
    wire::{Flight, Invocation, Reply, Transport, WireError},
};

/// The most calls in one batch. It bounds how long the server serves no other client: by 0.2 ms, as
/// the renewals of 100 holds do.
const LARGEST_BATCH: usize = 64;

/// While this many batches are under way, the queue grows: for `GROW_FOR` at most, because they may
/// never be answered.
const MOST_TASKS: usize = 2;
const GROW_FOR: Duration = Duration::from_millis(5);

type Answer = Result<Reply, WireError>;

#[derive(Debug)]
pub(crate) struct Batcher {
    transport: Arc<dyn Transport>,
    /// The client's own runtime. A caller's runtime may end or stop polling.
    runtime: ClientRuntime,
    /// How long a call may take, including its time in the queue.
    timeout: Duration,
    /// The only queue outside a cluster. In a cluster each slot has one, because a script stays
    /// within one slot.
    home: Option<Arc<Queue>>,
    by_slot: DashMap<u16, Arc<Queue>>,
}

/// Calls that may be sent in one batch.
#[derive(Debug, Default)]
struct Queue(Mutex<Traffic>);

#[derive(Debug, Default)]
struct Traffic {
    /// Whether a single call is under way.
    single: bool,
    /// How many [`BatchTask`]s send.
    tasks: usize,
    queued: VecDeque<Queued>,
}

#[derive(Debug)]
struct Queued {
    call: Invocation,
    part: Part,
    /// Until when it must be answered.
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
        Self { transport, runtime, timeout, home, by_slot: DashMap::default() }
    }

    /// Sends one copy of the call at `now`: by itself at the first poll, or in a batch.
    pub(crate) fn call(&self, call: Invocation, now: Instant) -> Underway {
        let Some(part) = Part::of(&call) else {
            return Underway::Alone(self.transport.call(call), None);
        };
        let queue = self.queue(call.key());
        let mut traffic = queue.traffic();
        if traffic.meets_none() {
            traffic.single = true;
            drop(traffic);
            let single = SingleCall(queue);
            return Underway::Alone(self.transport.call(call), Some(single));
        }
        let (answer, answered) = oneshot::channel();
        let by = now + self.timeout;
        traffic.queued.push_back(Queued { call, part, by, answer });
        let begins = traffic.begins_task();
        drop(traffic);
        if begins {
            BatchTask::start(queue, self.transport.clone(), self.runtime.clone());
        }
        Underway::InBatch(answered)
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

impl Traffic {
    /// Whether a call is sent by itself. A single call beside batches would make them smaller.
    fn meets_none(&self) -> bool {
        !self.single && self.tasks == 0
    }

    fn fills_batch(&self) -> bool {
        self.queued.len() >= LARGEST_BATCH
    }

    /// Whether one more task is to send batches. Counts that task.
    fn begins_task(&mut self) -> bool {
        let begins = self.tasks < MOST_TASKS && !self.queued.is_empty();
        self.tasks += usize::from(begins);
        begins
    }
}

/// A call under way. It is sent by itself at the first poll, or is queued already. A queued call is
/// sent whether or not this is polled.
#[must_use]
pub(crate) enum Underway {
    /// `Some`: other calls are queued until it ends.
    Alone(Flight, Option<SingleCall>),
    InBatch(oneshot::Receiver<Answer>),
}

impl Future for Underway {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answer> {
        match &mut *self {
            Self::Alone(flight, single) => {
                let answer = ready!(flight.as_mut().poll(context));
                *single = None;
                Poll::Ready(answer)
            }
            Self::InBatch(answered) => {
                let answer = ready!(Pin::new(answered).poll(context));
                // The task ends only with its runtime.
                Poll::Ready(answer.unwrap_or_else(|_| Err(RuntimeEnded.into())))
            }
        }
    }
}

/// The single call that is under way. There is one at most.
pub(crate) struct SingleCall(Arc<Queue>);

impl Drop for SingleCall {
    fn drop(&mut self) {
        self.0.traffic().single = false;
    }
}

/// A task that sends batches until the queue is empty.
struct BatchTask {
    queue: Arc<Queue>,
    transport: Arc<dyn Transport>,
    runtime: ClientRuntime,
    /// Whether `Traffic::tasks` counts it.
    counted: bool,
}

impl BatchTask {
    /// Starts a task that is counted already.
    fn start(queue: Arc<Queue>, transport: Arc<dyn Transport>, runtime: ClientRuntime) {
        let task = Self { queue, transport, runtime: runtime.clone(), counted: true };
        runtime.spawn(task.run());
    }

    async fn run(mut self) {
        loop {
            self.gather().await;
            let Some(batch) = self.next_batch() else { return };
            let mut answers = pin!(send(self.transport.clone(), self.runtime.clone(), batch));
            if timeout(GROW_FOR, &mut answers).await.is_err() {
                self.leave();
                return answers.await;
            }
        }
    }

    /// Lets the tasks run that are ready, such as those that have just got their answers. Their
    /// calls are sent together.
    async fn gather(&self) {
        let fills_batch = self.queue.traffic().fills_batch();
        if !fills_batch {
            yield_now().await;
        }
    }

    /// The next batch, in the order in which it is done. `None`: the queue is empty, and this task is
    /// no longer counted.
    fn next_batch(&mut self) -> Option<Vec<Queued>> {
        let mut traffic = self.queue.traffic();
        let most = traffic.queued.len().min(LARGEST_BATCH);
        if most > 0 {
            let mut batch: Vec<_> = traffic.queued.drain(..most).collect();
            drop(traffic);
            batch.sort_by_key(|queued| queued.part);
            return Some(batch);
        }
        traffic.queued.shrink_to(LARGEST_BATCH);
        traffic.tasks -= 1;
        self.counted = false;
        None
    }

    /// The task has to wait for an answer, so another task may start.
    fn leave(&mut self) {
        self.counted = false;
        let begins = {
            let mut traffic = self.queue.traffic();
            traffic.tasks -= 1;
            traffic.begins_task()
        };
        if begins {
            Self::start(self.queue.clone(), self.transport.clone(), self.runtime.clone());
        }
    }
}

/// When a task is dropped with its runtime, it empties the queue, because no task would send it.
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

/// Sends the calls and gives each its answer.
async fn send(transport: Arc<dyn Transport>, runtime: ClientRuntime, mut batch: Vec<Queued>) {
    if batch.len() == 1 {
        let Queued { call, by, answer, .. } = batch.remove(0);
        let _ = answer.send(transport.call_by(call, by).await);
        return;
    }
    sometimes!("batch: several in one call");
    // The bound of the call that came first.
    let by = batch.iter().map(|queued| queued.by).min().expect("several");
    let (calls, answers): (Vec<_>, Vec<_>) =
        batch.into_iter().map(|Queued { call, answer, .. }| (call, answer)).unzip();
    let reply = transport.call_by(combine(&calls), by).await;
    for ((call, answer), reply) in calls.iter().zip(answers).zip(each(reply, calls.len())) {
        match reply {
            Some(reply) => drop(answer.send(reply)),
            None => {
                sometimes!("batch: one is sent by itself");
                let alone = transport.call_by(call.clone(), by);
                runtime.spawn(async move { drop(answer.send(alone.await)) });
            }
        }
    }
}

/// Whether the call did nothing, and may succeed by itself.
fn may_do_alone(answer: &Answer) -> bool {
    match answer {
        // Also in a slot that is being moved: a key that an earlier call of this batch deleted is created
        // anew on the other server. By itself the call is redirected there.
        Err(WireError::NotNow(_)) => true,
        _ => false,
    }
}

/// The answer of each call. `None`: it did not run, but may by itself.
fn each(reply: Answer, calls: usize) -> Vec<Option<Answer>> {
    match reply.map(|reply| combined(reply, calls)) {
        Ok(Ok(answers)) => {
            answers.into_iter().map(|answer| (!may_do_alone(&answer)).then_some(answer)).collect()
        }
        // The batch ran, and its result is unknown.
        Ok(Err(error)) => vec![Some(Err(error.into_unanswered())); calls],
        Err(error @ WireError::Unanswered(_)) => vec![Some(Err(error)); calls],
        Err(error @ WireError::NotNow(_)) if !error.is_of_keys_apart() => {
            vec![Some(Err(error)); calls]
        }
        // Each call finds out its own error.
        Err(_) => vec![None; calls],
    }
}

#[cfg(test)]
mod tests;
