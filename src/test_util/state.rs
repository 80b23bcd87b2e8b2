//! [`State`]: the data of a server in the process, and those who are connected to it.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use redis_in_process::{Executed, Message, Refusal, Reply as Said, Server, Subscriber};

use crate::{
    in_process,
    owner::HoldId,
    protocol::Protocol,
    wire::{Event, EventSink, Invocation, Reply, WireError},
};

/// A request that waits until the server runs on.
pub(super) type Job = Box<dyn FnOnce(&mut State) + Send>;

/// Gets the messages of one connection. It must not block, and must not use the host.
pub(super) type Listener = Arc<dyn Fn(&Message) + Send + Sync>;

/// Gets the commands that were executed, with the server time in µs. The same rules hold.
pub(super) type Monitor = Arc<dyn Fn(u64, &Executed) + Send + Sync>;

pub(super) struct State {
    pub(super) redis: Server,
    /// By how much the clock was set ahead, in µs.
    pub(super) ahead: u64,
    /// What came while it was stalled.
    pub(super) waiting: Vec<Job>,
    pub(super) stalled: bool,
    pub(super) refused: BTreeSet<Refusal>,
    pub(super) failing: VecDeque<Refusal>,
    pub(super) lost_replies: u32,
    lost_messages: u32,
    listeners: BTreeMap<Subscriber, Listener>,
    monitors: BTreeMap<u64, Monitor>,
    links: BTreeMap<u64, LinkEntry>,
    pub(super) strangers: BTreeMap<u64, Upkeep>,
    next: u64,
}

/// A client of this process.
pub(super) struct LinkEntry {
    sink: EventSink,
    /// `None`: its connection for messages is gone, and the next one is not made yet.
    subscriber: Option<Subscriber>,
}

/// A hold that is renewed.
pub(super) struct Upkeep {
    pub(super) protocol: Arc<dyn Protocol>,
    pub(super) id: HoldId,
    /// When it is renewed next, in µs.
    pub(super) due: u64,
}

impl State {
    pub(super) fn new() -> Self {
        let mut redis = Server::new();
        redis.answer_missing();
        Self {
            redis,
            ahead: 0,
            waiting: Vec::new(),
            stalled: false,
            refused: BTreeSet::new(),
            failing: VecDeque::new(),
            lost_replies: 0,
            lost_messages: 0,
            listeners: BTreeMap::new(),
            monitors: BTreeMap::new(),
            links: BTreeMap::new(),
            strangers: BTreeMap::new(),
            next: 0,
        }
    }

    // ---- Outages

    /// `with_data`: as when its disk is kept.
    pub(super) fn stop(&mut self, with_data: bool) {
        if !with_data {
            self.redis.flush();
        }
        let disk = self.redis.snapshot();
        self.redis.restart(&disk);
        self.stalled = false;
        self.refused.clear();
        self.failing.clear();
        self.waiting.clear();
        self.listeners.clear();
        self.monitors.clear();
        self.redis.record(false);
        for link in self.links.values_mut() {
            link.subscriber = None;
        }
    }

    /// Runs on after a stall.
    pub(super) fn resume(&mut self) {
        self.stalled = false;
        self.reconnect();
        for job in std::mem::take(&mut self.waiting) {
            job(self);
        }
    }

    pub(super) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    // ---- Commands

    /// Runs a command. `None`: its answer is lost.
    pub(super) fn execute(&mut self, words: &[Vec<u8>]) -> Option<Said> {
        let name = words.first().map(|name| name.to_ascii_lowercase()).unwrap_or_default();
        // Without arguments it is the question whether the server knows EVALSHA.
        if !matches!(&name[..], b"eval" | b"evalsha") || words.len() == 1 {
            return Some(self.redis.command(words));
        }
        self.failing.iter().for_each(|failure| self.redis.refuse(*failure));
        let said = self.redis.command(words);
        for failure in self.failing.iter().filter(|failure| !self.refused.contains(failure)) {
            self.redis.accept(*failure);
        }
        if let Said::Error(text) = &said {
            // One of those that concern it.
            let concerns = |failure: &Refusal| text.starts_with(failure.code());
            if let Some(first) = self.failing.iter().position(concerns) {
                self.failing.remove(first);
            }
        }
        // The client sends the script itself then.
        let is_known = !matches!(&said, Said::Error(text) if text.starts_with("NOSCRIPT"));
        if self.lost_replies > 0 && is_known {
            self.lost_replies -= 1;
            return None;
        }
        Some(said)
    }

    /// Runs a script of this crate. `None`: its answer is lost.
    pub(super) fn call(&mut self, call: &Invocation) -> Option<Result<Reply, WireError>> {
        let sha = call.script.sha();
        let is_known = std::str::from_utf8(&sha).is_ok_and(|sha| self.redis.has_script(sha));
        let words = match is_known {
            true => in_process::words("evalsha", &sha, call),
            false => in_process::words("eval", call.script.source.as_bytes(), call),
        };
        self.execute(&words).map(in_process::reply)
    }

