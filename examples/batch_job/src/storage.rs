//! [`Storage`]: what is done of a day, as a hash in Redis.

use std::time::Duration;

use redis::{Commands, Connection, RedisResult};
use redisson_lock::FencingToken;

const TIMEOUT: Duration = Duration::from_secs(2);

/// Refuses a token that is smaller than one it has seen. The comparison and the write are one step on the
/// server. In SQL: `UPDATE job SET done = ?, token = ? WHERE day = ? AND token <= ?`.
const WRITE: &str = "
    local last = tonumber(redis.call('hget', KEYS[1], 'token') or 0)
    if tonumber(ARGV[1]) < last then
        return 0
    end
    redis.call('hset', KEYS[1], 'token', ARGV[1])
    if ARGV[2] ~= '' then
        redis.call('hset', KEYS[1], 'done', ARGV[2])
        redis.call('rpush', KEYS[2], ARGV[2])
    end
    return 1";

/// The answer to a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Write {
    Done,
    /// A run with a greater token has written or begun.
    Refused,
}

/// The record of one day, and the list of the steps in the order in which they were written.
pub(crate) struct Storage {
    connection: Connection,
    record: String,
    steps: String,
}

impl Storage {
    pub(crate) fn open(url: &str, day: &str) -> RedisResult<Self> {
        let connection = redis::Client::open(url)?.get_connection_with_timeout(TIMEOUT)?;
        connection.set_read_timeout(Some(TIMEOUT))?;
        connection.set_write_timeout(Some(TIMEOUT))?;
        Ok(Self {
            connection,
            record: format!("report:{{{day}}}"),
            steps: format!("report:{{{day}}}:steps"),
        })
    }

    /// Lets no older holder write any more, and returns how many steps are done. `None`: this holder is
    /// an older one itself.
    pub(crate) fn begin(&mut self, token: FencingToken) -> RedisResult<Option<u32>> {
        if self.send(token, "")? == Write::Refused {
            return Ok(None);
        }
        let done: Option<u32> = self.connection.hget(&self.record, "done")?;
        Ok(Some(done.unwrap_or(0)))
    }

    /// Writes the result of a step, and that it is done.
    pub(crate) fn write(&mut self, token: FencingToken, step: u32) -> RedisResult<Write> {
        self.send(token, &step.to_string())
    }

    fn send(&mut self, token: FencingToken, step: &str) -> RedisResult<Write> {
        let written: bool = redis::cmd("EVAL")
            .arg(WRITE)
            .arg(2)
            .arg(&self.record)
            .arg(&self.steps)
            .arg(token.value())
            .arg(step)
            .query(&mut self.connection)?;
        Ok(if written { Write::Done } else { Write::Refused })
    }
}
