//! Which locks there are: `ls`, and what the other subcommands look at.

use std::{collections::BTreeSet, time::Duration};

use futures::{StreamExt, TryStreamExt, stream, try_join};
use redisson_lock::{
    Announced, Client, Error, RedisErrorKind,
    servers::{ANNOUNCEMENTS, Masters, Names, Server, Value},
};
use serde_json::{Value as Json, json};
use tokio::time::sleep;

use crate::{
    args::{Pattern, Servers},
    connection::{config, connect},
    duration::shown,
    fields::{self, Fields, Found},
    outcome::{Failure, NO_REDIS, Outcome, print},
    table::{row, table},
    whois,
};

/// How many keys are looked at, at the same time.
const AT_ONCE: usize = 32;

/// How often a key is looked at whose slot has moved, and the pause in between.
const LOOKS: u32 = 10;
const PAUSE: Duration = Duration::from_millis(100);

/// A lock as it was seen.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) key: String,
    pub(crate) kind: Sort,
    /// Ids and hold counts.
    pub(crate) holders: Vec<(String, u64)>,
    /// `None`: the key has no TTL.
    pub(crate) ttl: Option<Duration>,
    /// The length of a fair lock's line. For other kinds how many processes listen.
    pub(crate) waiters: u64,
    /// What is announced about each holder, if that was asked.
    pub(crate) announced: Vec<Option<Announced>>,
}

/// What the server shows of a lock's kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort {
    Lock,
    Fenced,
    /// A line of waiters is there.
    Fair,
    Read,
    Write,
}

impl Sort {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::Fenced => "fenced",
            Self::Fair => "fair",
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// `ls`: the locks that are held.
pub(crate) async fn ls(pattern: Pattern, servers: Servers, json: bool) -> Result<Outcome, Failure> {
    let config = config(&servers)?;
    let client = connect(&config).await?;
    let prefix = config.get_prefix();
    let list = locks(&client, prefix, &pattern.pattern).await?;
    let _ = client.close().await;
    if json {
        let lines = list.locks.iter().map(|lock| format!("{}\n", lock.json(prefix)));
        print(&lines.collect::<String>())?;
    } else {
        print(&listing(&list.locks, prefix))?;
    }
    Ok(list.outcome())
}

pub(crate) fn listing(locks: &[Seen], prefix: &str) -> String {
    let mut rows = vec![row(["NAME", "KIND", "TTL", "WAITERS", "HOLDERS", "WHO"])];
    rows.extend(locks.iter().map(|lock| {
        let waiters = lock.waiters.to_string();
        row([
            lock.name(prefix),
            lock.kind.name(),
            &lock.ttl_shown(),
            &waiters,
            &lock.holders_shown(),
            &lock.who_shown(),
        ])
    }));
    table(&rows)
}

/// The locks that were found.
#[derive(Debug, Default)]
pub(crate) struct List {
    /// In the order of their names.
    pub(crate) locks: Vec<Seen>,
    /// The addresses of masters that could not be asked, and why. Their locks are not in the list.
    pub(crate) unreachable: Vec<(String, String)>,
}

impl List {
    /// What to say of a list without the locks of some masters.
    pub(crate) fn incomplete(&self) -> Option<String> {
        let masters: Vec<_> =
            self.unreachable.iter().map(|(address, why)| format!("{address}: {why}")).collect();
        let masters = masters.join("; ");
        (!masters.is_empty()).then(|| format!("the list is incomplete: {masters}"))
    }

