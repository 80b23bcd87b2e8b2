//! [`Storage`]: what is done of a day, as a hash in Redis.

use std::time::Duration;

use redis::{Commands, Connection, RedisResult};
use redisson_lock::blocking::FencedGuard;

const TIMEOUT: Duration = Duration::from_secs(2);

/// Refuses a token that is smaller than one it has seen, and one that another holder has used: after a failover two may
/// have the same. The comparison and the write are one step on the server. In SQL:
/// `UPDATE job SET done = ?3, token = ?1, holder = ?2 WHERE day = ?4 AND (token < ?1 OR (token = ?1 AND holder = ?2))`.
const WRITE: &str = "
    local last = tonumber(redis.call('hget', KEYS[1], 'token') or 0)
    local token = tonumber(ARGV[1])
    if token < last or token == last and redis.call('hget', KEYS[1], 'holder') ~= ARGV[2] then
        return 0
    end
    redis.call('hset', KEYS[1], 'token', ARGV[1], 'holder', ARGV[2])
    if ARGV[3] ~= '' then
        redis.call('hset', KEYS[1], 'done', ARGV[3])
        redis.call('rpush', KEYS[2], ARGV[3])
    end
    return 1";

/// The answer to a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Write {
    Done,
    /// A run with a greater token, or another with the same, has written or begun.
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
    pub(crate) fn begin(&mut self, guard: &FencedGuard) -> RedisResult<Option<u32>> {
        if self.send(guard, "")? == Write::Refused {
            return Ok(None);
        }
        let done: Option<u32> = self.connection.hget(&self.record, "done")?;
        Ok(Some(done.unwrap_or(0)))
    }

    /// Writes the result of a step, and that it is done.
    pub(crate) fn write(&mut self, guard: &FencedGuard, step: u32) -> RedisResult<Write> {
        self.send(guard, &step.to_string())
    }

    fn send(&mut self, guard: &FencedGuard, step: &str) -> RedisResult<Write> {
        let written: bool = redis::cmd("EVAL")
            .arg(WRITE)
            .arg(2)
            .arg(&self.record)
            .arg(&self.steps)
            .arg(guard.token().value())
            .arg(guard.holder())
            .arg(step)
            .query(&mut self.connection)?;
        Ok(if written { Write::Done } else { Write::Refused })
    }
}
