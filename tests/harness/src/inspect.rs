//! An independent eye on a server.

use std::collections::BTreeMap;
use std::sync::Mutex;

use redis::{Cmd, Connection, FromRedisValue, cmd};

use crate::names::{deadlines_key, queue_key};

/// Who holds a lock, as its hash says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The id of the holder's client.
    pub client: String,
    /// The number of the holder within its client.
    pub thread: i64,
    /// How many times it holds.
    pub count: i64,
    /// What it may do with a read/write lock.
    pub access: Access,
}

/// What a hold is, as its field says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// That of a lock which has one holder and no modes.
    Plain,
    /// A read hold.
    Read,
    /// A write hold.
    Write,
}

impl Holder {
    /// Its id, under which a fair lock's queue and the keys of read holds know it.
    pub fn id(&self) -> String {
        format!("{}:{}", self.client, self.thread)
    }

    fn parse(field: &str, count: &str, has_mode: bool) -> Option<Self> {
        let (client, thread) = field.split_once(':')?;
        let (thread, access) = match (thread.strip_suffix(":write"), has_mode) {
            (Some(thread), true) => (thread, Access::Write),
            (_, true) => (thread, Access::Read),
            (_, false) => (thread, Access::Plain),
        };
        let is_uuid = client.len() == 36
            && client.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit());
        Some(Self {
            client: is_uuid.then(|| client.into())?,
            thread: thread.parse().ok()?,
            count: count.parse().ok()?,
            access,
        })
    }
}

/// Looks at a server through a connection of its own; each look is one short blocking command.
pub struct Inspector {
    connection: Mutex<Connection>,
}

impl Inspector {
    /// Looks through this connection.
    pub fn new(connection: Connection) -> Self {
        Self { connection: Mutex::new(connection) }
    }

    /// The answer to any command.
    ///
    /// # Panics
    /// When the server refuses it.
    pub fn query<T: FromRedisValue>(&self, command: &Cmd) -> T {
        self.try_query(command)
            .unwrap_or_else(|error| panic!("the server refused an inspection: {error}"))
    }

    pub(crate) fn try_query<T: FromRedisValue>(&self, command: &Cmd) -> redis::RedisResult<T> {
        command.query(&mut *self.connection.lock().expect("the inspector"))
    }

    /// Whether there is such a key.
    pub fn exists(&self, key: &str) -> bool {
        self.query(cmd("EXISTS").arg(key))
    }

    /// The remaining life of a key in milliseconds; −1 without an end, −2 without the key.
    pub fn pttl(&self, key: &str) -> i64 {
        self.query(cmd("PTTL").arg(key))
    }

    /// A hash, field by field.
    pub fn hash(&self, key: &str) -> BTreeMap<String, String> {
        self.query(cmd("HGETALL").arg(key))
    }

    /// The one holder of a lock that has one at most.
    ///
    /// # Panics
    /// When there are more, or the hash is not that of a lock.
    pub fn holder(&self, lock: &str) -> Option<Holder> {
        let mut holders = self.holders(lock);
        assert!(holders.len() <= 1, "a lock has one holder at most, not {holders:?}");
        holders.pop()
    }

    /// All holders of a lock; one that writes and reads comes twice.
    ///
    /// # Panics
    /// When the hash is not that of a lock: a field or a count of another form.
    pub fn holders(&self, lock: &str) -> Vec<Holder> {
        let mut hash = self.hash(lock);
        let mode = hash.remove("mode");
        assert!(
            mode.is_none() || !hash.is_empty(),
            "a lock in the mode {mode:?} that nobody holds"
        );
        let holder = |(field, count): (String, String)| {
            Holder::parse(&field, &count, mode.is_some())
                .unwrap_or_else(|| panic!("not a holder and its count: {field} = {count}"))
        };
        hash.into_iter().map(holder).collect()
    }

    /// The ids of those who wait for a fair lock, first to last.
    ///
    /// # Panics
    /// When the list and the deadlines do not name the same waiters.
    pub fn line(&self, lock: &str) -> Vec<String> {
        let (line, mut timed): (Vec<String>, Vec<String>) = redis::pipe()
            .atomic()
            .lrange(queue_key(lock), 0, -1)
            .zrange(deadlines_key(lock), 0, -1)
            .query(&mut *self.connection.lock().expect("the inspector"))
            .expect("a queue and its deadlines");
        let mut sorted = line.clone();
        sorted.sort();
        timed.sort();
        assert_eq!(sorted, timed, "the queue of {lock:?} and its deadlines differ");
        line
    }

    /// How many connections listen on a channel.
    pub fn subscribers(&self, channel: &str) -> usize {
        let (_, count): (String, usize) = self.query(cmd("PUBSUB").arg("NUMSUB").arg(channel));
        count
    }

    /// Publishes a message; the number of connections that got it.
    pub fn publish(&self, channel: &str, message: &str) -> usize {
        self.query(cmd("PUBLISH").arg(channel).arg(message))
    }

    /// Every key of every database.
    pub fn keys(&self) -> Vec<String> {
        let keyspace: String = self.query(cmd("INFO").arg("keyspace"));
        let databases =
            keyspace.lines().filter_map(|line| line.strip_prefix("db")?.split_once(':'));
        let mut keys = Vec::new();
        for (database, _) in databases {
            self.query::<()>(cmd("SELECT").arg(database));
            keys.extend(self.scan());
        }
        self.query::<()>(cmd("SELECT").arg(0));
        keys
    }

    /// Every channel somebody listens on, sharded ones too.
    pub fn channels(&self) -> Vec<String> {
        let mut channels: Vec<String> = self.query(cmd("PUBSUB").arg("CHANNELS"));
        // Redis 6 knows no sharded ones.
        channels.extend(
            self.try_query::<Vec<String>>(cmd("PUBSUB").arg("SHARDCHANNELS")).unwrap_or_default(),
        );
        channels
    }

    fn scan(&self) -> Vec<String> {
        let (mut keys, mut cursor) = (Vec::new(), 0_u64);
        loop {
            let (next, some): (u64, Vec<Vec<u8>>) =
                self.query(cmd("SCAN").arg(cursor).arg("COUNT").arg(1_000));
            keys.extend(some.iter().map(|key| String::from_utf8_lossy(key).into_owned()));
            cursor = next;
            if cursor == 0 {
                return keys;
            }
        }
    }
}

impl std::fmt::Debug for Inspector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inspector").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::RedisServer;

    #[test]
    fn keys_of_every_database_are_seen() {
        let server = RedisServer::start();
        let inspector = server.inspector();
        for database in [0, 7] {
            inspector.query::<()>(cmd("SELECT").arg(database));
            inspector.query::<()>(cmd("SET").arg(format!("key-{database}")).arg("v"));
        }
        let mut keys = inspector.keys();
        keys.sort();
        assert_eq!(keys, ["key-0", "key-7"]);
    }
}
