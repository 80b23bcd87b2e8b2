//! Calls that pile up while others are under way travel together.
//!
//! What the client spends on a call it then spends once for many. A lone call goes at once, by itself.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::{
    FutureExt,
    stream::{FuturesUnordered, StreamExt},
};
use tokio::{
    sync::{mpsc, oneshot},
    time::sleep,
};

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
    /// How many calls are under way by themselves.
    alone: Arc<AtomicUsize>,
    /// `None`: every call goes by itself.
    gather: Option<mpsc::UnboundedSender<Gathered>>,
}

#[derive(Debug)]
struct Gathered {
    call: Invocation,
    answer: oneshot::Sender<Answer>,
}

impl Combiner {
    /// Starts the task. It ends with the last handle to this.
    pub(crate) fn start(transport: Arc<dyn Transport>) -> Self {
        // In a cluster a call stays within one slot: few would find company.
        let gather = (!transport.is_cluster()).then(|| {
            let (gather, gathered) = mpsc::unbounded_channel();
            tokio::spawn(run(transport.clone(), gathered));
            gather
        });
        Self { transport, alone: Arc::default(), gather }
    }

    /// Sends one copy of the call, at the first poll, alone or in company.
    pub(crate) fn call(&self, call: Invocation) -> Flight {
        let Some(gather) = self.gather.as_ref().filter(|_| is_combinable(&call)) else {
            return self.transport.call(call);
        };
        let (gather, transport) = (gather.clone(), self.transport.clone());
        let alone = self.alone.clone();
        async move {
            if let Some(_one) = One::of(&alone) {
                return transport.call(call).await;
            }
            let (answer, answered) = oneshot::channel();
            let _ = gather.send(Gathered { call, answer });
            answered.await.unwrap_or_else(|_| Err(WireError::unanswered("the client is gone")))
        }
        .boxed()
    }
}

/// One of the calls that are under way by themselves.
struct One<'a>(&'a AtomicUsize);

impl<'a> One<'a> {
    /// `None`: there are enough.
    fn of(alone: &'a AtomicUsize) -> Option<Self> {
        if alone.fetch_add(1, Ordering::Relaxed) < ALONE {
            return Some(Self(alone));
        }
        alone.fetch_sub(1, Ordering::Relaxed);
        None
    }
}

impl Drop for One<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn run(transport: Arc<dyn Transport>, mut queue: mpsc::UnboundedReceiver<Gathered>) {
    let mut under_way = FuturesUnordered::new();
    let mut gathered = Vec::with_capacity(MOST);
    let mut waited = false;
    loop {
        let full = under_way.len() >= TOGETHER && !waited;
        tokio::select! {
            some = queue.recv_many(&mut gathered, MOST), if !full => {
                if some == 0 {
                    break;
                }
                let gathered = std::mem::replace(&mut gathered, Vec::with_capacity(MOST));
                under_way.push(send(transport.clone(), gathered));
                waited = false;
            }
            Some(()) = under_way.next() => waited = false,
            () = sleep(PATIENCE), if full => waited = true,
        }
    }
    while under_way.next().await.is_some() {}
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
        Err(error @ (WireError::Unanswered(_) | WireError::NotNow(_))) => {
            vec![Some(Err(error)); calls.len()]
        }
        // Each learns for itself what the server has against it.
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
