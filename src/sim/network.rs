//! The simulated network: its delays, and what it loses.

mod link;

use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use bytes::Bytes;
use harness::redis;
use tokio::time::{Instant, sleep};

pub(super) use self::link::Link;
use super::world::{ONE_WAY, World, is_script};
use crate::{
    engine::Subscriptions,
    wire::{Arg, Event, Invocation, Reply, ServerClock, WireError},
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
    /// By how much the server's clock was set back.
    behind: Duration,
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

    /// The server's clock is set back. TTLs do not run here, and stay as they are.
    pub(super) fn set_clock_back(&self, by: Duration) {
        self.state().behind += by;
    }

    /// The server's clock is set forward, by no more than it was set back before.
    pub(super) fn set_clock_forward(&self, by: Duration) {
        self.state().behind -= by;
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
        let behind = self.state().behind.as_millis() as u64;
        self.begun.1 + self.begun.0.elapsed().as_millis() as u64 - behind
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
            "plain/acquire" | "reentrant/acquire" | "reentrant/reenter" | "reentrant/swap"
            | "write/acquire" | "fair/force_unlock" => Some(3),
            "fenced/acquire" | "fenced/swap" | "read/acquire" | "read/reenter" => Some(4),
            "fair/acquire" => Some(5),
            "plain/force_unlock"
            | "reentrant/force_unlock"
            | "read/force_unlock"
            | "write/force_unlock" => Some(1),
            "counter/try_set" => Some(call.keys + 2),
            "semaphore/acquire" | "semaphore/release" | "semaphore/drain" => Some(4),
            "latch/count_down" | "expirable/set_lease" => Some(3),
            "reentrant/combine" => Some(call.keys + 3),
            "expirable/acquire" | "expirable/change" => Some(5),
            _ => None,
        };
        let mut command = redis::cmd("EVAL");
        command.arg(&*self.world.in_its_time(call.script)).arg(call.keys);
        for (i, arg) in call.args.iter().enumerate() {
            match arg {
                Arg::Int(limit) if not_after == Some(i) => {
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

impl std::fmt::Debug for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Network")
    }
}

/// The error as the server has written it.
fn said(error: redis::RedisError) -> WireError {
    let (code, rest) = (error.code().unwrap_or("ERR"), error.detail().unwrap_or_default());
    WireError::from_server(&format!("{code} {rest}"))
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
