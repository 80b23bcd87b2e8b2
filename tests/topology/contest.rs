//! Who contends, and what they are to have counted in the end.

use std::time::Duration;

use futures::future::join_all;
use harness::redis::cmd;
use harness::{
    Lang, Load, LoadReport, Party, Peer, PeerError, RedisServer, Servers, skip_or_panic,
};

/// Longer than any failover takes here: no hold ends while its holder cannot be heard. And so long a Redisson waiter
/// sleeps whose message was lost with the master.
pub(crate) const WATCHDOG: Duration = Duration::from_secs(15);
/// How long the crowd contends before anything befalls the servers, and when all is well again.
pub(crate) const BEFORE: Duration = Duration::from_secs(2);

const OWNERS: usize = 4;

/// Peers at the servers of a test, and a counter elsewhere.
pub(crate) struct Contest {
    counters: RedisServer,
    peers: Vec<Peer>,
}

impl Contest {
    /// `None` when there is no Java here.
    pub(crate) async fn new(servers: &dyn Servers, langs: [Lang; 2]) -> Option<Self> {
        Self::with(servers, langs, WATCHDOG).await
    }

    /// The same with another watchdog.
    pub(crate) async fn with(
        servers: &dyn Servers,
        langs: [Lang; 2],
        watchdog: Duration,
    ) -> Option<Self> {
        let counters = RedisServer::start();
        let args = servers.peer_args().counters(counters.url()).watchdog(watchdog);
        let mut peers = Vec::new();
        for lang in langs {
            match Peer::spawn(lang, &args).await {
                Ok(peer) => peers.push(peer),
                Err(PeerError::Unavailable(why)) => {
                    skip_or_panic("a contest", &why);
                    return None;
                }
                Err(error) => panic!("{lang}: {error}"),
            }
        }
        Some(Self { counters, peers })
    }

    /// An owner in the first process or the second.
    pub(crate) fn party(&self, peer: usize, kind: &'static str, name: &str) -> Party {
        self.peers[peer].party(format!("owner {peer}"), kind, name)
    }

    /// All count under one lock for so long.
    pub(crate) async fn run(&self, kind: &'static str, name: &str, time: Duration) -> Count {
        let load = Load::new(OWNERS, time).counter("counter").hold(Duration::from_millis(2));
        let crowds: Vec<_> =
            self.peers.iter().map(|peer| peer.party("crowd", kind, name)).collect();
        let reports = join_all(crowds.iter().map(|crowd| crowd.run(&load))).await;
        let inspector = self.counters.inspector();
        let counter = inspector.query::<Option<u64>>(cmd("GET").arg("counter")).unwrap_or(0);
        inspector.query::<()>(cmd("DEL").arg("counter"));
        Count { reports, counter }
    }
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Count {
    pub(crate) reports: Vec<LoadReport>,
    counter: u64,
}

impl Count {
    /// Nobody has overwritten what another counted: no two were in at once.
    pub(crate) fn assert_exclusive(&self) {
        let counted: u64 = self.reports.iter().map(|report| report.counted).sum();
        assert_eq!(self.counter, counted, "{self:#?}");
        assert!(counted > 0, "{self:#?}");
    }

    /// Nothing has happened that a caller had to be told of.
    pub(crate) fn assert_undisturbed(&self) {
        assert!(self.reports.iter().all(|report| report.errors == 0), "{self:#?}");
        assert!(self.reports.iter().all(|report| report.min_per_owner > 0), "{self:#?}");
    }
}
