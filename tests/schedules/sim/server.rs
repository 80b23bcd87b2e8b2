//! A real Redis on a virtual clock.
//!
//! One virtual millisecond is [`REAL_MS_PER_MS`] real ones on the server, so that no real time that a schedule takes is ever seen.
//! When the virtual clock has moved, the TTLs are set anew before the next script runs: it compares and keeps the true remaining
//! time. A key whose time is up is deleted. Server time is not faked but translated: a not-after is sent as the past or as the
//! far future, by whether the copy comes late, so the script's own check decides.

use std::collections::BTreeMap;

use harness::redis::{self, ConnectionLike, Value, cmd, from_redis_value, pipe};

use super::Ms;

const REAL_MS_PER_MS: u64 = 1_000_000;
const LONG_AGO: u64 = 0;
const FAR_FUTURE: u64 = (1 << 53) - 1;

/// A script the server has loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Script(pub(crate) String);

/// An argument of a script; times are virtual.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Arg {
    Text(String),
    /// A lease: so long from now.
    Lease(Ms),
    /// Server time past which the copy does nothing.
    NotAfter(Ms),
}

/// A script with its keys and arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Invocation {
    pub(crate) script: Script,
    pub(crate) keys: Vec<String>,
    pub(crate) args: Vec<Arg>,
}

/// All keys that match the patterns, each with its TTL and what it keeps. A kind with keys of other types adds them here.
const LOOK: &str = "
    local seen = {}
    for _, pattern in ipairs(ARGV) do
        for _, key in ipairs(redis.call('keys', pattern)) do
            local type = redis.call('type', key).ok
            local fields = type == 'hash' and redis.call('hgetall', key) or {}
            local text = type == 'string' and redis.call('get', key) or ''
            table.insert(seen, {key, redis.call('pttl', key), fields, text})
        end
    end
    return seen";

/// A watched key, as the server showed it last: a hash or a string.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    /// When it expires; `None` is never.
    pub(crate) until: Option<Ms>,
    /// The fields of the hash.
    pub(crate) fields: BTreeMap<String, String>,
    /// The string.
    pub(crate) text: String,
}

/// A connection to a server on a virtual clock, and what was seen there last.
pub(crate) struct Server {
    connection: redis::Connection,
    watched: Vec<String>,
    look: Script,
    seen: BTreeMap<String, Seen>,
    now: Ms,
    moved: bool,
}

impl Server {
    /// Watches the keys that match these patterns; they are the ones whose time is virtual.
    pub(crate) fn new(connection: redis::Connection, watched: &[&str]) -> Self {
        let watched = watched.iter().map(|pattern| pattern.to_string()).collect();
        let look = Script(String::new());
        let mut server =
            Self { connection, watched, look, seen: BTreeMap::new(), now: 0, moved: false };
        server.look = server.load(LOOK);
        server
    }

    /// Starts another schedule: the clock at 0 and no key.
    pub(crate) fn reset(&mut self) {
        self.now = 0;
        self.seen.clear();
        self.command(&cmd("FLUSHDB"));
    }

    pub(crate) fn load(&mut self, text: &str) -> Script {
        Script(
            from_redis_value(self.command(cmd("SCRIPT").arg("LOAD").arg(text)))
                .expect("a script's sha"),
        )
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

    /// Takes a key away: what it kept.
    pub(crate) fn take(&mut self, key: &str) -> Option<Seen> {
        let seen = self.seen.remove(key)?;
        self.command(cmd("DEL").arg(key));
        Some(seen)
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
        let mut ignored = 0;
        if std::mem::take(&mut self.moved) {
            for (key, seen) in &self.seen {
                if let Some(until) = seen.until {
                    batch.cmd("PEXPIRE").arg(key).arg((until - self.now) * REAL_MS_PER_MS);
                    ignored += 1;
                }
            }
        }
        batch
            .cmd("EVALSHA")
            .arg(&invocation.script.0)
            .arg(invocation.keys.len())
            .arg(&invocation.keys);
        for arg in &invocation.args {
            match arg {
                Arg::Text(text) => batch.arg(text),
                Arg::Lease(lease) => batch.arg(lease * REAL_MS_PER_MS),
                Arg::NotAfter(time) => {
                    batch.arg(if self.now > *time { LONG_AGO } else { FAR_FUTURE })
                }
            };
        }
        batch.cmd("EVALSHA").arg(&self.look.0).arg(0).arg(&self.watched);
        let answers = self
            .connection
            .req_packed_commands(&batch.get_packed_pipeline(), ignored, 2)
            .expect("the server answers");
        let [answer, looked] = answers.try_into().expect("two answers");
        if let Value::ServerError(error) = &answer {
            assert_eq!(error.code(), "WRONGTYPE", "{error:?}");
        }
        self.seen = self.saw(looked);
        answer
    }

    fn saw(&self, looked: Value) -> BTreeMap<String, Seen> {
        type Looked = Vec<(String, i64, BTreeMap<String, String>, String)>;
        let looked: Looked = from_redis_value(looked).expect("keys");
        let seen = looked.into_iter().map(|(key, ttl, fields, text)| {
            let until = (ttl >= 0).then(|| self.now + ttl.cast_unsigned().div_ceil(REAL_MS_PER_MS));
            (key, Seen { until, fields, text })
        });
        seen.collect()
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

/// An answer for a reader, in virtual time.
pub(super) fn spoken(answer: &Value) -> String {
    const EPOCH_MS: i64 = 1_000_000_000_000;
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
