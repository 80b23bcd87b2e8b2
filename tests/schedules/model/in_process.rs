//! The server in process: it runs the scripts as they ship, or another in the place of one of them.
//!
//! Its clock is the virtual one. What has expired is deleted when the simulation says so.

use std::collections::BTreeMap;
use std::sync::Arc;

use harness::LOOK;
use harness::redis::{Cmd, Value, parse_redis_value};
use redis_in_process::{Channel, Reply, Server, Subscriber};

use super::Ms;
use super::invocation::{Arg, Invocation, Script, server_ms};
use super::seen::{Message, Outcome, saw};

/// A script that runs in the place of another.
#[derive(Debug, Clone)]
pub(crate) struct Replacement {
    pub(crate) shipped: Arc<str>,
    pub(crate) text: Arc<str>,
}

pub(super) struct InProcess {
    server: Server,
    listens: Subscriber,
    look: String,
    watched: Vec<String>,
    replacement: Option<Replacement>,
    has_run_replacement: bool,
    /// Ours for the SHA-1 by which the model knows a script.
    scripts: BTreeMap<String, String>,
}

impl InProcess {
    pub(super) fn new(watched: &[String], replacement: Option<Replacement>) -> Self {
        let mut server = Server::new();
        let listens = server.connect();
        server.subscribe(listens, Channel::Pattern(b"*".to_vec()));
        let look = server.load(LOOK);
        Self {
            server,
            listens,
            look,
            watched: watched.to_vec(),
            replacement,
            has_run_replacement: false,
            scripts: BTreeMap::new(),
        }
    }

    /// Whether a script was called that another stands in for.
    pub(super) fn has_run_replacement(&self) -> bool {
        self.has_run_replacement
    }

    pub(super) fn load(&mut self, text: &str) -> Script {
        Script { sha: self.server.load(text), text: text.into(), timed: true }
    }

    pub(super) fn command(&mut self, command: &Cmd) -> Value {
        let words: Vec<Vec<u8>> = command.args_iter().filter_map(word).collect();
        value(self.server.command(&words))
    }

    /// Runs the script, and looks at the watched keys.
    pub(super) fn run(&mut self, invocation: &Invocation, now: Ms) -> Outcome {
        self.server.set_now(server_ms(now.cast_signed()).unsigned_abs() * 1000);
        let sha = self.prepare(&invocation.script);
        let args: Vec<String> = invocation.args.iter().map(Arg::word).collect();
        let answer = value(self.server.eval_sha(&sha, &invocation.keys, &args));
        let looked = self.server.eval_sha(&self.look, &[], &self.watched);
        let heard = self.server.take_messages(self.listens).into_iter();
        let messages = heard
            .map(|heard| Message { channel: text(heard.channel), text: text(heard.text) })
            .collect();
        Outcome { answer, seen: saw(value(looked), now), messages }
    }

    fn prepare(&mut self, script: &Script) -> String {
        let replaced = self.replacement.as_ref().filter(|other| other.shipped == script.text);
        self.has_run_replacement |= replaced.is_some();
        if let Some(sha) = self.scripts.get(script.sha()) {
            return sha.clone();
        }
        let sha = self.server.load(replaced.map_or(script.text(), |other| &other.text));
        self.scripts.insert(script.sha().into(), sha.clone());
        sha
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

fn value(reply: Reply) -> Value {
    match reply {
        Reply::Nil => Value::Nil,
        Reply::Int(number) => Value::Int(number),
        Reply::Bulk(bytes) => Value::BulkString(bytes),
        Reply::Status(status) => Value::SimpleString(text(status)),
        Reply::Error(error) => parse_redis_value(format!("-{error}\r\n").as_bytes())
            .expect("an error is one line of the protocol"),
        Reply::Array(items) => Value::Array(items.into_iter().map(value).collect()),
    }
}
