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
use tokio::{runtime::Handle, sync::oneshot, time::timeout};

use crate::{
    protocol::{combine, combined, is_combinable},
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
    answer: oneshot::Sender<Answer>,
}

impl Combiner {
    pub(crate) fn new(transport: Arc<dyn Transport>) -> Self {
        let home = (!transport.is_cluster()).then(Arc::default);
        Self { transport, home, by_slot: DashMap::new() }
    }

    /// Sends one copy of the call, at the first poll, alone or in company.
    pub(crate) fn call(&self, call: Invocation) -> Flight {
        if !is_combinable(&call) {
            return self.transport.call(call);
        }
        let lane = self.home.clone().unwrap_or_else(|| {
            self.by_slot.entry(self.transport.slot(call.key())).or_default().clone()
        });
        let transport = self.transport.clone();
        async move {
            if let Some(_one) = One::of(&lane) {
                return transport.call(call).await;
            }
            let (answer, answered) = oneshot::channel();
            lane.traffic().gathered.push_back(Gathered { call, answer });
            Carrier::start(&lane, &transport);
            answered.await.unwrap_or_else(|_| Err(WireError::unanswered("the client is gone")))
        }
        .boxed()
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
}

impl Carrier {
    /// Unless there are enough, or there is nothing to carry.
    fn start(lane: &Arc<Lane>, transport: &Arc<dyn Transport>) {
        // Without a runtime, that is while it is being shut down, nobody waits for an answer.
        let Ok(runtime) = Handle::try_current() else { return };
        {
            let mut traffic = lane.traffic();
            if traffic.together == TOGETHER || traffic.gathered.is_empty() {
                return;
            }
            traffic.together += 1;
        }
        let carrier = Self { lane: lane.clone(), transport: transport.clone() };
        runtime.spawn(carrier.run());
    }

    async fn run(self) {
        while let Some(load) = self.load() {
            let mut trip = pin!(send(self.transport.clone(), load));
            if timeout(PATIENCE, &mut trip).await.is_err() {
                // Another one may start.
                drop(self);
                return trip.await;
            }
        }
    }

    fn load(&self) -> Option<Vec<Gathered>> {
        let gathered = &mut self.lane.traffic().gathered;
        let most = gathered.len().min(MOST);
        (most > 0).then(|| gathered.drain(..most).collect())
    }
}

/// What has come since it looked is not left behind.
impl Drop for Carrier {
    fn drop(&mut self) {
        self.lane.traffic().together -= 1;
        Self::start(&self.lane, &self.transport);
    }
}

async fn send(transport: Arc<dyn Transport>, mut gathered: Vec<Gathered>) {
    if gathered.len() == 1 {
        let Gathered { call, answer } = gathered.remove(0);
        let _ = answer.send(transport.call(call).await);
        return;
    }
    let (calls, answers): (Vec<_>, Vec<_>) =
        gathered.into_iter().map(|Gathered { call, answer }| (call, answer)).unzip();
    let reply = transport.call(combine(&calls)).await;
    let replies = match reply.and_then(|reply| combined(reply, calls.len())) {
        Ok(replies) => replies.into_iter().map(Some).collect(),
        Err(error @ WireError::Unanswered(_)) => vec![Some(Err(error)); calls.len()],
        // Nothing ran: each learns for itself what the server has against it. While a slot moves that
        // is but their company.
        Err(_) => vec![None; calls.len()],
    };
    for ((call, answer), reply) in calls.into_iter().zip(answers).zip(replies) {
        match reply {
            Some(reply) => drop(answer.send(reply)),
            None => {
                let alone = transport.call(call);
                tokio::spawn(async move { drop(answer.send(alone.await)) });
            }
        }
    }
}
