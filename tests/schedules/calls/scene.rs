//! A server in process on which an example calls scripts, and how it writes down what it sees.

use std::fs;
use std::path::Path;

use redis_in_process::{Channel, Entry, Refusal, Reply, Server, Subscriber, Value};

use crate::model::Replacement;

/// When an example begins, in ms since the epoch. An example writes `@20` for 20 ms later. It is a multiple of 1023 times each step
/// of a fair line here, so that the mark of `@0` is 1.
const BEGINNING: u64 = 1_700_000_940_000;
/// The first holder id of this crate's waiters in a fair line. An example writes `#3` for the third after it.
const OURS: &str = "u:4611686018427387904";
const FIRST: u64 = 1 << 62;
/// Behind the whole ms: scripts round them down.
const MICROS: u64 = 999;

/// Refuses the commands of a script that name a key which is on another server.
const MOVING: &str = "
    local redis = setmetatable({}, {__index = redis})
    do
        local call, pcall = redis.call, redis.pcall
        local refused = {err = 'ERR Script attempted to access a non local key in a cluster node'}
        local function is_elsewhere(command, ...)
            local keys = (command == 'exists' or command == 'del') and select('#', ...) or 1
            for n = 1, keys do
                if select(n, ...) == 'KEY' then return keys >= LEAST and (MOVED or call('exists', 'KEY') == 0) end
            end
        end
        redis.call = function(...)
            if is_elsewhere(...) then error(refused) end
            return call(...)
        end
        redis.pcall = function(...)
            if is_elsewhere(...) then return refused end
            return pcall(...)
        end
    end
    ";

/// Redis 6.2, whose PEXPIRE has no options.
const REDIS_6_2: &str = "
    local redis = setmetatable({REDIS_VERSION_NUM = false}, {__index = redis})
    do
        local call = redis.call
        redis.call = function(command, ...)
            if command == 'pexpire' and select('#', ...) > 2 then
                error({err = 'ERR Wrong number of args calling Redis command from script'})
            end
            return call(command, ...)
        end
    end
    ";

/// Refuses a command of a script, as for a missing right.
const REFUSING: &str = "
    local redis = setmetatable({}, {__index = redis})
    do
        local call, pcall = redis.call, redis.pcall
        local refused = {err = 'NOPERM this user has no permissions'}
        local words = {COMMANDS}
        redis.call = function(command, ...)
            if words[command] then error(refused) end
            return call(command, ...)
        end
        redis.pcall = function(command, ...)
            if words[command] then return refused end
            return pcall(command, ...)
        end
    end
    ";

/// A server, and a listener to all its channels, whom PUBLISH counts.
pub(crate) struct Scene {
    server: Server,
    listener: Option<Subscriber>,
    replacement: Option<Replacement>,
    /// What stands before a script: what is different on this server.
    before: String,
}

/// The commands that a server refuses while a slot moves, because of a key that it does not have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Refuses {
    /// Where the slot moves from: all commands.
    Each,
    /// Where it moves to: those with several keys.
    WithOthers,
    /// Where the slot moves from, which does not have the key, or has it no longer: all commands.
    OnceGone,
}

impl Scene {
    pub(crate) fn new(replacement: Option<&Replacement>) -> Self {
        let mut server = Server::new();
        let listener = server.connect();
        server.subscribe(listener, Channel::Pattern(b"*".to_vec()));
        let listener = Some(listener);
        let mut scene =
            Self { server, listener, replacement: replacement.cloned(), before: String::new() };
        scene.at(0);
        scene
    }

    /// It is so many ms after the beginning.
    pub(crate) fn at(&mut self, ms: u64) {
        self.server.set_now((BEGINNING + ms) * 1000 + MICROS);
        self.server.sweep();
    }

    /// Calls a script with keys and arguments, a word each; `''` is an empty one. Its answer, as [`told`].
    pub(crate) fn call(&mut self, script: &str, keys: &str, args: &str) -> String {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("lua").join(script);
        let shipped = fs::read_to_string(file.with_extension("lua")).expect("a script");
        let replaced = self.replacement.as_ref().filter(|other| *other.shipped == *shipped);
        let text = replaced.map_or(&*shipped, |other| &other.text);
        let sha = self.server.load(&format!("{}{text}", self.before));
        told(&self.server.eval_sha(&sha, &words(keys), &words(args)))
    }

    /// The slot moves from now on, and this key is on the other server.
    pub(crate) fn is_elsewhere(&mut self, key: &str, refuses: Refuses) {
        let least = if refuses == Refuses::WithOthers { "2" } else { "1" };
        let moved = if refuses == Refuses::OnceGone { "false" } else { "true" };
        self.before = MOVING.replace("KEY", key).replace("LEAST", least).replace("MOVED", moved);
    }

    /// The server is one of Redis 6.2.
    pub(crate) fn is_old(&mut self) {
        self.before = REDIS_6_2.into();
    }

