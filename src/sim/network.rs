//! The simulated network: its delays, and what it loses.

use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use bytes::Bytes;
use futures::{FutureExt, future::BoxFuture};
use harness::{Messages, redis};
use tokio::{
    sync::oneshot,
    time::{Instant, sleep, timeout_at},
};

use super::world::{Listener, ONE_WAY, World, is_script};
use crate::{
    engine::Subscriptions,
    wire::{Arg, Event, Flight, Invocation, Reply, ServerClock, Transport, WireError},
};

/// The way to the server, and what happens on it.
pub(super) struct Network {
    world: Arc<World>,
    subscriptions: Arc<Subscriptions>,
    /// Where the clock of this client, and that of the server, began.
    begun: (Instant, u64),
    /// What the client takes for the server's clock.
    clock: ServerClock,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    faults: Vec<(&'static str, Fault)>,
    /// Calls of this key never get there.
    cut_off: Option<String>,
    calls: usize,
    closed: bool,
    /// How many servers have taken the place of another, if that may happen.
    heirs: Option<u64>,
    /// How much longer messages take.
    messages_late_by: Arc<Mutex<Duration>>,
}

/// What happens to the next call of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It never gets there.
    LoseRequest,
    /// It never gets there either, and its sender waits for so long until it gives up.
    Silent(Duration),
    /// It runs, and nobody hears of it.
    LoseReply,
    /// It runs so much later than its sender hears that there is no answer.
    Linger(Duration),
    /// Its reply takes so much longer.
    SlowReply(Duration),
    /// It gets there so much later.
    SlowRequest(Duration),
}

impl Network {
    pub(super) fn new(world: &Arc<World>, subscriptions: Arc<Subscriptions>) -> Arc<Self> {
        let time: (u64, u64) = world.inspector.lock().unwrap().query(&redis::cmd("TIME"));
        let now = time.0 * 1000 + time.1 / 1000;
        Arc::new(Self {
            world: world.clone(),
            subscriptions,
            begun: (Instant::now(), now),
            clock: ServerClock::new(now),
            state: Mutex::default(),
        })
    }

    /// The next calls of the scripts whose names end so meet these faults, one each.
    pub(super) fn fail(&self, script: &'static str, faults: impl IntoIterator<Item = Fault>) {
        assert!(is_script(script), "there is no script {script}");
        self.state().faults.extend(faults.into_iter().map(|fault| (script, fault)));
    }

    /// The server of this key, and of no other, is away from now on.
    pub(super) fn cut_off(&self, key: Option<String>) {
        self.state().cut_off = key;
    }

    /// No faults any more.
    pub(super) fn heal(&self) {
        self.state().faults.clear();
    }

    /// Messages may have been missed; the connection is as it was.
    pub(super) fn miss(&self) {
        self.subscriptions.on_event(Event::Gap);
    }

    /// Messages to this client take so much longer from now on.
    pub(super) fn delay_messages(&self, by: Duration) {
        *self.state().messages_late_by.lock().unwrap() = by;
    }

    /// No message comes on the subscriptions that the client has now, and nobody notices.
    pub(super) fn lose_messages(&self) {
        self.forget(|_| true);
    }

    /// Another server may take the place of this one.
    pub(super) fn may_fail_over(&self) {
        self.state().heirs = Some(0);
    }

    /// Another server has taken the place of this one. What it does not know, the test says.
    pub(super) fn fail_over(&self) {
        if let Some(heirs) = &mut self.state().heirs {
            *heirs += 1;
        }
        self.miss();
    }

