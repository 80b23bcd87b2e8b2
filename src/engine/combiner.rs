//! Calls that pile up while others are under way travel together.
//!
//! What the client spends on a call it then spends once for many. A lone call goes at once, by itself.

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

/// So many calls travel together at most: it bounds how long the server is kept from others.
const MOST: usize = 32;

/// While so many calls are under way by themselves, others gather.
const ALONE: usize = 1;

/// While so many gatherings are under way, the next one grows: for so long at most, for they may never
/// be answered.
const TOGETHER: usize = 2;
const PATIENCE: Duration = Duration::from_millis(5);

type Answer = Result<Reply, WireError>;

#[derive(Debug)]
pub(crate) struct Combiner {
    transport: Arc<dyn Transport>,
    /// The client's own. A caller's may end, or just not be polled any more.
    runtime: ClientRuntime,
    /// How long a call may take, with the time in which it gathers.
    timeout: Duration,
    /// Elsewhere than in a cluster, where one script stays within one slot.
    home: Option<Arc<Lane>>,
    by_slot: DashMap<u16, Arc<Lane>>,
}

/// Calls that may travel together.
#[derive(Debug, Default)]
struct Lane(Mutex<Traffic>);

#[derive(Debug, Default)]
struct Traffic {
    /// How many calls are under way by themselves.
    alone: usize,
    /// How many carriers there are.
    together: usize,
    gathered: VecDeque<Gathered>,
}

#[derive(Debug)]
struct Gathered {
    call: Invocation,
    /// Until when it is to be answered.
    by: Instant,
    answer: oneshot::Sender<Answer>,
}

impl Combiner {
    pub(crate) fn new(
        transport: Arc<dyn Transport>,
        runtime: ClientRuntime,
        timeout: Duration,
    ) -> Self {
        let home = (!transport.is_cluster()).then(Arc::default);
        Self { transport, runtime, timeout, home, by_slot: DashMap::new() }
    }

    /// Sends one copy of the call, at the first poll, alone or in company.
    pub(crate) fn call(&self, call: Invocation) -> Flight {
        if !is_combinable(&call) {
            return self.transport.call(call);
        }
        let lane = self.lane(call.key());
        let (transport, runtime) = (self.transport.clone(), self.runtime.clone());
        let timeout = self.timeout;
        async move {
            if let Some(_one) = One::of(&lane) {
                return transport.call(call).await;
            }
            let (answer, answered) = oneshot::channel();
            let by = Instant::now() + timeout;
            lane.traffic().gathered.push_back(Gathered { call, by, answer });
            Carrier::start(lane, transport, runtime);
            // Whoever carries it goes with its runtime only.
            answered.await.unwrap_or_else(|_| Err(RuntimeEnded.into()))
        }
        .boxed()
    }

    fn lane(&self, key: &[u8]) -> Arc<Lane> {
        if let Some(home) = &self.home {
            return home.clone();
        }
        let slot = self.transport.slot(key);
        let known = self.by_slot.get(&slot).map(|lane| lane.clone());
        known.unwrap_or_else(|| self.by_slot.entry(slot).or_default().clone())
    }
}

impl Lane {
    fn traffic(&self) -> MutexGuard<'_, Traffic> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One of the calls that are under way by themselves.
struct One<'a>(&'a Lane);

impl<'a> One<'a> {
    /// `None`: there are enough.
    fn of(lane: &'a Lane) -> Option<Self> {
        let mut traffic = lane.traffic();
        if traffic.alone == ALONE {
            return None;
        }
        traffic.alone += 1;
        Some(Self(lane))
    }
}

impl Drop for One<'_> {
    fn drop(&mut self) {
        self.0.traffic().alone -= 1;
    }
}

/// Sends what has gathered, until there is nothing.
struct Carrier {
    lane: Arc<Lane>,
    transport: Arc<dyn Transport>,
    runtime: ClientRuntime,
    /// Whether it is still one of those who carry.
    counted: bool,
}

impl Carrier {
    /// Unless there are enough, or there is nothing to carry.
    fn start(lane: Arc<Lane>, transport: Arc<dyn Transport>, runtime: ClientRuntime) {
        {
            let mut traffic = lane.traffic();
            if traffic.together == TOGETHER || traffic.gathered.is_empty() {
                return;
            }
            traffic.together += 1;
        }
        let carrier = Self { lane, transport, runtime: runtime.clone(), counted: true };
        runtime.spawn(carrier.run());
    }

    async fn run(mut self) {
        while let Some(load) = self.load() {
            let mut trip = pin!(send(self.transport.clone(), self.runtime.clone(), load));
            if timeout(PATIENCE, &mut trip).await.is_err() {
                self.leave();
                return trip.await;
            }
        }
    }

    /// `None`: there is nothing, and it is none of those who carry any more.
    fn load(&mut self) -> Option<Vec<Gathered>> {
        let mut traffic = self.lane.traffic();
        let most = traffic.gathered.len().min(MOST);
        if most > 0 {
            return Some(traffic.gathered.drain(..most).collect());
        }
        traffic.gathered.shrink_to(MOST);
        traffic.together -= 1;
        self.counted = false;
        None
    }

    /// It has to wait: another one may start.
    fn leave(&mut self) {
        self.counted = false;
        self.lane.traffic().together -= 1;
        Self::start(self.lane.clone(), self.transport.clone(), self.runtime.clone());
    }
}

/// Cut short, that is with its runtime, it leaves nobody behind who would wait for another.
impl Drop for Carrier {
    fn drop(&mut self) {
        if self.counted {
            let left = {
                let mut traffic = self.lane.traffic();
                traffic.together -= 1;
                std::mem::take(&mut traffic.gathered)
            };
            drop(left);
        }
    }
}

/// Sends them and gives each its answer.
async fn send(transport: Arc<dyn Transport>, runtime: ClientRuntime, mut load: Vec<Gathered>) {
    if load.len() == 1 {
        let Gathered { call, by, answer } = load.remove(0);
        let _ = answer.send(transport.call_by(call, by).await);
        return;
    }
    // Of the one that came first.
    let by = load[0].by;
    let (calls, answers): (Vec<_>, Vec<_>) =
        load.into_iter().map(|Gathered { call, answer, .. }| (call, answer)).unzip();
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
