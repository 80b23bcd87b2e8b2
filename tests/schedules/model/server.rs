//! The server of a schedule, on a virtual clock: a real Redis, or one in process, or both.

use std::collections::BTreeMap;

use harness::RedisServer;
use harness::redis::{self, Value, cmd, from_redis_value};

use super::Ms;
use super::in_process::{InProcess, Replacement};
use super::invocation::{Invocation, Script};
use super::mirror::difference;
use super::real::Real;
use super::seen::{Message, Outcome, Seen};

/// A server, and what was seen there last.
pub(crate) struct Server {
    /// At least one of the two.
    real: Option<Real>,
    in_process: Option<InProcess>,
    /// Patterns of names.
    watched: Vec<String>,
    /// How the two differed first.
    difference: Option<String>,
    seen: BTreeMap<String, Seen>,
    messages: Vec<Message>,
    now: Ms,
}

impl Server {
    /// Watches the keys that match these patterns; they are the ones whose time is virtual.
    pub(crate) fn new(redis: &RedisServer, watched: &[&str]) -> Self {
        let mut server = Self::watching(watched);
        server.real = Some(Real::new(redis, &server.watched));
        server
    }

    /// Without a real one.
    pub(crate) fn in_process(watched: &[&str], replacement: Option<Replacement>) -> Self {
        let mut server = Self::watching(watched);
        server.in_process = Some(InProcess::new(&server.watched, replacement));
        server
    }

    fn watching(watched: &[&str]) -> Self {
        Self {
            real: None,
            in_process: None,
            watched: watched.iter().map(|pattern| pattern.to_string()).collect(),
            difference: None,
            seen: BTreeMap::new(),
            messages: Vec::new(),
            now: 0,
        }
    }

    /// From now on does all on a server in process, too, and compares. It is to be empty.
    pub(crate) fn mirror(&mut self) {
        self.in_process = Some(InProcess::new(&self.watched, None));
    }

    /// What the server in process did otherwise first.
    pub(crate) fn difference(&self) -> Option<&str> {
        self.difference.as_deref()
    }

    /// Whether a script was called that another stands in for.
    pub(crate) fn has_run_replacement(&self) -> bool {
        self.in_process.as_ref().is_some_and(InProcess::has_run_replacement)
    }

    /// Starts another schedule: the clock at 0 and no key.
    pub(crate) fn reset(&mut self) {
        self.now = 0;
        self.seen.clear();
        self.command(&cmd("FLUSHDB"));
        if let Some(real) = &self.real {
            real.forget_messages();
        }
    }

    /// Loads a script of ours.
    pub(crate) fn load(&mut self, text: &str) -> Script {
        match (&mut self.real, &mut self.in_process) {
            (Some(real), _) => real.load(text),
            (None, server) => server.as_mut().expect("a server").load(text),
        }
    }

    pub(crate) fn now(&self) -> Ms {
        self.now
    }

    /// The key as it was after the last script, or `None` when it was absent or has expired since.
    pub(crate) fn seen(&self, key: &str) -> Option<&Seen> {
        self.seen.get(key)
    }

    /// All watched keys there are, as they were after the last script.
    pub(crate) fn all_seen(&self) -> impl Iterator<Item = (&str, &Seen)> {
        self.seen.iter().map(|(key, seen)| (key.as_str(), seen))
    }

    /// What the last script published.
    pub(crate) fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// When the next key expires.
    pub(crate) fn next_expiry(&self) -> Option<Ms> {
        self.seen.values().filter_map(|seen| seen.until).min()
    }

    /// Moves the clock on, and answers with the keys that expire.
    pub(crate) fn advance(&mut self, to: Ms) -> Vec<String> {
        assert!(to >= self.now, "time does not go back");
        if to > self.now
            && let Some(real) = &mut self.real
        {
            real.time_passes();
        }
        self.now = to;
        let is_over = |seen: &Seen| seen.until.is_some_and(|until| until <= to);
        let over: Vec<String> = self
            .seen
            .iter()
            .filter(|(_, seen)| is_over(seen))
            .map(|(key, _)| key.clone())
            .collect();
        for key in &over {
            self.command(cmd("DEL").arg(key));
            self.seen.remove(key);
        }
        over
    }

    /// Runs a script. WRONGTYPE is an answer; another error is a mistake.
    pub(crate) fn run(&mut self, invocation: &Invocation) -> Value {
        let (now, seen) = (self.now, &self.seen);
        let real = self.real.as_mut().map(|server| server.run(invocation, now, seen));
        let ours = self.in_process.as_mut().map(|server| server.run(invocation, now));
        if let (Some(real), Some(ours), None) = (&real, &ours, &self.difference) {
            self.difference = difference(invocation, now, real, ours);
        }
        let Outcome { answer, seen, messages } = real.or(ours).expect("a server");
        if let Value::ServerError(error) = &answer {
            assert_eq!(error.code(), "WRONGTYPE", "{error:?}");
        }
        (self.seen, self.messages) = (seen, messages);
        answer
    }

    /// Any other command, outside the virtual clock.
    pub(crate) fn command(&mut self, command: &redis::Cmd) -> Value {
        let ours = self.in_process.as_mut().map(|server| server.command(command));
        let real = self.real.as_mut().map(|server| server.command(command));
        real.or(ours).expect("a server")
    }

    /// The keys there are, of whatever owner.
    pub(crate) fn keys(&mut self) -> Vec<String> {
        from_redis_value(self.command(cmd("KEYS").arg("*"))).expect("names of keys")
    }
}
