//! [`Stage`]: a server, a client of this crate, and another process that takes the same locks.

use std::time::Duration;

use harness::{
    Inspector, Lang, Party, Peer, PeerError, RedisServer, Servers, assert_nothing_left_where,
    java_is_required,
};
use redisson_lock::{Client, Config};

/// Long enough for a machine that stands still for a while. A third of it passes before a loss is noticed.
const WATCHDOG: Duration = Duration::from_secs(9);

pub(crate) struct Stage {
    pub(crate) server: RedisServer,
    pub(crate) client: Client,
    pub(crate) other: Peer,
}

impl Stage {
    pub(crate) async fn new() -> Self {
        let server = RedisServer::start();
        let other = other(&server).await;
        // JVMs of other tests start meanwhile.
        let patient = Duration::from_secs(15);
        let config = Config::from_url(server.url()).expect("a URL").watchdog(WATCHDOG);
        let config = config.command_timeout(patient).retry_timeout(2 * patient);
        let client = Client::connect(config).await.expect("a connection");
        Self { server, client, other }
    }

    /// A thread of the other process, at the lock of this name.
    pub(crate) fn party(&self, kind: &'static str, name: &str) -> Party {
        self.other.party("thread", kind, name)
    }

    pub(crate) fn redis(&self) -> Inspector {
        self.server.inspector()
    }

    /// Closes all. Nothing is left on the server but counters of tokens.
    pub(crate) async fn end(self) {
        self.client.close().await.expect("to close");
        self.other.close().await.expect("to close");
        assert_nothing_left_where(&self.server, |key| !key.starts_with("redisson_lock_token:"))
            .await;
    }
}

/// A Redisson. Where no JVM can be had, a peer of this crate is in its place.
async fn other(server: &RedisServer) -> Peer {
    let args = server.peer_args();
    match Peer::spawn(Lang::Java, &args).await {
        Err(PeerError::Unavailable(why)) => {
            assert!(!java_is_required(), "REQUIRE_JAVA=1, but {why}");
            Peer::spawn(Lang::Rust, &args).await.expect("a peer of this crate")
        }
        spawned => spawned.expect("a Redisson"),
    }
}
