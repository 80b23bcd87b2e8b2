//! The server in process beside the real one: after each script both have answered, kept and published the same.
//!
//! Its clock is the virtual one, so our scripts run here as they ship. What has expired is deleted when the real server's is.

use std::collections::BTreeMap;

use harness::redis::{Cmd, Value};
use redis_in_process::{Channel, Reply, Server, Subscriber};

use super::Ms;
use super::invocation::{Arg, Invocation, server_ms};
use super::seen::{LOOK, Message, Seen, saw, spoken};

/// What the milliseconds that a real server takes come to on the virtual clock, at most.
const NOISE: f64 = 0.01;

pub(super) struct Mirror {
    server: Server,
    listens: Subscriber,
    look: String,
    watched: Vec<String>,
    /// Ours for the SHA-1 of the real server's.
    scripts: BTreeMap<String, String>,
    difference: Option<String>,
}

impl Mirror {
    pub(super) fn new(watched: &[String]) -> Self {
        let mut server = Server::new();
        let listens = server.connect();
        server.subscribe(listens, Channel::Pattern(b"*".to_vec()));
        let look = server.load(LOOK);
        Self {
            server,
            listens,
            look,
            watched: watched.to_vec(),
            scripts: BTreeMap::new(),
            difference: None,
        }
    }

    pub(super) fn difference(&self) -> Option<&str> {
        self.difference.as_deref()
    }

    pub(super) fn command(&mut self, command: &Cmd) {
        let words: Vec<Vec<u8>> = command.args_iter().filter_map(word).collect();
        self.server.command(&words);
    }

    /// Runs the script that the real server has run, and compares what came of it.
    pub(super) fn run(
        &mut self,
        invocation: &Invocation,
        now: Ms,
        answer: &Value,
        seen: &BTreeMap<String, Seen>,
        messages: &[Message],
    ) {
        self.server.set_now(server_ms(now.cast_signed()).unsigned_abs() * 1000);
        let script = &invocation.script;
        if !self.scripts.contains_key(script.sha()) {
            self.scripts.insert(script.sha().into(), self.server.load(script.text()));
        }
        let args: Vec<String> = invocation.args.iter().map(Arg::word).collect();
        let ours = self.server.eval_sha(&self.scripts[script.sha()], &invocation.keys, &args);
        let looked = self.server.eval_sha(&self.look, &[], &self.watched);
        let our_seen = saw(value(looked), now);
        let heard = self.server.take_messages(self.listens).into_iter();
        let heard: Vec<_> = heard.map(|heard| [heard.channel, heard.text].map(text)).collect();
        let published = messages.iter().map(|message| [&message.channel, &message.text]);
        let is_same = told(answer) == told_by_ours(&ours)
            && is_like(seen, &our_seen)
            && published.eq(heard.iter().map(|[channel, text]| [channel, text]));
        if !is_same && self.difference.is_none() {
            self.difference = Some(format!(
                "{} for {:?} {:?} at {now}\nthe real server: {} {seen:?} {messages:?}\nthe one in process: {} {our_seen:?} {heard:?}",
                script.text(),
                invocation.keys,
                invocation.args,
                told(answer),
                told_by_ours(&ours),
            ));
        }
    }
}

fn word(arg: harness::redis::Arg<&[u8]>) -> Option<Vec<u8>> {
    match arg {
        harness::redis::Arg::Simple(word) => Some(word.to_vec()),
        _ => None,
    }
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Of an error only the code: it tells the line, and before ours there stands one more.
fn told(answer: &Value) -> String {
    match answer {
        Value::ServerError(error) => error.code().into(),
        answer => spoken(answer),
    }
}

fn told_by_ours(answer: &Reply) -> String {
    match answer {
        Reply::Error(error) => error.split(' ').next().unwrap_or_default().into(),
        answer => spoken(&value(answer.clone())),
    }
}

fn value(reply: Reply) -> Value {
    match reply {
        Reply::Nil => Value::Nil,
        Reply::Int(number) => Value::Int(number),
        Reply::Bulk(bytes) => Value::BulkString(bytes),
        Reply::Status(status) => Value::SimpleString(text(status)),
        Reply::Error(error) => panic!("no script answers with {error} among others"),
        Reply::Array(items) => Value::Array(items.into_iter().map(value).collect()),
    }
}

fn is_like(real: &BTreeMap<String, Seen>, ours: &BTreeMap<String, Seen>) -> bool {
    let is_near = |(one, other): ((&String, &f64), (&String, &f64))| {
        one.0 == other.0 && (one.1 - other.1).abs() < NOISE
    };
    let is_alike = |((key, real), (other, ours)): ((&String, &Seen), (&String, &Seen))| {
        let without_moments = |seen: &Seen| Seen { moments: BTreeMap::new(), ..seen.clone() };
        key == other
            && without_moments(real) == without_moments(ours)
            && real.moments.len() == ours.moments.len()
            && real.moments.iter().zip(&ours.moments).all(is_near)
    };
    real.len() == ours.len() && real.iter().zip(ours).all(is_alike)
}
