//! A real Redis on a virtual clock.
//!
//! One virtual millisecond is [`REAL_MS_PER_MS`] real ones on the server, so that the real time of a schedule has no effect. When
//! the virtual clock has moved, the TTLs are set again before the next script runs: it compares and keeps the true remaining time.
//! A key whose time is over is deleted. A script of this crate is loaded with a line before it that makes TIME answer what the last
//! argument says, so that deadlines in server time are virtual too. Messages are real: the connection listens to every channel.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, channel};

use harness::RedisServer;
use harness::redis::{self, ConnectionLike, Value, cmd, from_redis_value, pipe};

use super::Ms;

pub(crate) const REAL_MS_PER_MS: u64 = 1_000_000;
/// Server time, in real ms, when the virtual clock is at 0.
pub(crate) const EPOCH_MS: i64 = 1_000_000_000_000;
const FAR_FUTURE: i64 = (1 << 53) - 1;

/// What stands before a script of ours: TIME is what the last argument says, in ms.
const VIRTUAL_TIME: &str = "
    local redis = setmetatable({}, {__index = redis})
    do
        local call, ms = redis.call, tonumber(ARGV[#ARGV])
        redis.call = function(command, ...)
            if command ~= 'time' then return call(command, ...) end
            return {string.format('%d', ms / 1000), string.format('%d', ms % 1000 * 1000)}
        end
    end
    ";

/// A script the server has loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Script {
    sha: String,
    /// Whether it takes the time as its last argument.
    timed: bool,
}

impl Script {
    /// One that a client of another sort has loaded: its time is what its arguments say.
    pub(crate) fn of_others(sha: String) -> Self {
        Self { sha, timed: false }
    }

    pub(crate) fn sha(&self) -> &str {
        &self.sha
    }
}

/// An argument of a script; times are virtual.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Arg {
    Text(String),
    /// A lease: so long from now.
    Lease(Ms),
    /// Server time past which the copy does nothing.
    NotAfter(Ms),
    /// What a client's clock says.
    Clock(i64),
}

/// A word as an argument.
pub(crate) fn text(value: impl ToString) -> Arg {
    Arg::Text(value.to_string())
}

/// A script with its keys and arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Invocation {
    pub(crate) script: Script,
    pub(crate) keys: Vec<String>,
    pub(crate) args: Vec<Arg>,
}

/// All keys that match the patterns: the name, the TTL, the type, and what is in it.
const LOOK: &str = "
    local read = {
        string = function(key) return redis.call('get', key) end,
        hash = function(key) return redis.call('hgetall', key) end,
        list = function(key) return redis.call('lrange', key, 0, -1) end,
        zset = function(key) return redis.call('zrange', key, 0, -1, 'withscores') end,
    }
    local seen = {}
    for _, pattern in ipairs(ARGV) do
        for _, key in ipairs(redis.call('keys', pattern)) do
            local type = redis.call('type', key).ok
            table.insert(seen, {key, redis.call('pttl', key), type, read[type](key)})
        end
    end
    return seen";

/// A watched key, as the server showed it last.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Seen {
    /// When it expires; `None` is never.
    pub(crate) until: Option<Ms>,
    /// A string.
    pub(crate) text: String,
    /// The fields of a hash.
    pub(crate) fields: BTreeMap<String, String>,
    /// The items of a list.
    pub(crate) items: Vec<String>,
    /// The members of a sorted set, each with its score as a moment on the virtual clock.
    pub(crate) moments: BTreeMap<String, f64>,
}

/// A message that somebody published.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) channel: String,
    pub(crate) text: String,
}

/// A connection to a server on a virtual clock, and what was seen there last.
pub(crate) struct Server {
    connection: redis::Connection,
    /// Patterns of names.
    watched: Vec<String>,
    look: String,
    seen: BTreeMap<String, Seen>,
    pushed: Receiver<redis::PushInfo>,
    messages: Vec<Message>,
    now: Ms,
    moved: bool,
}

impl Server {
    /// Watches the keys that match these patterns; they are the ones whose time is virtual.
    pub(crate) fn new(redis: &RedisServer, watched: &[&str]) -> Self {
        let url = format!("{}?protocol=resp3", redis.unix_url());
        let client = redis::Client::open(url).expect("the server's address");
        let mut connection = client.get_connection().expect("a connection");
        let (sender, pushed) = channel();
        connection.set_push_sender(sender);
        connection.psubscribe_resp3("*").expect("to listen");
        let sha: String = cmd("SCRIPT")
            .arg("LOAD")
            .arg(LOOK)
            .query(&mut connection)
            .expect("the server takes the script");
        Self {
            connection,
            watched: watched.iter().map(|pattern| pattern.to_string()).collect(),
            look: sha,
            seen: BTreeMap::new(),
            pushed,
            messages: Vec::new(),
            now: 0,
            moved: false,
        }
    }

    /// Starts another schedule: the clock at 0 and no key.
    pub(crate) fn reset(&mut self) {
        self.now = 0;
        self.seen.clear();
        self.command(&cmd("FLUSHDB"));
    }

