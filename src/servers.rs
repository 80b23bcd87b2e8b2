//! [`Server`]: raw commands to the servers of a client, for the command line tool. Not for use by
//! itself.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use tokio::time::Instant;

use crate::{
    client::Client,
    engine::MOST_ASKED,
    error::Error,
    inspection::Announced,
    names,
    wire::{RawServer, RawServers, Reply},
};

/// One server that has locks.
#[derive(Clone)]
pub struct Server {
    raw: Arc<dyn RawServer>,
}

/// The servers that have locks.
#[derive(Clone, Debug)]
pub struct Masters {
    /// Those to which the client has connected. A connection may have broken since.
    pub connected: Vec<Server>,
    /// The addresses of masters of the cluster to which there is no connection. Their locks are on no other server.
    pub missing: Vec<String>,
}

/// The reply of a server.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// No value.
    Nil,
    /// A number.
    Int(i64),
    /// A text, which may be no UTF-8.
    Bytes(Bytes),
    /// Several replies.
    Array(Vec<Value>),
}

/// The names of the keys and the channel that belong to a lock.
#[derive(Clone, Debug)]
pub struct Names {
    /// The channel that announces releases.
    pub channel: String,
    /// The channel that announces releases of a read/write lock.
    pub read_write_channel: String,
    /// The list of a fair lock's waiters.
    pub queue: String,
    /// The counter of a fenced lock.
    pub token: String,
}

/// What the names of the hashes begin with in which clients announce themselves.
pub const ANNOUNCEMENTS: &str = names::ANNOUNCEMENTS;

impl Names {
    /// The names for the lock with this key.
    #[must_use]
    pub fn of(key: &str) -> Self {
        Self {
            channel: names::unlock_channel(key),
            read_write_channel: names::read_write_channel(key),
            queue: names::fair_queue(key),
            token: names::token(key),
        }
    }
}

impl Client {
    /// The servers that have locks: one, or the masters of a cluster.
    #[must_use]
    pub fn servers(&self) -> Masters {
        let RawServers { connected, missing } = self.engine().transport.servers();
        Masters { connected: connected.into_iter().map(|raw| Server { raw }).collect(), missing }
    }

    /// What is announced about these holds: holder ids, and the locks' keys. As
    /// [`Lock::inspect`](crate::Lock::inspect) reads it, but of any number of them. After a question
    /// that has no answer in time no other is asked, and the rest is `None`.
    pub async fn announced(&self, holds: &[(&str, &str)]) -> Vec<Option<Announced>> {
        let engine = self.engine();
        let mut found = Vec::with_capacity(holds.len());
        for holds in holds.chunks(MOST_ASKED) {
            let by = Instant::now() + engine.settings.command_timeout;
            found.extend(engine.whois(holds, by).await);
            if Instant::now() >= by {
                break;
            }
        }
        found.resize(holds.len(), None);
        found.into_iter().map(|one| one.map(Announced::from)).collect()
    }

    /// The server that has this key. `None`: it is not known.
    #[must_use]
    pub fn server_of(&self, key: &str) -> Option<Server> {
        self.engine().transport.server_of(key.as_bytes()).map(|raw| Server { raw })
    }
}

impl Server {
    /// The address.
    #[must_use]
    pub fn address(&self) -> &str {
        self.raw.name()
    }

    /// Whether its locks use channels of slots.
    #[must_use]
    pub fn is_sharded(&self) -> bool {
        self.raw.is_sharded()
    }

    /// Sends one copy of a command, to another server of the cluster if this one says that the key is
    /// there. It must not answer with an array of three or four that begins with the name of a kind of
    /// message, such as `message` or `subscribe`: fred takes that for one.
    ///
    /// # Errors
    /// [`Error::Redis`] when the server does not answer within
    /// [`Config::command_timeout`](crate::Config::command_timeout), or refuses.
    pub async fn command(&self, name: &'static str, args: &[&[u8]]) -> Result<Value, Error> {
        let args = args.iter().map(|arg| Bytes::copy_from_slice(arg)).collect();
        let reply = self.raw.command(name, args).await.map_err(|error| error.into_error(""))?;
        Ok(value(reply))
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("address", &self.address()).finish_non_exhaustive()
    }
}

impl Value {
    /// The text of a string or a number.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        match self {
            Self::Int(n) => Some(n.to_string()),
            Self::Bytes(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            _ => None,
        }
    }

    /// The number.
    #[must_use]
    pub fn int(&self) -> Option<i64> {
        match self {
            Self::Int(n) => Some(*n),
            Self::Bytes(bytes) => std::str::from_utf8(bytes).ok()?.parse().ok(),
            _ => None,
        }
    }

    /// The parts of an array. Empty for other replies.
    #[must_use]
    pub fn parts(&self) -> &[Self] {
        match self {
            Self::Array(parts) => parts,
            _ => &[],
        }
    }
}

fn value(reply: Reply) -> Value {
    match reply {
        Reply::Nil => Value::Nil,
        Reply::Int(n) => Value::Int(n),
        Reply::Bytes(bytes) => Value::Bytes(bytes),
        Reply::Array(parts) => Value::Array(parts.into_iter().map(value).collect()),
        Reply::Confirmed(reply, _) => value(*reply),
    }
}