    pub(crate) fn outcome(&self) -> Outcome {
        match self.incomplete() {
            Some(words) => Outcome::new(NO_REDIS).with(words),
            None => Outcome::new(0),
        }
    }
}

/// All locks whose names match. Fails if no server can be asked.
pub(crate) async fn locks(client: &Client, prefix: &str, pattern: &str) -> Result<List, Failure> {
    let pattern = format!("{}{pattern}", literally(prefix));
    let Masters { connected, missing } = client.servers();
    let mut list = List::default();
    let mut failure = None;
    let mut asked = 0;
    list.unreachable = missing.into_iter().map(|at| (at, "no connection".to_owned())).collect();
    for server in connected {
        match locks_of(client, &server, &pattern).await {
            Ok(locks) => {
                asked += 1;
                list.locks.extend(locks);
            }
            Err(error) => {
                list.unreachable.push((server.address().to_owned(), error.text.clone()));
                failure.get_or_insert(error);
            }
        }
    }
    if asked == 0 {
        let nobody = || Failure::new(NO_REDIS, "no server with locks can be reached");
        return Err(failure.unwrap_or_else(nobody));
    }
    list.locks.sort_by(|one, other| one.key.cmp(&other.key));
    list.locks.dedup_by(|one, other| one.key == other.key);
    list.unreachable.sort();
    add_announced(client, &mut list.locks).await;
    Ok(list)
}

async fn locks_of(client: &Client, server: &Server, pattern: &str) -> Result<Vec<Seen>, Failure> {
    let keys = keys(server, pattern).await?;
    // In a slot that moves, the server that lists the key need not have the others, nor the listeners.
    let looks = keys.iter().map(|key| look(client, key));
    let seen: Vec<_> = stream::iter(looks).buffer_unordered(AT_ONCE).try_collect().await?;
    Ok(seen.into_iter().filter_map(Look::lock).collect())
}

async fn add_announced(client: &Client, found: &mut [Seen]) {
    let holds = |lock: &Seen| -> Vec<_> {
        lock.holders.iter().map(|(id, _)| (id.clone(), lock.key.clone())).collect()
    };
    let holds: Vec<_> = found.iter().flat_map(holds).collect();
    let holds: Vec<_> = holds.iter().map(|(id, key)| (&**id, &**key)).collect();
    let mut announced = client.announced(&holds).await.into_iter();
    for lock in found {
        lock.announced = announced.by_ref().take(lock.holders.len()).collect();
    }
}

/// The keys of hashes. SCAN may name a key twice.
async fn keys(server: &Server, pattern: &str) -> Result<BTreeSet<String>, Error> {
    let mut keys = BTreeSet::new();
    let mut cursor = "0".to_owned();
    loop {
        let args: [&[u8]; 7] =
            [cursor.as_bytes(), b"MATCH", pattern.as_bytes(), b"COUNT", b"1000", b"TYPE", b"hash"];
        let reply = server.command("SCAN", &args).await?;
        let [next, found] = reply.parts() else { return Ok(keys) };
        // A name that is no UTF-8 is not one of a lock.
        keys.extend(found.parts().iter().filter_map(|key| match key {
            Value::Bytes(key) if key.starts_with(ANNOUNCEMENTS.as_bytes()) => None,
            Value::Bytes(key) => String::from_utf8(key.to_vec()).ok(),
            _ => None,
        }));
        cursor = next.text().unwrap_or_default();
        if cursor == "0" || cursor.is_empty() {
            return Ok(keys);
        }
    }
}

/// What is under the name of a lock.
#[derive(Clone, Debug)]
pub(crate) enum Look {
    /// A lock that is held.
    Lock(Seen),
    Free,
    /// The hash of another program.
    Foreign,
    /// No hash. It may be a plain lock.
    OtherType,
}

impl Look {
    pub(crate) fn lock(self) -> Option<Seen> {
        match self {
            Self::Lock(seen) => Some(seen),
            Self::Free | Self::Foreign | Self::OtherType => None,
        }
    }
}

/// Looks at one key.
pub(crate) async fn look(client: &Client, key: &str) -> Result<Look, Failure> {
    let mut looks = 0;
    loop {
        let Some(server) = client.server_of(key) else {
            return Err(Failure::new(NO_REDIS, format!("no server is known that has {key:?}")));
        };
        looks += 1;
        match look_at(&server, key).await {
            Err(Error::WrongKind { .. }) => return Ok(Look::OtherType),
            // A server that is not known yet has taken over the slot.
            Err(Error::Redis(error)) if error.kind() == RedisErrorKind::Moved && looks < LOOKS => {
                sleep(PAUSE).await;
            }
            look => return Ok(look?),
        }
    }
}

async fn look_at(server: &Server, key: &str) -> Result<Look, Error> {
    let names = Names::of(key);
    let bytes = key.as_bytes();
    let Fields { mode, holders } = match fields::read(server, bytes).await? {
        Found::Lock(fields) => fields,
        Found::Free => return Ok(Look::Free),
        Found::Foreign => return Ok(Look::Foreign),
    };
    let count: &[u8] = if server.is_sharded() { b"SHARDNUMSUB" } else { b"NUMSUB" };
    let (channel, sides) = (names.channel.as_bytes(), names.read_write_channel.as_bytes());
    let (key_only, channels) = ([bytes], [count, channel, sides]);
    let (queue, token) = ([names.queue.as_bytes()], [names.token.as_bytes()]);
    let (pttl, line, token, listeners) = try_join!(
        server.command("PTTL", &key_only),
        length_of(server, &queue),
        server.command("EXISTS", &token),
        server.command("PUBSUB", &channels),
    )?;
    let holders = holders.into_iter().collect();
    let number = |value: &Value| value.int().and_then(|n| u64::try_from(n).ok());
    let (line, listeners) = (number(&line).unwrap_or(0), listeners.parts());
    let heard = |at: usize| listeners.get(at).and_then(number).unwrap_or(0);
    let (kind, waiters) = match mode.as_deref() {
        Some("write") => (Sort::Write, heard(3)),
        Some(_) => (Sort::Read, heard(3)),
        None if line > 0 => (Sort::Fair, line),
        None if number(&token) == Some(1) => (Sort::Fenced, heard(1)),
        None => (Sort::Lock, heard(1)),
    };
    let ttl = match pttl.int() {
        Some(-2) => return Ok(Look::Free),
        pttl => pttl.and_then(|ms| u64::try_from(ms).ok()).map(Duration::from_millis),
    };
    let announced = Vec::new();
    Ok(Look::Lock(Seen { key: key.to_owned(), kind, holders, ttl, waiters, announced }))
}

/// The length of a line. A key of another type is no line: the lock beside it is one all the same.
async fn length_of(server: &Server, queue: &[&[u8]]) -> Result<Value, Error> {
    match server.command("LLEN", queue).await {
        Err(Error::WrongKind { .. }) => Ok(Value::Int(0)),
        length => length,
    }
}

/// A pattern that only this text matches.
fn literally(text: &str) -> String {
    let escaped = |c: char| match c {
        '*' | '?' | '[' | ']' | '\\' | '^' => vec!['\\', c],
        c => vec![c],
    };
    text.chars().flat_map(escaped).collect()
}

impl Seen {
    /// The name for which a client with this prefix has the lock.
    pub(crate) fn name<'a>(&'a self, prefix: &str) -> &'a str {
        self.key.strip_prefix(prefix).unwrap_or(&self.key)
    }

    pub(crate) fn ttl_shown(&self) -> String {
        self.ttl.map_or_else(|| "none".to_owned(), shown)
    }

    /// The holders, with their counts where they are not 1.
    pub(crate) fn holders_shown(&self) -> String {
        let shown = self.holders.iter().map(|(id, count)| match count {
            1 => id.clone(),
            count => format!("{id} x{count}"),
        });
        shown.collect::<Vec<_>>().join(", ")
    }

    /// Who the holders are, in the same order.
    pub(crate) fn who_shown(&self) -> String {
        let shown = self.announced.iter().map(|announced| whois::told(announced.as_ref()));
        shown.collect::<Vec<_>>().join(", ")
    }

    pub(crate) fn json(&self, prefix: &str) -> Json {
        let announced = self.announced.iter().map(Option::as_ref).chain(std::iter::repeat(None));
        let holders = self.holders.iter().zip(announced).map(|((id, count), announced)| {
            json!({ "id": id, "count": count, "announced": whois::in_json(announced) })
        });
        json!({
            "name": self.name(prefix),
            "key": self.key,
            "kind": self.kind.name(),
            "ttl_ms": self.ttl.map(|ttl| ttl.as_millis() as u64),
            "waiters": self.waiters,
            "holders": holders.collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_no_pattern() {
        assert_eq!(literally("a*[b]?\\"), "a\\*\\[b\\]\\?\\\\");
    }
}
