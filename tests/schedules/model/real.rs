//! A real Redis on a virtual clock.
//!
//! One virtual millisecond is [`REAL_MS_PER_MS`] real ones on the server, so that the real time of a schedule has no effect. When
//! the virtual clock has moved, the TTLs are set again before the next script runs: it compares and keeps the true remaining time.
//! A script of this crate is loaded with a line before it that makes TIME answer what the last argument says, so that deadlines in
//! server time are virtual too. Messages are real: the connection listens to every channel.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, channel};

use harness::redis::{self, ConnectionLike, Value, cmd, from_redis_value, pipe};
use harness::{LOOK, RedisServer};

use super::Ms;
use super::invocation::{Arg, Invocation, REAL_MS_PER_MS, Script, server_ms};
use super::seen::{Message, Outcome, Seen, saw};

/// What stands before a script of ours: TIME is what the last argument says, in ms, which the script does not see.
const VIRTUAL_TIME: &str = "
    local redis = setmetatable({}, {__index = redis})
    do
        local call, ms = redis.call, tonumber(table.remove(ARGV))
        redis.call = function(command, ...)
            if command ~= 'time' then return call(command, ...) end
            return {string.format('%d', ms / 1000), string.format('%d', ms % 1000 * 1000)}
        end
    end
    ";

/// A connection to a server.
pub(super) struct Real {
    connection: redis::Connection,
    watched: Vec<String>,
    look: String,
    pushed: Receiver<redis::PushInfo>,
    /// Whether the virtual clock has moved since the last script.
    moved: bool,
}

impl Real {
    pub(super) fn new(redis: &RedisServer, watched: &[String]) -> Self {
        let url = format!("{}?protocol=resp3", redis.unix_url());
        let client = redis::Client::open(url).expect("the server's address");
        let mut connection = client.get_connection().expect("a connection");
        let (sender, pushed) = channel();
        connection.set_push_sender(sender);
        connection.psubscribe_resp3("*").expect("to listen");
        let look: String = cmd("SCRIPT")
            .arg("LOAD")
            .arg(LOOK)
            .query(&mut connection)
            .expect("the server takes the script");
        Self { connection, watched: watched.to_vec(), look, pushed, moved: false }
    }

    /// Forgets what others published before, as Redisson does while its scripts are captured.
    pub(super) fn forget_messages(&self) {
        self.pushed.try_iter().for_each(drop);
    }

    pub(super) fn load(&mut self, text: &str) -> Script {
        let sha = self.command(cmd("SCRIPT").arg("LOAD").arg(format!("{VIRTUAL_TIME}{text}")));
        let sha = from_redis_value(sha).expect("a script's sha");
        Script { sha, text: text.into(), timed: true }
    }

    pub(super) fn time_passes(&mut self) {
        self.moved = true;
    }

    /// Runs a script, and looks at the watched keys, in one round trip.
    pub(super) fn run(
        &mut self,
        invocation: &Invocation,
        now: Ms,
        before: &BTreeMap<String, Seen>,
    ) -> Outcome {
        let mut batch = pipe();
        let mut prepared = 0;
        if std::mem::take(&mut self.moved) {
            for (key, seen) in before {
                if let Some(until) = seen.until {
                    batch.cmd("PEXPIRE").arg(key).arg((until - now) * REAL_MS_PER_MS);
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
            batch.arg(server_ms(now.cast_signed()));
        }
        batch.cmd("EVALSHA").arg(&self.look).arg(0).arg(&self.watched);
        let answers = self
            .connection
            .req_packed_commands(&batch.get_packed_pipeline(), prepared, 2)
            .expect("the server answers");
        let [answer, looked] = answers.try_into().expect("two answers");
        let messages = self.pushed.try_iter().filter_map(message).collect();
        Outcome { answer, seen: saw(looked, now), messages }
    }

    pub(super) fn command(&mut self, command: &redis::Cmd) -> Value {
        command.query(&mut self.connection).expect("the server takes the command")
    }
}

/// A message that was pushed: its pattern, its channel, its text.
fn message(pushed: redis::PushInfo) -> Option<Message> {
    let word = |n: usize| from_redis_value(pushed.data[n].clone()).expect("a word");
    (pushed.kind == redis::PushKind::PMessage).then(|| Message { channel: word(1), text: word(2) })
}