    /// How many scripts were sent.
    pub(super) fn calls(&self) -> usize {
        self.state().calls
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn now(&self) -> u64 {
        self.begun.1 + self.begun.0.elapsed().as_millis() as u64
    }

    fn fault(&self, call: &Invocation) -> Option<Fault> {
        let mut state = self.state();
        state.calls += 1;
        if state.cut_off.as_ref().is_some_and(|key| key.as_bytes() == call.key()) {
            return Some(Fault::LoseRequest);
        }
        let of_script = |(name, _): &(&str, Fault)| call.script.name.ends_with(name);
        let next = state.faults.iter().position(of_script)?;
        Some(state.faults.remove(next).1)
    }

    /// Ends this client's subscriptions to such channels.
    fn forget(&self, such: impl Fn(&str) -> bool) {
        self.world.listeners().retain(|listener| {
            !Arc::ptr_eq(&listener.client, &self.subscriptions) || !such(&listener.channel)
        });
    }

    /// Runs the script, here and now, and delivers what it published.
    pub(super) fn run(&self, call: &Invocation) -> Result<Reply, WireError> {
        let combined = call.script.name == "reentrant/combine";
        let not_after = match call.script.name {
            "plain/acquire" | "reentrant/acquire" | "reentrant/reenter" | "reentrant/pass"
            | "write/acquire" | "fair/force_unlock" => Some(3),
            "fenced/acquire" | "fenced/pass" | "read/acquire" | "read/reenter" => Some(4),
            "fair/acquire" => Some(5),
            "plain/force_unlock"
            | "reentrant/force_unlock"
            | "read/force_unlock"
            | "write/force_unlock" => Some(1),
            "counter/try_set" | "semaphore/acquire" | "semaphore/release" | "semaphore/drain" => {
                Some(4)
            }
            "latch/count_down" | "expirable/set_lease" => Some(3),
            "expirable/acquire" | "expirable/change" => Some(5),
            _ => None,
        };
        let mut command = redis::cmd("EVAL");
        command.arg(&*self.world.in_its_time(call.script)).arg(call.keys);
        for (i, arg) in call.args.iter().enumerate() {
            match arg {
                Arg::Int(limit)
                    if not_after == Some(i) || combined && (i - call.keys).is_multiple_of(3) =>
                {
                    command.arg(if self.now() > *limit { 0 } else { i64::MAX / 1000 })
                }
                Arg::Int(n) => command.arg(*n),
                Arg::Bytes(bytes) => command.arg(&bytes[..]),
                Arg::Publish => command.arg("publish"),
                Arg::Listening => command.arg("numsub"),
            };
        }
        let inspector = self.world.inspector.lock().unwrap();
        let reply = inspector.try_query(&command).map(convert);
        for listener in self.world.listeners().iter_mut() {
            for _ in listener.messages.so_far(&inspector) {
                let (client, channel) = (listener.client.clone(), listener.channel.clone());
                let late = *listener.late_by.lock().unwrap();
                tokio::spawn(async move {
                    sleep(ONE_WAY + late).await;
                    client.on_event(Event::Message(channel));
                });
            }
        }
        match reply.map_err(said)? {
            Reply::Array(answers) if combined => Ok(Reply::Array(
                answers.into_iter().map(|answer| self.in_our_time(answer)).collect(),
            )),
            reply if not_after.is_some() => Ok(self.in_our_time(reply)),
            reply => Ok(reply),
        }
    }

    /// "Too late": the time it tells is the real one.
    fn in_our_time(&self, reply: Reply) -> Reply {
        match reply {
            Reply::Array(answer) if answer.len() == 1 => {
                Reply::Array(vec![Reply::Int(self.now() as i64)])
            }
            reply => reply,
        }
    }
}

#[derive(Debug)]
pub(super) struct Link {
    pub(super) network: Arc<Network>,
}

impl std::fmt::Debug for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Network")
    }
}

