//! The contenders, and the count that they must reach.

use std::fmt;
use std::time::Duration;

use futures::future::join_all;
use harness::redis::cmd;
use harness::{
    Lang, Load, LoadReport, PATIENCE, Party, Peer, PeerArgs, PeerError, RedisServer, Servers,
    eventually, skip_or_panic,
};

use crate::progress::{Progress, Watch};

/// Longer than any failover takes here: no hold ends while its holder cannot be heard. And so long a Redisson waiter
/// sleeps whose message was lost with the master.
pub(crate) const WATCHDOG: Duration = Duration::from_secs(15);

/// Longer than anything that befalls the servers, and the turn after it.
const LONG: Duration = PATIENCE.saturating_mul(4);

const COUNTER: &str = "counter";
const ROOM: &str = "room";

/// Peers at the servers of a test, and a counter elsewhere.
pub(crate) struct Contest {
    counters: RedisServer,
    peers: Vec<Peer>,
}

impl Contest {
    /// `None` when there is no Java here.
    pub(crate) async fn new(servers: &dyn Servers, langs: [Lang; 2]) -> Option<Self> {
        Self::with(servers.peer_args().watchdog(WATCHDOG), langs).await
    }

    /// The same on other terms.
    pub(crate) async fn with(args: PeerArgs, langs: [Lang; 2]) -> Option<Self> {
        let counters = RedisServer::start();
        let args = args.counters(counters.url());
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

    /// So many of each process count under one lock for so long, each for so long at a time.
    ///
    /// # Panics
    /// When any of them does not come to an end.
    pub(crate) async fn run(
        &self,
        name: &str,
        owners: usize,
        time: Duration,
        hold: Duration,
    ) -> Count {
        let load = Load::new(owners, time).counter(COUNTER).room(ROOM).hold(hold);
        let crowds: Vec<_> =
            self.peers.iter().map(|peer| peer.party("crowd", "lock", name)).collect();
        let reports = join_all(crowds.iter().map(|crowd| crowd.run(&load))).await;
        let inspector = self.counters.inspector();
        let inside = inspector.query::<Option<i64>>(cmd("GET").arg(ROOM)).unwrap_or(0);
        let count = Count { reports, counter: self.counter(), inside };
        inspector.query::<()>(cmd("DEL").arg(COUNTER).arg(ROOM));
        count
    }

    /// They count while something befalls the servers, and then until the next turn. Their clients
    /// are closed afterwards. Returns also what befell the servers, and when they counted.
    pub(crate) async fn run_beyond<T>(
        self,
        name: &str,
        owners: usize,
        hold: Duration,
        befall: impl AsyncFnOnce(&Self) -> T,
    ) -> (Count, T, Progress) {
        let watch = self.watch();
        let ended = async {
            let befallen = befall(&self).await;
            let before = self.counter();
            let next = || (self.counter() > before).then_some(());
            eventually(PATIENCE, "a turn afterwards", next).await;
            // It may be told that a copy of a cut request could not be undone yet: its time is the command timeout.
            join_all(self.peers.iter().map(Peer::close)).await;
            befallen
        };
        let (count, befallen) = tokio::join!(self.run(name, owners, LONG, hold), ended);
        (count, befallen, watch.end())
    }

    /// What has been counted so far.
    pub(crate) fn counter(&self) -> u64 {
        let counter = self.counters.inspector().query::<Option<u64>>(cmd("GET").arg(COUNTER));
        counter.unwrap_or(0)
    }

    /// Stops all peers where they stand.
    pub(crate) fn pause(&self) {
        self.peers.iter().for_each(Peer::pause);
    }

    pub(crate) fn resume(&self) {
        self.peers.iter().for_each(Peer::resume);
    }

    /// Looks on while they count.
    pub(crate) fn watch(&self) -> Watch {
        Watch::on(&self.counters, COUNTER)
    }
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Count {
    pub(crate) reports: Vec<LoadReport>,
    counter: u64,
    /// How many have come in and not gone out.
    inside: i64,
}

impl Count {
    fn sum(&self, of: impl Fn(&LoadReport) -> u64) -> u64 {
        self.reports.iter().map(of).sum()
    }

    /// Something was counted, and whoever came in went out.
    pub(crate) fn assert_whole(&self) {
        assert!(self.counter > 0, "{self:#?}");
        assert_eq!(self.inside, 0, "{self:#?}");
    }

    /// No two were in at once: nobody met another, and nobody has overwritten what another counted.
    pub(crate) fn assert_exclusive(&self) {
        assert_eq!(self.sum(|report| report.overlaps), 0, "{self:#?}");
        assert_eq!(self.counter, self.sum(|report| report.counted), "{self:#?}");
    }

    /// Nothing has happened that a caller had to be told of.
    pub(crate) fn assert_undisturbed(&self) {
        assert!(self.reports.iter().all(|report| report.errors == 0), "{self:#?}");
        assert!(self.reports.iter().all(|report| report.min_per_owner > 0), "{self:#?}");
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of_each = |of: fn(&LoadReport) -> u64| {
            self.reports.iter().map(|report| of(report).to_string()).collect::<Vec<_>>().join(" + ")
        };
        let waited = self.reports.iter().map(|report| report.acquire_us.max / 1e6);
        write!(
            f,
            "turns {}, overlaps {}, counts overwritten {}, errors {}, least of one owner {}, longest wait {:.1} s",
            of_each(|report| report.acquired),
            of_each(|report| report.overlaps),
            self.sum(|report| report.counted) - self.counter,
            of_each(|report| report.errors),
            of_each(|report| report.min_per_owner),
            waited.fold(0.0, f64::max),
        )
    }
}