    /// TIME, in ms.
    pub(super) fn time(&mut self) -> Result<u64, WireError> {
        in_process::time(&mut self.redis)
    }

    // ---- Connections

    /// Hands out what was published. A stalled server sends nothing.
    pub(super) fn deliver(&mut self) {
        let now = self.redis.now();
        for executed in self.redis.take_executed() {
            for monitor in self.monitors.values() {
                monitor(now, &executed);
            }
        }
        if self.stalled {
            return;
        }
        for subscriber in self.redis.subscribers_with_messages() {
            for message in self.redis.take_messages(subscriber) {
                if self.lost_messages > 0 {
                    self.lost_messages -= 1;
                } else if let Some(listener) = self.listeners.get(&subscriber) {
                    listener(&message);
                }
            }
        }
    }

    pub(super) fn listen(&mut self, listener: Listener) -> Subscriber {
        let subscriber = self.redis.connect();
        self.listeners.insert(subscriber, listener);
        subscriber
    }

    pub(super) fn hang_up(&mut self, subscriber: Subscriber) {
        self.redis.disconnect(subscriber);
        self.listeners.remove(&subscriber);
    }

    pub(super) fn monitor(&mut self, monitor: Monitor) -> u64 {
        let number = self.number();
        self.monitors.insert(number, monitor);
        self.redis.record(true);
        number
    }

    pub(super) fn end_monitor(&mut self, number: u64) {
        self.monitors.remove(&number);
        self.redis.record(!self.monitors.is_empty());
    }

    /// Adds a client of this process.
    pub(super) fn link(&mut self, sink: EventSink, is_up: bool) -> u64 {
        let number = self.number();
        self.links.insert(number, LinkEntry { sink, subscriber: None });
        if is_up {
            self.connect(number);
        }
        number
    }

    pub(super) fn unlink(&mut self, number: u64) {
        self.hang_up_link(number);
        self.links.remove(&number);
    }

    fn connect(&mut self, number: u64) {
        let Some(link) = self.links.get(&number) else { return };
        let sink = link.sink.clone();
        let subscriber = self.listen(Arc::new(move |message| {
            sink(Event::Message(String::from_utf8_lossy(&message.channel).into_owned()));
        }));
        if let Some(link) = self.links.get_mut(&number) {
            link.subscriber = Some(subscriber);
        }
    }

    /// Connects those whose connection for messages is gone, and tells them.
    pub(super) fn reconnect(&mut self) {
        let gone = self.links.iter().filter(|(_, link)| link.subscriber.is_none());
        for number in gone.map(|(number, _)| *number).collect::<Vec<_>>() {
            self.connect(number);
            (self.links[&number].sink)(Event::Gap);
        }
    }

    /// Ends a client's connection for messages.
    pub(super) fn hang_up_link(&mut self, number: u64) {
        let link = self.links.get_mut(&number);
        if let Some(subscriber) = link.and_then(|link| link.subscriber.take()) {
            self.hang_up(subscriber);
        }
    }

    pub(super) fn subscribe(&mut self, number: u64, channels: &[String], wanted: bool) {
        let subscriber = self.links.get(&number).and_then(|link| link.subscriber);
        if let Some(subscriber) = subscriber {
            in_process::subscribe(&mut self.redis, subscriber, channels, wanted);
        }
    }

    /// The channels to which somebody listens.
    pub(super) fn channels(&mut self) -> Vec<String> {
        match self.redis.command(&["pubsub", "channels"]) {
            Said::Array(channels) => channels.iter().filter_map(text).collect(),
            _ => Vec::new(),
        }
    }

    pub(super) fn subscribers(&mut self, channel: &str) -> usize {
        match self.redis.command(&["pubsub", "numsub", channel]) {
            Said::Array(pair) => match pair.last() {
                Some(Said::Int(count)) => *count as usize,
                _ => 0,
            },
            _ => 0,
        }
    }

    // ---- What goes wrong

    pub(super) fn refuse(&mut self, why: Refusal) {
        self.refused.insert(why);
        self.redis.refuse(why);
    }

    pub(super) fn accept_all(&mut self) {
        self.refused.clear();
        self.failing.clear();
        self.redis.accept_all();
    }

    pub(super) fn fail_next(&mut self, why: Refusal) {
        self.failing.push_back(why);
    }

    pub(super) fn lose_replies(&mut self, count: u32) {
        self.lost_replies = self.lost_replies.saturating_add(count);
    }

    pub(super) fn lose_messages(&mut self, count: u32) {
        self.lost_messages = self.lost_messages.saturating_add(count);
    }
}

fn text(said: &Said) -> Option<String> {
    match said {
        Said::Bulk(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        _ => None,
    }
}
