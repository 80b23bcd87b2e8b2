//! An independent inspector of a server, or of all servers of a cluster.

mod route;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};

use redis::{Arg, Cmd, Connection, FromRedisValue, RedisResult, cmd};

use route::Route;

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

/// Looks at servers through connections of its own; each look is one short blocking command.
///
/// In a cluster it asks the node that has the key now, wherever that has gone.
pub struct Inspector {
    route: Mutex<Route>,
}

impl Inspector {
    /// Looks through this connection.
    pub fn new(connection: Connection) -> Self {
        Self { route: Mutex::new(Route::One(connection)) }
    }

    /// Looks at the cluster of the nodes on these ports.
    pub(crate) fn of_cluster(ports: Vec<u16>) -> Self {
        Self { route: Mutex::new(Route::cluster(ports)) }
    }

    /// The answer to any command. In a cluster its first argument says which node is asked, as a key does.
    ///
    /// # Panics
    /// When the server refuses it.
    pub fn query<T: FromRedisValue>(&self, command: &Cmd) -> T {
        self.try_query(command)
            .unwrap_or_else(|error| panic!("the server refused an inspection: {error}"))
    }

    /// The same, or why the server refused it.
    pub fn try_query<T: FromRedisValue>(&self, command: &Cmd) -> RedisResult<T> {
        self.at(key_of(command), |connection| command.query(connection))
    }

    /// The answers of all nodes that can be reached.
    fn query_all<T: FromRedisValue>(&self, command: &Cmd) -> Vec<RedisResult<T>> {
        self.route().everywhere(|connection| command.query(connection))
    }

    /// Asks the server that has this key.
    pub(crate) fn at<T>(
        &self,
        key: &[u8],
        ask: impl Fn(&mut Connection) -> RedisResult<T>,
    ) -> RedisResult<T> {
        self.route().at(key, ask)
    }

    fn route(&self) -> MutexGuard<'_, Route> {
        self.route.lock().expect("the inspector")
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
        // In one step, and nothing that a script of a lock would be mistaken for.
        let both = redis::pipe()
            .atomic()
            .lrange(queue_key(lock), 0, -1)
            .zrange(deadlines_key(lock), 0, -1)
            .to_owned();
        self.exists(&queue_key(lock)); // whoever has it now
        let both = self.at(queue_key(lock).as_bytes(), |connection| both.query(connection));
        let (line, mut timed): (Vec<String>, Vec<String>) =
            both.expect("a queue and its deadlines");
        let mut sorted = line.clone();
        sorted.sort();
        timed.sort();
        assert_eq!(sorted, timed, "the queue of {lock:?} and its deadlines differ");
        line
    }

    /// How many connections listen on a channel, sharded or not.
    pub fn subscribers(&self, channel: &str) -> usize {
        // Redis 6 knows no sharded ones.
        let counts = ["NUMSUB", "SHARDNUMSUB"]
            .map(|of| self.query_all::<(String, usize)>(cmd("PUBSUB").arg(of).arg(channel)));
        counts.into_iter().flatten().flatten().map(|(_, count)| count).sum()
    }

    /// Publishes a message as those who lock do; the number of connections that got it from this server.
    pub fn publish(&self, channel: &str, message: &str) -> usize {
        let is_cluster = matches!(*self.route(), Route::Cluster(_));
        let sharded = || self.try_query(cmd("SPUBLISH").arg(channel).arg(message));
        match is_cluster.then(sharded) {
            Some(Ok(listeners)) => listeners,
            // None, or one of Redis 6.
            _ => self.query(cmd("PUBLISH").arg(channel).arg(message)),
        }
    }

    /// Every key of every database; in a cluster those of the masters that can be reached.
    pub fn keys(&self) -> Vec<String> {
        let keys = self.route().everywhere(keys);
        let keys: Vec<_> =
            keys.into_iter().collect::<RedisResult<_>>().expect("the keys of a server");
        let keys: BTreeSet<String> = keys.into_iter().flatten().collect();
        keys.into_iter().collect()
    }

    /// The connections that listen, as the servers list them.
    pub fn listeners(&self) -> Vec<String> {
        let lists = self.query_all::<String>(cmd("CLIENT").arg("LIST").arg("TYPE").arg("PUBSUB"));
        let lists = lists.into_iter().flatten();
        lists.flat_map(|list| list.lines().map(str::to_owned).collect::<Vec<_>>()).collect()
    }

    /// Every channel somebody listens on, sharded ones too.
    pub fn channels(&self) -> Vec<String> {
        // Redis 6 knows no sharded ones.
        let channels = ["CHANNELS", "SHARDCHANNELS"]
            .map(|of| self.query_all::<Vec<String>>(cmd("PUBSUB").arg(of)));
        let channels: BTreeSet<_> = channels.into_iter().flatten().flatten().flatten().collect();
        channels.into_iter().collect()
    }
}

fn key_of(command: &Cmd) -> &[u8] {
    match command.args_iter().nth(1) {
        Some(Arg::Simple(key)) => key,
        _ => b"",
    }
}

/// None of a replica: what it has, its master has too, or no longer.
fn keys(server: &mut Connection) -> RedisResult<Vec<String>> {
    let replication: String = cmd("INFO").arg("replication").query(server)?;
    if !replication.contains("role:master") {
        return Ok(Vec::new());
    }
    let keyspace: String = cmd("INFO").arg("keyspace").query(server)?;
    let databases = keyspace.lines().filter_map(|line| line.strip_prefix("db")?.split_once(':'));
    let mut keys = Vec::new();
    for (database, _) in databases {
        cmd("SELECT").arg(database).exec(server)?;
        keys.extend(scan(server)?);
    }
    cmd("SELECT").arg(0).exec(server)?;
    Ok(keys)
}

fn scan(server: &mut Connection) -> RedisResult<Vec<String>> {
    let (mut keys, mut cursor) = (Vec::new(), 0_u64);
    loop {
        let (next, some): (u64, Vec<Vec<u8>>) =
            cmd("SCAN").arg(cursor).arg("COUNT").arg(1_000).query(server)?;
        keys.extend(some.iter().map(|key| String::from_utf8_lossy(key).into_owned()));
        cursor = next;
        if cursor == 0 {
            return Ok(keys);
        }
    }
}

impl std::fmt::Debug for Inspector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inspector").finish_non_exhaustive()
    }
}

/// A script that reads all keys that match its arguments, which are patterns: the name, the TTL, the type, and what is in
/// the key.
pub const LOOK: &str = "
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