impl Transport for Link {
    fn call(&self, call: Invocation) -> Flight {
        let network = self.network.clone();
        async move {
            let fault = network.fault(&call);
            let (answer, heard) = oneshot::channel();
            // A task of its own: once sent, it runs whoever still listens.
            tokio::spawn(async move {
                sleep(ONE_WAY).await;
                if let Some(Fault::SlowRequest(slow)) = fault {
                    sleep(slow).await;
                }
                match fault {
                    Some(Fault::LoseRequest) => return,
                    Some(Fault::Silent(time)) => return sleep(time).await,
                    Some(Fault::Linger(late)) => {
                        drop(answer);
                        sleep(late).await;
                        let _ = network.run(&call);
                        return;
                    }
                    Some(Fault::LoseReply | Fault::SlowReply(_) | Fault::SlowRequest(_)) | None => {
                    }
                }
                let reply = network.run(&call);
                sleep(ONE_WAY).await;
                if let Some(Fault::SlowReply(slow)) = fault {
                    sleep(slow).await;
                }
                if fault != Some(Fault::LoseReply) {
                    let _ = answer.send(reply);
                }
            });
            heard.await.unwrap_or_else(|_| Err(WireError::unanswered("lost by the test")))
        }
        .boxed()
    }

    fn call_by(&self, call: Invocation, by: Instant) -> Flight {
        let answer = timeout_at(by, self.call(call));
        let late = |_| Err(WireError::unanswered("no answer in time"));
        answer.map(move |answer| answer.unwrap_or_else(late)).boxed()
    }

    fn time_at(&self, _: &[u8], moment: Instant) -> u64 {
        self.network.clock.at(moment)
    }

    fn observe(&self, _: &[u8], now: u64) {
        self.network.clock.observe(now);
    }

    fn server_time(&self, _: &[u8]) -> BoxFuture<'static, Result<u64, WireError>> {
        let network = self.network.clone();
        async move {
            sleep(2 * ONE_WAY).await;
            network.clock.observe(network.now());
            Ok(network.now())
        }
        .boxed()
    }

    fn keep_time(&self) -> BoxFuture<'static, ()> {
        self.server_time(&[]).map(drop).boxed()
    }

    fn subscribe(&self, channels: Vec<String>) -> BoxFuture<'static, Result<(), WireError>> {
        let network = self.network.clone();
        async move {
            sleep(ONE_WAY).await;
            for channel in channels {
                if network.state().closed {
                    return Err(WireError::unanswered("closed"));
                }
                let messages = Messages::on(network.world.server.client(), &channel);
                let client = network.subscriptions.clone();
                let late_by = network.state().messages_late_by.clone();
                network.world.listeners().push(Listener { late_by, client, channel, messages });
            }
            sleep(ONE_WAY).await;
            Ok(())
        }
        .boxed()
    }

    fn unsubscribe(&self, channels: Vec<String>) -> BoxFuture<'static, Result<(), WireError>> {
        let network = self.network.clone();
        async move {
            sleep(ONE_WAY).await;
            network.forget(|channel| channels.iter().any(|other| other == channel));
            sleep(ONE_WAY).await;
            Ok(())
        }
        .boxed()
    }

    fn follows(&self) -> bool {
        self.network.state().heirs.is_some()
    }

    fn place(&self, _: &str) -> u64 {
        self.network.state().heirs.unwrap_or_default()
    }

    fn probe(&self, _: u64) -> BoxFuture<'static, Result<(), WireError>> {
        async { Ok(()) }.boxed()
    }

    fn quit(&self) -> BoxFuture<'static, ()> {
        let network = self.network.clone();
        async move {
            network.state().closed = true;
            network.forget(|_| true);
        }
        .boxed()
    }
}

/// The error as the server has written it.
fn said(error: redis::RedisError) -> WireError {
    let (code, rest) = (error.code().unwrap_or("ERR"), error.detail().unwrap_or_default());
    WireError::said(&format!("{code} {rest}"))
}

fn convert(value: redis::Value) -> Reply {
    match value {
        redis::Value::Nil => Reply::Nil,
        redis::Value::Int(n) => Reply::Int(n),
        redis::Value::BulkString(bytes) => Reply::Bytes(Bytes::from(bytes)),
        redis::Value::Array(values) => Reply::Array(values.into_iter().map(convert).collect()),
        other => panic!("no script of ours answers {other:?}"),
    }
}
