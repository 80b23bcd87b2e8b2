//! [`SimServer`]: a server in process, on the virtual clock.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, Weak},
};

use judge::Taker;
use redis_in_process::{Entry, Refusal, Reply as Said, Server, Snapshot, Subscriber, Value};
use tokio::time::Instant;

use super::{
    register::{Cause, Clock, Mark, Register},
    trace::Trace,
};
use crate::{
    in_process,
    wire::{Invocation, Reply, WireError},
};

/// When all servers' clocks begin, in µs since the epoch.
const EPOCH: u64 = 1_700_000_000_000_000;

/// A connection for messages.
pub(super) trait Listener: Send + Sync {
    fn hear(self: Arc<Self>, subscriber: Subscriber, channel: String);
}

pub(super) struct SimServer {
    pub(super) name: usize,
    pub(super) trace: Arc<Trace>,
    begun: Instant,
    state: Mutex<State>,
}

struct State {
    redis: Server,
    /// By how much the clock was set, in µs.
    stepped: i64,
    up: bool,
    /// How often its process has ended.
    ends: u64,
    /// How many servers have taken its place.
    heirs: u64,
    replica: Replica,
    register: Register,
    listeners: BTreeMap<Subscriber, Weak<dyn Listener>>,
}

/// The one replica of a server.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Replica {
    Follows,
    /// It is connected, and hears nothing.
    Behind,
    /// Its master knows that it is not connected.
    Gone,
}

/// What a server had on its disk, or a replica in its memory.
pub(super) struct Saved {
    data: Snapshot,
    mark: Mark,
}

impl SimServer {
    pub(super) fn new(name: usize, trace: Arc<Trace>) -> Arc<Self> {
        let state = State {
            redis: Server::new(),
            stepped: 0,
            up: true,
            ends: 0,
            heirs: 0,
            replica: Replica::Follows,
            register: Register::new(format!("s{name}")),
            listeners: BTreeMap::new(),
        };
        Arc::new(Self { name, trace, begun: Instant::now(), state: Mutex::new(state) })
    }

