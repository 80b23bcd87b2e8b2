//! The contestants of this run, each in a process of its own.

use std::time::Duration;

use harness::{Load, Peer, PeerError, RedisServer, skip_or_panic};

use crate::{contestant::Contestant, machine, report};

/// A JVM is slow at first.
const WARM_UP: Duration = Duration::from_secs(3);
const WARM_UP_OWNERS: usize = 16;

pub(crate) struct Processes(Vec<Process>);

pub(crate) struct Process {
    pub(crate) contestant: Contestant,
    pub(crate) peer: Peer,
}

impl Processes {
    pub(crate) async fn gather(server: &RedisServer) -> Self {
        let mut processes = Vec::new();
        for contestant in Contestant::all() {
            processes
                .extend(start(server, contestant).await.map(|peer| Process { contestant, peer }));
        }
        Self(processes)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Process> {
        self.0.iter()
    }

    /// What they are, as a table.
    pub(crate) fn notes(&self) -> String {
        let rows = self.0.iter().filter(|process| process.contestant != Contestant::OursAlone).map(
            |process| {
                let behaviour = process.contestant.behaviour();
                let version = process.contestant.package().map(machine::locked_version);
                let version = version.unwrap_or_else(|| process.peer.hello().version.clone());
                let cells = [
                    &version,
                    behaviour.waits,
                    behaviour.renews,
                    behaviour.reenters,
                    behaviour.connects,
                ];
                (process.contestant.name().to_owned(), cells.map(str::to_owned).to_vec())
            },
        );
        let header = ["contestant", "version", "who waits", "renews", "re-entrant", "connects"];
        report::table(&header.map(str::to_owned), &rows.collect::<Vec<_>>(), ":--")
    }
}

/// A warm process; `None` where there can be none.
pub(crate) async fn start(server: &RedisServer, contestant: Contestant) -> Option<Peer> {
    let peer = match contestant.spawn(&server.url()).await {
        Ok(peer) => peer,
        Err(PeerError::Unavailable(why)) => {
            skip_or_panic(contestant.name(), &why);
            return None;
        }
        Err(error) => panic!("{}: {error}", contestant.name()),
    };
    if contestant == Contestant::Redisson {
        let load = Load::new(WARM_UP_OWNERS, WARM_UP);
        peer.party("crowd", "lock", "warm-up").run(&load).await;
        peer.party("crowd", "lock", "warm-up").run(&load.each()).await;
    }
    Some(peer)
}
