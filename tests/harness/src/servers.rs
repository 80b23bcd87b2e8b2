//! What a test needs of its servers, one or many.

use redis::Connection;

use crate::inspect::Inspector;
use crate::monitor::Messages;
use crate::peer::PeerArgs;
use crate::server::RedisServer;

/// One server, a cluster, or a master watched by sentinels.
pub trait Servers: Send + Sync {
    /// How a peer finds them.
    fn peer_args(&self) -> PeerArgs;

    /// A new [`Inspector`].
    fn inspector(&self) -> Inspector;

    /// A new connection to the server that keeps this key now.
    fn client_of(&self, key: &str) -> Connection;

    /// Listens on a channel, where those who lock do.
    fn messages(&self, channel: &str) -> Messages {
        Messages::on(self.client_of(channel), channel)
    }
}

impl Servers for RedisServer {
    fn peer_args(&self) -> PeerArgs {
        PeerArgs::redis(self.url())
    }

    fn inspector(&self) -> Inspector {
        self.inspector()
    }

    fn client_of(&self, _key: &str) -> Connection {
        self.client()
    }
}
