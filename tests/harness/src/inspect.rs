//! An independent eye on a server.

use std::collections::BTreeMap;
use std::sync::Mutex;

use redis::{Cmd, Connection, FromRedisValue, cmd};

/// The channel on which a plain, fair or fenced lock of this name tells that it is free.
pub fn lock_channel(name: &str) -> String {
    if name.contains('{') {
        format!("redisson_lock__channel:{name}")
    } else {
        format!("redisson_lock__channel:{{{name}}}")
    }
}

/// Who holds a lock, as its hash says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The id of the holder's client.
    pub client: String,
    /// The number of the holder within its client.
    pub thread: i64,
    /// How many times it holds.
    pub count: i64,
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

    /// The one holder of a plain, fair or fenced lock.
    ///
    /// # Panics
    /// When the hash is not that of a lock: more than one field, or a field or a count of another form.
    pub fn holder(&self, lock: &str) -> Option<Holder> {
        let hash = self.hash(lock);
        assert!(hash.len() <= 1, "a lock has one holder at most, not {hash:?}");
        let (field, count) = hash.into_iter().next()?;
        let holder = || {
            let (client, thread) = field.split_once(':')?;
            let uuid = client.len() == 36
                && client.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit());
            Some(Holder {
                client: uuid.then(|| client.into())?,
                thread: thread.parse().ok()?,
                count: count.parse().ok()?,
            })
        };
        Some(holder().unwrap_or_else(|| panic!("not a holder and its count: {field} = {count}")))
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

/// Listens on one channel, on a connection of its own.
pub struct Messages {
    connection: Connection,
    marker: String,
}

impl Messages {
    /// Listens on `channel`, beginning before this returns.
    ///
    /// # Panics
    /// When the server refuses the subscription.
    pub fn on(mut connection: Connection, channel: &str) -> Self {
        let marker = format!("harness:end-of-messages:{channel}");
        for channel in [channel, &marker] {
            connection
                .send_packed_command(&cmd("SUBSCRIBE").arg(channel).get_packed_command())
                .expect("to subscribe");
            connection.recv_response().expect("a subscription");
        }
        Self { connection, marker }
    }

    /// What was published since the last time, up to now. No waiting: a marker published behind it ends the list.
    ///
    /// # Panics
    /// When the connection breaks.
    pub fn so_far(&mut self, inspector: &Inspector) -> Vec<String> {
        inspector.publish(&self.marker, "");
        let mut messages = Vec::new();
        loop {
            let message = self.connection.recv_response().expect("a message");
            let (_, channel, payload): (String, String, String) =
                redis::from_redis_value(message).expect("a message");
            if channel == self.marker {
                return messages;
            }
            messages.push(payload);
        }
    }
}

impl std::fmt::Debug for Messages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Messages").finish_non_exhaustive()
    }
}

/// What a server carries out, script by script and command by command (`MONITOR`).
pub struct Commands {
    connection: Connection,
}

impl Commands {
    const MARKER: &str = "harness:end-of-commands";

    /// Watches through a connection of its own, beginning before this returns.
    ///
    /// # Panics
    /// When the server refuses.
    pub fn watch(mut connection: Connection) -> Self {
        connection.send_packed_command(&cmd("MONITOR").get_packed_command()).expect("to ask");
        connection.recv_response().expect("to be allowed to watch");
        Self { connection }
    }

    /// The lines since the last time, up to now, such as `1700000000.5 [0 lua] "pttl" "name"`.
    ///
    /// # Panics
    /// When the connection breaks.
    pub fn so_far(&mut self, inspector: &Inspector) -> Vec<String> {
        inspector.query::<()>(cmd("ECHO").arg(Self::MARKER));
        let mut lines = Vec::new();
        loop {
            let line = self.connection.recv_response().expect("a command");
            let line: String = redis::from_redis_value(line).expect("a line");
            if line.contains(Self::MARKER) {
                return lines;
            }
            lines.push(line);
        }
    }
}

impl std::fmt::Debug for Commands {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Commands").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::RedisServer;

    #[test]
    fn messages_come_in_order_and_only_those_since_the_last_look() {
        let server = RedisServer::start();
        let inspector = server.inspector();
        let mut messages = Messages::on(server.client(), "news");
        inspector.publish("news", "a");
        inspector.publish("news", "b");
        assert_eq!(messages.so_far(&inspector), ["a", "b"]);
        assert_eq!(messages.so_far(&inspector), [""; 0]);
    }

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

    #[test]
    fn commands_are_seen_as_they_were_sent() {
        let server = RedisServer::start();
        let inspector = server.inspector();
        let mut commands = Commands::watch(server.client());
        inspector.publish("news", "a");
        let lines = commands.so_far(&inspector);
        assert!(
            matches!(&lines[..], [one] if one.ends_with(r#""PUBLISH" "news" "a""#)),
            "{lines:?}"
        );
        assert!(commands.so_far(&inspector).is_empty());
    }
}
