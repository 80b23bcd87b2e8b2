//! Four processes at one lock, of one contestant or of two.

use std::time::Duration;

use futures::future::join_all;
use harness::{Load, Peer, RedisServer};

use crate::{
    contestant::Contestant,
    processes,
    report::Section,
    table::{Column, Line, Row, Table, evenness},
};

const PROCESSES: usize = 4;
const OWNERS: usize = 8;
const ROUNDS: usize = 5;
const TIME: Duration = Duration::from_millis(2_500);

const COLUMNS: &[Column] = &[
    Column::plotted("acquisitions/s", |s| s.per_second()),
    Column::new("commands each", |s| s.commands()),
    Column::new("least/most of a process", |s| evenness(s.reports.iter().map(|r| r.acquired))),
    Column::new("wait p50, µs", |s| s.worst(|r| r.acquire_us.p50)),
    Column::plotted("wait p99, µs", |s| s.worst(|r| r.acquire_us.p99)),
    Column::new("p50 of the usual owner, µs", |s| s.usual_owner()),
    Column::new("p99 of the worst-off owner, µs", |s| s.worst_owner()),
];

pub(crate) async fn crowds(server: &RedisServer) -> Section {
    let mut crowds = Vec::new();
    for contestant in Contestant::all().into_iter().filter(|contestant| is_invited(*contestant)) {
        crowds.extend(Crowd::gather(server, contestant).await);
    }
    let mut rows: Vec<_> = crowds.iter().map(Crowd::alone).collect();
    let (ours, theirs): (Vec<_>, Vec<_>) =
        crowds.iter().partition(|crowd| crowd.contestant.is_ours());
    for one in &ours {
        rows.extend(theirs.iter().map(|other| one.with(other)));
    }
    let title = format!("{PROCESSES} processes of {OWNERS} owners at one lock");
    let note = format!(
        "Medians of {ROUNDS} rounds of {TIME:?}. Waits are those of the process that waited longest, and of single owners: the usual one, and the one worst off."
    );
    Table { title, note, columns: COLUMNS, time: TIME, rounds: ROUNDS, rows }.run(server).await
}

fn is_invited(contestant: Contestant) -> bool {
    matches!(contestant, Contestant::Ours | Contestant::OursAlone | Contestant::Redisson)
}

/// As many processes of one kind as it takes.
struct Crowd {
    contestant: Contestant,
    peers: Vec<Peer>,
}

impl Crowd {
    async fn gather(server: &RedisServer, contestant: Contestant) -> Option<Self> {
        let peers = join_all((0..PROCESSES).map(|_| processes::start(server, contestant))).await;
        Some(Self { contestant, peers: peers.into_iter().collect::<Option<_>>()? })
    }

    fn alone(&self) -> Row {
        let name = format!("{PROCESSES} of {}", self.contestant.name());
        let line = Line { name, share: 0..PROCESSES, contestant: Some(self.contestant) };
        row(&self.peers, vec![line])
    }

    /// Half of either.
    fn with(&self, other: &Self) -> Row {
        let half = PROCESSES / 2;
        let peers: Vec<_> =
            self.peers[..half].iter().chain(&other.peers[half..]).cloned().collect();
        let both =
            format!("{half} of {}, {half} of {}", self.contestant.name(), other.contestant.name());
        let part = |of: &Self, share| Line {
            name: format!("… its {}", of.contestant.name()),
            share,
            contestant: None,
        };
        let lines = vec![
            Line { name: both, share: 0..PROCESSES, contestant: None },
            part(self, 0..half),
            part(other, half..PROCESSES),
        ];
        row(&peers, lines)
    }
}

fn row(peers: &[Peer], lines: Vec<Line>) -> Row {
    let lock = format!("crowd: {}", lines[0].name);
    let parties = peers.iter().map(|peer| peer.party("crowd", "lock", &lock)).collect();
    Row::new(parties, Load::new(OWNERS, TIME), lines)
}
