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
use super::invocation::{Arg, Invocation, REAL_MS_PER_MS, Script, server_ms};
use super::mirror::Mirror;
use super::seen::{LOOK, Message, Seen, saw};

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
    mirror: Option<Mirror>,
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
            mirror: None,
        }
    }

    /// From now on does all on a server in process, too, and compares. It is to be empty.
    pub(crate) fn mirror(&mut self) {
        self.mirror = Some(Mirror::new(&self.watched));
    }

    /// What the server in process did otherwise first.
    pub(crate) fn difference(&self) -> Option<&str> {
        self.mirror.as_ref()?.difference()
    }

    /// Starts another schedule: the clock at 0 and no key.
    pub(crate) fn reset(&mut self) {
        self.now = 0;
        self.seen.clear();
        self.command(&cmd("FLUSHDB"));
        // What others published before, as Redisson does while its scripts are captured.
        self.pushed.try_iter().for_each(drop);
    }

    /// Loads a script of ours.
    pub(crate) fn load(&mut self, text: &str) -> Script {
        let sha = self.command(cmd("SCRIPT").arg("LOAD").arg(format!("{VIRTUAL_TIME}{text}")));
        let sha = from_redis_value(sha).expect("a script's sha");
        Script { sha, text: text.into(), timed: true }
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
        batch.arg(invocation.args.iter().map(Arg::word).collect::<Vec<_>>());
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
        if let Some(mirror) = &mut self.mirror {
            mirror.run(invocation, self.now, &answer, &self.seen, &self.messages);
        }
        answer
    }

    /// Any other command, outside the virtual clock.
    pub(crate) fn command(&mut self, command: &redis::Cmd) -> Value {
        if let Some(mirror) = &mut self.mirror {
            mirror.command(command);
        }
        command.query(&mut self.connection).expect("the server takes the command")
    }

    /// The keys there are, of whatever owner.
    pub(crate) fn keys(&mut self) -> Vec<String> {
        from_redis_value(self.command(cmd("KEYS").arg("*"))).expect("names of keys")
    }
}

/// A message that was pushed: its pattern, its channel, its text.
fn message(pushed: redis::PushInfo) -> Option<Message> {
    let word = |n: usize| from_redis_value(pushed.data[n].clone()).expect("a word");
    (pushed.kind == redis::PushKind::PMessage).then(|| Message { channel: word(1), text: word(2) })
}