    /// Loads a script of ours.
    pub(crate) fn load(&mut self, text: &str) -> Script {
        let text = format!("{VIRTUAL_TIME}{text}");
        let sha = self.command(cmd("SCRIPT").arg("LOAD").arg(text));
        Script { sha: from_redis_value(sha).expect("a script's sha"), timed: true }
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
        self.moved |= to > self.now;
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

    /// Runs a script, and looks at the watched keys, in one round trip. WRONGTYPE is an answer; another error is a mistake.
    pub(crate) fn run(&mut self, invocation: &Invocation) -> Value {
        let mut batch = pipe();
        let mut prepared = 0;
        if std::mem::take(&mut self.moved) {
            for (key, seen) in &self.seen {
                if let Some(until) = seen.until {
                    batch.cmd("PEXPIRE").arg(key).arg((until - self.now) * REAL_MS_PER_MS);
                    prepared += 1;
                }
            }
        }
        batch
            .cmd("EVALSHA")
            .arg(&invocation.script.sha)
            .arg(invocation.keys.len())
            .arg(&invocation.keys);
        for arg in &invocation.args {
            match arg {
                Arg::Text(text) => batch.arg(text),
                Arg::Lease(lease) => batch.arg(lease * REAL_MS_PER_MS),
                Arg::NotAfter(time) => {
                    batch.arg(i64::try_from(*time).map_or(FAR_FUTURE, server_ms))
                }
                Arg::Clock(time) => batch.arg(server_ms(*time)),
            };
        }
        if invocation.script.timed {
            batch.arg(server_ms(self.now.cast_signed()));
        }
        batch.cmd("EVALSHA").arg(&self.look).arg(0).arg(&self.watched);
        let answers = self
            .connection
            .req_packed_commands(&batch.get_packed_pipeline(), prepared, 2)
            .expect("the server answers");
        let [answer, looked] = answers.try_into().expect("two answers");
        if let Value::ServerError(error) = &answer {
            assert_eq!(error.code(), "WRONGTYPE", "{error:?}");
        }
        self.seen = saw(looked, self.now);
        self.messages = self.pushed.try_iter().filter_map(message).collect();
        answer
    }

    /// Any other command, outside the virtual clock.
    pub(crate) fn command(&mut self, command: &redis::Cmd) -> Value {
        command.query(&mut self.connection).expect("the server takes the command")
    }

    /// The keys there are, of whatever owner.
    pub(crate) fn keys(&mut self) -> Vec<String> {
        from_redis_value(self.command(cmd("KEYS").arg("*"))).expect("names of keys")
    }
}

fn server_ms(time: i64) -> i64 {
    time.saturating_mul(REAL_MS_PER_MS.cast_signed()).saturating_add(EPOCH_MS).min(FAR_FUTURE)
}

fn saw(looked: Value, now: Ms) -> BTreeMap<String, Seen> {
    let looked: Vec<(String, i64, String, Value)> = from_redis_value(looked).expect("keys");
    let seen = looked.into_iter().map(|(key, ttl, sort, content)| {
        let until = virtual_ms(ttl).map(|time| now + time);
        let mut seen = Seen { until, ..Seen::default() };
        match sort.as_str() {
            "string" => seen.text = from_redis_value(content).expect("a string"),
            "hash" => seen.fields = from_redis_value(content).expect("fields and values"),
            "list" => seen.items = from_redis_value(content).expect("items"),
            _ => {
                let scores: BTreeMap<String, f64> = from_redis_value(content).expect("scores");
                let moment = |score: f64| (score - EPOCH_MS as f64) / REAL_MS_PER_MS as f64;
                seen.moments =
                    scores.into_iter().map(|(member, score)| (member, moment(score))).collect();
            }
        }
        (key, seen)
    });
    seen.collect()
}

/// A message that was pushed: its pattern, its channel, its text.
fn message(pushed: redis::PushInfo) -> Option<Message> {
    let word = |n: usize| from_redis_value(pushed.data[n].clone()).expect("a word");
    (pushed.kind == redis::PushKind::PMessage).then(|| Message { channel: word(1), text: word(2) })
}

/// A time that a script has answered; `None` when it is negative.
pub(crate) fn virtual_ms(answered: i64) -> Option<Ms> {
    u64::try_from(answered).ok().map(|real| real.div_ceil(REAL_MS_PER_MS))
}

/// An answer for a reader, in virtual time.
pub(super) fn spoken(answer: &Value) -> String {
    match answer {
        Value::Nil => "nil".into(),
        Value::Int(EPOCH_MS..) => "now".into(),
        Value::Int(ttl) if ttl.unsigned_abs() >= REAL_MS_PER_MS / 2 => {
            format!("{} ms", ttl.unsigned_abs().div_ceil(REAL_MS_PER_MS))
        }
        Value::Int(number) => number.to_string(),
        Value::Array(parts) => {
            format!("{{{}}}", parts.iter().map(spoken).collect::<Vec<_>>().join(", "))
        }
        other => format!("{other:?}"),
    }
}
