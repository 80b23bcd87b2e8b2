//! [`Scripted`]: a transport for unit tests that gives prepared replies, and notes what was asked.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::{
    FutureExt,
    future::{BoxFuture, pending, ready},
};
use tokio::time::{Instant, sleep};

use crate::{
    config::Config,
    engine::{Engine, Subscriptions},
    owner::Identity,
    runtime::ClientRuntime,
    wire::{Confirm, Flight, Invocation, Reply, ServerId, Transport, WireError},
};

/// Gives these replies, one after another, and then none.
#[derive(Debug, Default)]
pub(crate) struct Scripted {
    pub(crate) replies: Mutex<VecDeque<Result<Reply, WireError>>>,
    /// Each call, and by when its answer was wanted if that was said.
    pub(crate) calls: Mutex<Vec<(Invocation, Option<Instant>)>>,
    /// How long each reply takes.
    pub(crate) slow: Duration,
    pub(crate) given_up: Mutex<usize>,
    /// How often it was asked to keep the time.
    pub(crate) times_kept: Mutex<usize>,
    /// Channels that may not be subscribed.
    pub(crate) refused: Vec<&'static str>,
    /// How many channels each call was to subscribe.
    pub(crate) subscribed: Mutex<Vec<usize>>,
    /// The answers to unsubscriptions, one after another. Then there is none.
    pub(crate) unsubscribed: Mutex<VecDeque<Result<(), WireError>>>,
    /// What it says of its time, one after another. Then it says nothing.
    pub(crate) times: Mutex<VecDeque<Result<u64, WireError>>>,
    /// If it is not zero: a subscription stands after this time, and is confirmed after as much again. An
    /// unsubscription takes this time. If it is cut short, the subscription is still known afterwards.
    pub(crate) subscribing: Duration,
    pub(crate) listening: Arc<Mutex<BTreeSet<String>>>,
    /// It does not know what is subscribed, as outside clusters.
    pub(crate) keeps_no_map: bool,
    /// The server that has all keys.
    pub(crate) server: AtomicU64,
    /// The slot of a key, if it is a cluster.
    pub(crate) slot: Option<fn(&[u8]) -> u16>,
}

impl Scripted {
    pub(crate) fn new(replies: impl IntoIterator<Item = Result<Reply, WireError>>) -> Self {
        Self { replies: Mutex::new(replies.into_iter().collect()), ..Self::default() }
    }

    /// How many keys each call named.
    pub(crate) fn keys(&self) -> Vec<usize> {
        self.calls.lock().unwrap().iter().map(|(call, _)| call.keys).collect()
    }

    fn send(&self, call: Invocation, by: Option<Instant>) -> Flight {
        self.calls.lock().unwrap().push((call, by));
        let (reply, slow) = (self.replies.lock().unwrap().pop_front(), self.slow);
        async move {
            if !slow.is_zero() {
                sleep(slow).await;
            }
            match reply {
                Some(reply) => reply,
                None => pending().await,
            }
        }
        .boxed()
    }
}

/// An engine of the usual settings on this transport.
pub(crate) fn engine(transport: &Arc<Scripted>) -> Arc<Engine> {
    let (_, settings) = Config::default().into_settings().unwrap();
    Engine::start(
        Identity::new(),
        settings,
        transport.clone(),
        Subscriptions::new(),
        ClientRuntime::current(),
    )
}

impl Transport for Scripted {
    fn call(&self, call: Invocation) -> Flight {
        self.send(call, None)
    }

    fn call_by(&self, call: Invocation, by: Instant) -> Flight {
        self.send(call, Some(by))
    }

    /// As if there were no replicas to ask.
    fn call_confirmed(&self, call: Invocation, _: Confirm) -> Flight {
        self.call(call)
    }

    fn slot(&self, key: &[u8]) -> u16 {
        self.slot.map_or(0, |slot| slot(key))
    }

    fn is_cluster(&self) -> bool {
        self.slot.is_some()
    }

    fn time_at(&self, _: &[u8], _: Instant) -> u64 {
        0
    }

    fn observe(&self, _: &[u8], _: u64) {}

    fn server_time(&self, _: &[u8]) -> BoxFuture<'static, Result<u64, WireError>> {
        match self.times.lock().unwrap().pop_front() {
            Some(time) => ready(time).boxed(),
            None => pending().boxed(),
        }
    }

    fn keep_time(&self) -> BoxFuture<'static, ()> {
        *self.times_kept.lock().unwrap() += 1;
        ready(()).boxed()
    }

    fn subscribe(&self, channels: Vec<String>) -> BoxFuture<'static, Result<(), WireError>> {
        self.subscribed.lock().unwrap().push(channels.len());
        if !self.subscribing.is_zero() {
            let (listening, half) = (self.listening.clone(), self.subscribing);
            return async move {
                sleep(half).await;
                listening.lock().unwrap().extend(channels);
                sleep(half).await;
                Ok(())
            }
            .boxed();
        }
        let refused = channels.iter().any(|channel| self.refused.contains(&channel.as_str()));
        ready(if refused { Err(WireError::from_server("NOPERM")) } else { Ok(()) }).boxed()
    }

    fn unsubscribe(&self, channels: Vec<String>) -> BoxFuture<'static, Result<(), WireError>> {
        if !self.subscribing.is_zero() {
            let (listening, time) = (self.listening.clone(), self.subscribing);
            return async move {
                let mut ending = Ending { listening, channels };
                ending.listening.lock().unwrap().retain(|known| !ending.channels.contains(known));
                sleep(time).await;
                ending.channels.clear();
                Ok(())
            }
            .boxed();
        }
        match self.unsubscribed.lock().unwrap().pop_front() {
            Some(answer) => ready(answer).boxed(),
            None => pending().boxed(),
        }
    }

    fn may_be_subscribed(&self, channel: &str) -> bool {
        !self.keeps_no_map && self.listening.lock().unwrap().contains(channel)
    }

    fn server_id(&self, _: &str) -> ServerId {
        self.server.load(Ordering::Relaxed)
    }

    fn probe(&self, _: u64) -> BoxFuture<'static, Result<(), WireError>> {
        pending().boxed()
    }

    fn given_up(&self, _: &[u8], _: Duration) {
        *self.given_up.lock().unwrap() += 1;
    }

    fn quit(&self) -> BoxFuture<'static, ()> {
        ready(()).boxed()
    }
}

/// Subscriptions that are being ended.
struct Ending {
    listening: Arc<Mutex<BTreeSet<String>>>,
    channels: Vec<String>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.listening.lock().unwrap().extend(std::mem::take(&mut self.channels));
    }
}
