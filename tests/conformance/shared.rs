//! The servers and peers of the scenarios. Peers are started when first needed, and shared.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use harness::{Inspector, Lang, Peer, PeerArgs, PeerError, RedisServer, Servers};
use tokio::runtime::Runtime;

use crate::topology::Topology;

/// The watchdog of a peer that has to be seen renewing, or seen no more. A machine that stands still for two seconds ends
/// no hold.
pub(crate) const SHORT_WATCHDOG: Duration = Duration::from_secs(3);
/// The watchdog of all others: nobody waits for that.
pub(crate) const WATCHDOG: Duration = Duration::from_secs(30);
/// What a message takes at most. Who looks every 3 s, as this crate does in case a message is lost, is not so quick.
pub(crate) const PROMPT: Duration = Duration::from_millis(2_500);
/// What anything takes at most on a busy machine; much less than a [`WATCHDOG`].
pub(crate) const SLACK: Duration = Duration::from_secs(10);
/// Which of two peers of one language.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Role {
    A,
    B,
}

/// The servers, the peers and the runtime that all tests of a topology share.
pub(crate) struct Shared {
    cast: tokio::sync::Mutex<HashMap<(Lang, Role, PeerArgs), Peer>>,
    /// The clients of peers that were there when a scenario failed: who knows what they still hold.
    dirty: Mutex<HashSet<String>>,
    topology: Topology,
    servers: OnceLock<Box<dyn Servers>>,
    /// For the counters of peers, where the locks are not on one server.
    counters: OnceLock<RedisServer>,
    runtime: Runtime,
}

impl Shared {
    pub(crate) fn on(topology: Topology) -> Self {
        Self {
            cast: tokio::sync::Mutex::default(),
            dirty: Mutex::default(),
            topology,
            servers: OnceLock::new(),
            counters: OnceLock::new(),
            runtime: Runtime::new().expect("a runtime"),
        }
    }

    pub(crate) fn try_java(&self) -> Result<(), PeerError> {
        self.runtime.block_on(self.peer(Lang::Java, Role::A, &self.args())).map(drop)
    }

    /// Does this on the runtime of all tests.
    pub(crate) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    pub(crate) fn topology(&self) -> Topology {
        self.topology
    }

    pub(crate) fn servers(&self) -> &dyn Servers {
        &**self.servers.get_or_init(|| self.topology.start())
    }

    /// An eye on the counters of peers.
    pub(crate) fn counters(&self) -> Inspector {
        match self.topology {
            Topology::Standalone | Topology::InProcess => self.servers().inspector(),
            Topology::Cluster | Topology::Sentinel => self.own_counters().inspector(),
        }
    }

    pub(crate) fn args(&self) -> PeerArgs {
        let args = self.servers().peer_args();
        match self.topology {
            Topology::Standalone | Topology::InProcess => args,
            Topology::Cluster | Topology::Sentinel => args.counters(self.own_counters().url()),
        }
    }

    fn own_counters(&self) -> &RedisServer {
        self.counters.get_or_init(RedisServer::start)
    }

    /// The shared peer of this role: the one that runs, or a new one.
    pub(crate) async fn peer(
        &self,
        lang: Lang,
        role: Role,
        args: &PeerArgs,
    ) -> Result<Peer, PeerError> {
        let mut cast = self.cast.lock().await;
        let part = (lang, role, args.clone());
        if let Some(peer) = cast.get(&part).filter(|peer| peer.is_alive() && !self.is_dirty(peer)) {
            return Ok(peer.clone());
        }
        let peer = Peer::spawn(lang, args).await?;
        cast.insert(part, peer.clone());
        Ok(peer)
    }

    /// These peers were there when a scenario failed: nobody else is to get them.
    pub(crate) fn distrust(&self, clients: impl IntoIterator<Item = String>) {
        self.dirty.lock().expect("the dirty ones").extend(clients);
    }

    fn is_dirty(&self, peer: &Peer) -> bool {
        self.dirty.lock().expect("the dirty ones").contains(peer.client())
    }
}