    /// With the clock set to now.
    fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap();
        let elapsed = self.begun.elapsed().as_micros() as i64;
        let now = EPOCH as i64 + elapsed + state.stepped;
        state.redis.set_now(now as u64);
        state
    }

    /// The register, the server that it looks at, and its clock.
    fn witnessed(state: &mut State) -> (&mut Register, &Server, Clock) {
        let now = state.redis.now() as i64;
        let began = EPOCH as i64 + state.stepped;
        let clock = Clock { now: (now - began) as u64 * 1000, began };
        (&mut state.register, &state.redis, clock)
    }

    pub(super) fn logs(&self) -> Vec<judge::Log> {
        let mut state = self.state();
        Self::witnessed(&mut state).0.take()
    }

    /// In ms since the epoch.
    pub(super) fn now(&self) -> u64 {
        self.state().redis.now() / 1000
    }

    pub(super) fn is_up(&self) -> bool {
        self.state().up
    }

    pub(super) fn ends(&self) -> u64 {
        self.state().ends
    }

    pub(super) fn heirs(&self) -> u64 {
        self.state().heirs
    }

    /// TIME, in ms.
    pub(super) fn time(&self) -> Result<u64, WireError> {
        in_process::time(&mut self.state().redis)
    }

    /// Runs the script, here and now, and sends what it published on its way.
    pub(super) fn run(&self, who: &str, call: &Invocation) -> Result<Reply, WireError> {
        let words = in_process::words("eval", call.script.source.as_bytes(), call);
        let mut state = self.state();
        let said = state.redis.command(&words);
        let (keys, args) = words[3..].split_at(call.keys);
        let (register, redis, clock) = Self::witnessed(&mut state);
        let cause = Cause::Script { name: call.script.name, args };
        for lock in keys.iter().map(|key| lock_of(key)).collect::<BTreeSet<_>>() {
            register.look(redis, clock, lock, cause);
        }
        if self.trace.has_guard() {
            let text = |word: &Vec<u8>| String::from_utf8_lossy(word).into_owned();
            let args = words[3..].iter().map(text).collect::<Vec<_>>().join(" ");
            let (script, server) = (call.script.name, self.name);
            self.trace.note(format_args!("s{server} {who} {script} {args} -> {said:?}"));
        }
        self.deliver(&mut state);
        drop(state);
        in_process::reply(said)
    }

    fn deliver(&self, state: &mut State) {
        for subscriber in state.redis.subscribers_with_messages() {
            let messages = state.redis.take_messages(subscriber);
            let Some(link) = state.listeners.get(&subscriber).and_then(Weak::upgrade) else {
                continue;
            };
            for message in messages {
                link.clone().hear(subscriber, String::from_utf8(message.channel).unwrap());
            }
        }
    }

    // ---- Listeners

    pub(super) fn connect(&self, listener: Weak<dyn Listener>) -> Subscriber {
        let mut state = self.state();
        let subscriber = state.redis.connect();
        state.listeners.insert(subscriber, listener);
        subscriber
    }

    pub(super) fn disconnect(&self, subscriber: Subscriber) {
        let mut state = self.state();
        state.redis.disconnect(subscriber);
        state.listeners.remove(&subscriber);
    }

    pub(super) fn subscribe(&self, subscriber: Subscriber, channels: &[String], wanted: bool) {
        in_process::subscribe(&mut self.state().redis, subscriber, channels, wanted);
        let server = self.name;
        self.trace.note(format_args!("s{server} {subscriber:?} {wanted} {channels:?}"));
    }

    // ---- What goes wrong

    pub(super) fn save(&self) -> Saved {
        let mut state = self.state();
        let (register, redis, clock) = Self::witnessed(&mut state);
        let mark = register.mark(redis, clock);
        Saved { data: state.redis.snapshot(), mark }
    }

    /// The process ends.
    pub(super) fn stop(&self) {
        let mut state = self.state();
        state.up = false;
        state.ends += 1;
        state.listeners.clear();
    }

    /// The process is there again. With its data, unless `without`.
    pub(super) fn start(&self, without: bool) {
        let mut state = self.state();
        let kept = if without { Server::new().snapshot() } else { state.redis.snapshot() };
        state.redis.restart(&kept);
        let (register, redis, clock) = Self::witnessed(&mut state);
        register.look_at_all(redis, clock, Cause::Taken(Taker::Restart));
        state.up = true;
    }

    /// The process is there again, with these data. `as_heir`: as another server, which was the
    /// replica.
    pub(super) fn start_with(&self, saved: &Saved, as_heir: bool) {
        let mut state = self.state();
        let (register, redis, clock) = Self::witnessed(&mut state);
        register.step_down(redis, clock);
        state.redis.restart(&saved.data);
        let (register, redis, clock) = Self::witnessed(&mut state);
        register.take_over(redis, clock, &saved.mark, as_heir);
        state.up = true;
        state.heirs += u64::from(as_heir);
        state.replica = Replica::Follows;
    }

    pub(super) fn set_replica(&self, replica: Replica) {
        self.state().replica = replica;
    }

    pub(super) fn replica(&self) -> Replica {
        self.state().replica
    }

    pub(super) fn step_clock(&self, by_ms: i64) {
        let mut state = self.state();
        let (register, redis, clock) = Self::witnessed(&mut state);
        drop(register.mark(redis, clock));
        state.stepped += by_ms * 1000;
        drop(state);
        let mut state = self.state();
        // What has expired is gone, though the clock may be set back.
        state.redis.sweep();
        let (register, redis, clock) = Self::witnessed(&mut state);
        register.clock_was_set(redis, clock);
    }

    pub(super) fn refuse(&self, why: Refusal, begin: bool) {
        match begin {
            true => self.state().redis.refuse(why),
            false => self.state().redis.accept(why),
        }
    }

    pub(super) fn forget_scripts(&self) {
        self.state().redis.flush_scripts();
    }

    pub(super) fn evict(&self, key: &str) {
        let mut state = self.state();
        state.redis.evict(key);
        let (register, redis, clock) = Self::witnessed(&mut state);
        register.look(redis, clock, key, Cause::Taken(Taker::Eviction));
    }

    pub(super) fn flush(&self) {
        let mut state = self.state();
        state.redis.flush();
        let (register, redis, clock) = Self::witnessed(&mut state);
        register.look_at_all(redis, clock, Cause::Taken(Taker::Operator));
    }

    /// Keys and channels, but for the counters of fencing tokens, which stay.
    pub(super) fn left(&self) -> Vec<(String, String)> {
        let mut state = self.state();
        let mut left: Vec<_> = state
            .redis
            .look_at_all()
            .into_iter()
            .map(|(key, entry)| (String::from_utf8(key).unwrap(), entry))
            .filter(|(key, _)| !key.starts_with("redisson_lock_token:"))
            .map(|(key, entry)| (key.clone(), format!("s{} {key} {}", self.name, shown(&entry))))
            .collect();
        if let Said::Array(channels) = state.redis.command(&["pubsub", "channels"]) {
            let shown = |channel| (String::new(), format!("s{} {channel:?}", self.name));
            left.extend(channels.into_iter().map(shown));
        }
        left
    }
}

/// The lock that a key belongs to: all keys of one lock name it in braces, but the lock itself.
fn lock_of(key: &[u8]) -> &str {
    let key = std::str::from_utf8(key).expect("a name of the plan");
    let inner = key.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
    inner.map_or(key, |(lock, _)| lock)
}

/// With texts as texts.
fn shown(entry: &Entry) -> String {
    let text = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
    let parts: Vec<_> = match &entry.value {
        Value::String(bytes) => vec![text(bytes)],
        Value::List(items) => items.iter().map(text).collect(),
        Value::Hash(fields) => {
            fields.iter().map(|(field, value)| format!("{}={}", text(field), text(value))).collect()
        }
        Value::SortedSet(members) => {
            members.iter().map(|(member, score)| format!("{}@{score}", text(member))).collect()
        }
    };
    format!("{parts:?} until {:?}", entry.expires)
}