    /// Scripts may not use these commands from now on.
    pub(crate) fn refuses(&mut self, commands: &str) {
        let words: String = commands.split(' ').map(|word| format!("{word} = true, ")).collect();
        self.before = REFUSING.replace("COMMANDS", &words);
    }

    /// Scripts may use all commands.
    pub(crate) fn refuses_nothing(&mut self) {
        self.before.clear();
    }

    /// The server has no memory left from now on.
    pub(crate) fn is_full(&mut self) {
        self.server.refuse(Refusal::OutOfMemory);
    }

    /// Sends a command, and takes note of nothing.
    pub(crate) fn command(&mut self, line: &str) {
        if let Reply::Error(error) = self.server.command(&words(line)) {
            panic!("{line}: {error}");
        }
    }

    /// Nobody listens any more.
    pub(crate) fn is_deaf(&mut self) {
        let listener = self.listener.take().expect("a listener");
        self.server.disconnect(listener);
    }

    /// One connection more that listens to this channel.
    pub(crate) fn listen(&mut self, channel: &str) {
        let listener = self.server.connect();
        self.server.subscribe(listener, Channel::Plain(channel.into()));
    }

    /// What is in the key, and how long it stays there: `A=1 mode=read for 20`, or `none`.
    pub(crate) fn see(&self, key: &str) -> String {
        let Some(Entry { value, expires }) = self.server.look(key) else { return "none".into() };
        let content = match value {
            Value::String(text) => written(&text),
            Value::List(items) => joined(items.iter().map(|item| written(item))),
            Value::Hash(mut fields) => {
                fields.sort();
                joined(
                    fields
                        .iter()
                        .map(|(name, value)| format!("{}={}", written(name), written(value))),
                )
            }
            Value::SortedSet(members) => joined(
                members
                    .iter()
                    .map(|(member, score)| format!("{}={}", written(member), moment(*score))),
            ),
        };
        let now = self.server.now() / 1000;
        match expires {
            None => content,
            Some(expires) => format!("{content} for {}", expires.saturating_sub(now)),
        }
    }

    /// The messages since the last question: `channel text, channel text`.
    pub(crate) fn heard(&mut self) -> String {
        let messages = self.server.take_messages(self.listener.expect("a listener"));
        let messages: Vec<_> = messages
            .iter()
            .map(|message| format!("{} {}", written(&message.channel), written(&message.text)))
            .collect();
        messages.join(", ")
    }
}

/// The words of a line; `@20` is a moment, `-@20` minus that, `@20+3` one with a mark, `#3` a holder id, `''` nothing.
fn words(line: &str) -> Vec<String> {
    line.split_whitespace()
        .map(|word| if word == "''" { String::new() } else { word_of(word) })
        .collect()
}

fn word_of(word: &str) -> String {
    if let Some(n) = word.strip_prefix('#') {
        return format!("u:{}", FIRST + ms(n));
    }
    if let Some(moment) = word.strip_prefix('-').filter(|moment| moment.starts_with('@')) {
        return format!("-{}", word_of(moment));
    }
    match word.strip_prefix('@').map(|moment| moment.split_once('+').unwrap_or((moment, ""))) {
        None => word.into(),
        Some((whole, "")) => (BEGINNING + ms(whole)).to_string(),
        Some((whole, mark)) => {
            format!("{:.10}", (BEGINNING + ms(whole)) as f64 + ms(mark) as f64 / 1024.0)
        }
    }
}

fn ms(text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| panic!("{text} is no number"))
}

/// An answer: `nil`, `-2`, `{1, 7}`, a text; of an error its code.
fn told(reply: &Reply) -> String {
    match reply {
        Reply::Nil => "nil".into(),
        Reply::Int(number) if number.unsigned_abs() >= BEGINNING / 2 => moment(*number as f64),
        Reply::Int(number) => number.to_string(),
        Reply::Bulk(text) | Reply::Status(text) => format!("'{}'", written(text)),
        Reply::Error(error) => error.split(' ').next().unwrap_or_default().into(),
        Reply::Array(items) => {
            format!("{{{}}}", items.iter().map(told).collect::<Vec<_>>().join(", "))
        }
    }
}

/// A moment as an example writes it: ms after the beginning, and 1024ths.
fn moment(at: f64) -> String {
    if at < 0.0 {
        return format!("-{}", moment(-at));
    }
    let whole = at.floor();
    match ((at - whole) * 1024.0).round() {
        0.0 => format!("@{}", whole - BEGINNING as f64),
        parts => format!("@{}+{parts}", whole - BEGINNING as f64),
    }
}

/// A text of the server, with `#3` for a holder id.
fn written(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let named = text.find(&OURS[..OURS.len() - 3]).and_then(|at| {
        let (id, rest) = text[at + 2..].split_at_checked(OURS.len() - 2)?;
        Some(format!("{}#{}{rest}", &text[..at], ms(id).checked_sub(FIRST)?))
    });
    named.unwrap_or_else(|| text.into_owned())
}

fn joined(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(" ")
}
