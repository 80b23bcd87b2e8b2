//! The contestants of this run, each in a process of its own.

use std::time::Duration;

use harness::{Load, Peer, PeerError, RedisServer, skip_or_panic};

use crate::{entrant::Entrant, machine, report};

/// A JVM is slow at first.
const WARM_UP: Duration = Duration::from_secs(3);
const WARM_UP_OWNERS: usize = 16;

pub(crate) struct Field(Vec<Racer>);

pub(crate) struct Racer {
    pub(crate) entrant: Entrant,
    pub(crate) peer: Peer,
}

impl Field {
    pub(crate) async fn gather(server: &RedisServer) -> Self {
        let mut racers = Vec::new();
        for entrant in Entrant::all() {
            racers.extend(start(server, entrant).await.map(|peer| Racer { entrant, peer }));
        }
        Self(racers)
    }

    pub(crate) fn racers(&self) -> impl Iterator<Item = &Racer> {
        self.0.iter()
    }

    /// What they are, as a table.
    pub(crate) fn notes(&self) -> String {
        let rows = self.0.iter().filter(|racer| racer.entrant != Entrant::OursAlone).map(|racer| {
            let manners = racer.entrant.manners();
            let version = racer.entrant.package().map(machine::locked_version);
            let version = version.unwrap_or_else(|| racer.peer.hello().version.clone());
            let cells =
                [&version, manners.waits, manners.renews, manners.reenters, manners.connects];
            (racer.entrant.name().to_owned(), cells.map(str::to_owned).to_vec())
        });
        let header = ["contestant", "version", "who waits", "renews", "re-entrant", "connects"];
        report::table(&header.map(str::to_owned), &rows.collect::<Vec<_>>(), ":--")
    }
}

/// A warm process; `None` where there can be none.
pub(crate) async fn start(server: &RedisServer, entrant: Entrant) -> Option<Peer> {
    let peer = match entrant.spawn(&server.url()).await {
        Ok(peer) => peer,
        Err(PeerError::Unavailable(why)) => {
            skip_or_panic(entrant.name(), &why);
            return None;
        }
        Err(error) => panic!("{}: {error}", entrant.name()),
    };
    if entrant == Entrant::Redisson {
        let load = Load::new(WARM_UP_OWNERS, WARM_UP);
        peer.party("crowd", "lock", "warm-up").run(&load).await;
        peer.party("crowd", "lock", "warm-up").run(&load.each()).await;
    }
    Some(peer)
}
