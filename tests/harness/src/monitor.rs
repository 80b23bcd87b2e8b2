//! A server's messages, and the commands it executes.

use std::sync::atomic::{AtomicU64, Ordering};

use redis::{Connection, RedisResult, cmd};

use crate::inspect::Inspector;

/// A number for a mark of its own: others may listen or watch at the same time.
fn next() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Listens on one channel, on a connection of its own; in a cluster as long as the channel's slot stays where it is.
pub struct Messages {
    connection: Connection,
    marker: String,
}

impl Messages {
    /// Listens on `channel`, beginning before this returns.
    ///
    /// # Panics
    /// When the server refuses the subscription.
    pub fn on(connection: Connection, channel: &str) -> Self {
        Self::by("SUBSCRIBE", connection, channel).expect("a subscription")
    }

    /// Listens on a sharded channel, on the node that keeps it; of Redis 6, which knows none, on a plain one.
    pub(crate) fn in_cluster(connect: impl Fn() -> Connection, channel: &str) -> Self {
        Self::by("SSUBSCRIBE", connect(), channel).unwrap_or_else(|_| Self::on(connect(), channel))
    }

    fn by(command: &str, mut connection: Connection, channel: &str) -> RedisResult<Self> {
        // In the same slot, as what stands in the braces of a channel does it.
        let marker = format!("harness:end-of-messages:{}:{channel}", next());
        for channel in [channel, &marker] {
            connection.send_packed_command(&cmd(command).arg(channel).get_packed_command())?;
            // A refusal is a response like any other.
            connection.recv_response()?.extract_error()?;
        }
        Ok(Self { connection, marker })
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
    /// What is kept where it watches.
    key: String,
    /// Its own: others may watch the same server.
    mark: String,
}

impl Commands {
    const MARKER: &str = "harness:end-of-commands";

    /// Watches through a connection of its own, beginning before this returns.
    ///
    /// # Panics
    /// When the server refuses.
    pub fn watch(connection: Connection) -> Self {
        Self::watch_at("", connection)
    }

    /// The same in a cluster, on the node that keeps this key.
    ///
    /// # Panics
    /// When the server refuses.
    pub fn watch_at(key: &str, mut connection: Connection) -> Self {
        connection.send_packed_command(&cmd("MONITOR").get_packed_command()).expect("to ask");
        connection.recv_response().expect("to be allowed to watch");
        let mark = format!("{}:{}:", Self::MARKER, next());
        Self { connection, key: key.into(), mark }
    }

    /// The lines since the last time, up to now, such as `1700000000.5 [0 lua] "pttl" "name"`.
    ///
    /// # Panics
    /// When the connection breaks.
    pub fn so_far(&mut self, inspector: &Inspector) -> Vec<String> {
        // With a key, so that a cluster's node refuses it that does not keep that.
        let mut mark = cmd("EVAL");
        mark.arg("return 0").arg(1).arg(&self.key).arg(&self.mark);
        let mark = |server: &mut Connection| mark.exec(server);
        inspector.at(self.key.as_bytes(), mark).expect("to mark the place");
        let mut lines = Vec::new();
        loop {
            let line = self.connection.recv_response().expect("a command");
            let line: String = redis::from_redis_value(line).expect("a line");
            if line.contains(&self.mark) {
                return lines;
            }
            if !line.contains(Self::MARKER) {
                lines.push(line);
            }
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
    #[test]
    fn two_who_watch_do_not_end_each_others_looks() {
        let server = RedisServer::start();
        let inspector = server.inspector();
        let mut first = Commands::watch(server.client());
        let mut second = Commands::watch(server.client());
        inspector.publish("news", "a");
        // Its mark stands between the two messages for the other one.
        assert_eq!(second.so_far(&inspector).len(), 1);
        inspector.publish("news", "b");
        assert_eq!(first.so_far(&inspector).len(), 2);
        assert_eq!(second.so_far(&inspector).len(), 1);
    }
}
