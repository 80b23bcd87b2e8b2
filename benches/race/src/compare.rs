//! The speed of this tree beside that of a commit: the test peers of both do the same, by turns, on one server.
//!
//! `make compare ARGS=<commit>` builds the peer of the commit, runs this, and writes nothing.

use std::{path::PathBuf, time::Duration};

use futures::future::join_all;
use harness::{Lang, Load, Party, Peer, PeerArgs, RedisServer};
use serde_json::{Value, json};

use crate::{
    client::PERMITS,
    figures::{percentile, readable},
    meter::Meter,
    report::Section,
};

const ROUNDS: usize = 20;
const TIME: Duration = Duration::from_millis(400);

/// What owners do in one process or in several.
struct Work {
    name: &'static str,
    kind: &'static str,
    processes: usize,
    load: fn(Load) -> Load,
    /// In each process.
    owners: usize,
}

impl Work {
    const fn new(name: &'static str, kind: &'static str, processes: usize, owners: usize) -> Self {
        Self { name, kind, processes, owners, load: |load| load }
    }

    const fn each(self) -> Self {
        Self { load: Load::each, ..self }
    }

    const fn written(self) -> Self {
        Self { load: |load| load.write_percent(10), ..self }
    }
}

const WORKS: &[Work] = &[
    Work::new("a lock of its own: 1 task", "lock", 1, 1).each(),
    Work::new("a lock of its own: 64 tasks", "lock", 1, 64).each(),
    Work::new("a lock of its own: 1 000 tasks", "lock", 1, 1_000).each(),
    Work::new("one lock: 8 tasks", "lock", 1, 8),
    Work::new("one lock: 64 tasks", "lock", 1, 64),
    Work::new("one lock: 2 processes of 1 task", "lock", 2, 1),
    Work::new("one lock: 4 processes of 8 tasks", "lock", 4, 8),
    Work::new("a fair lock: 2 processes of 8 tasks", "fair", 2, 8),
    Work::new("a fenced lock: 2 processes of 8 tasks", "fenced", 2, 8),
    Work::new("a read/write lock, 10 % writes: 2 processes of 32 tasks", "read_write", 2, 32)
        .written(),
    Work::new("a plain lock: 2 processes of 8 tasks", "plain", 2, 8),
    Work::new("all of three locks: 2 processes of 2 tasks", "multi", 2, 2),
    Work::new("a semaphore of few permits: 2 processes of 8 tasks", "semaphore", 2, 8),
    Work::new("an expirable semaphore: 2 processes of 8 tasks", "expirable_semaphore", 2, 8),
];

/// The processes of one of the two trees.
struct Side(Vec<Peer>);

impl Side {
    async fn start(args: &PeerArgs) -> Self {
        let most = WORKS.iter().map(|work| work.processes).max().unwrap_or_default();
        let peers = join_all((0..most).map(|_| Peer::spawn(Lang::Rust, args))).await;
        Self(peers.into_iter().map(|peer| peer.unwrap_or_else(|why| panic!("{why}"))).collect())
    }

    /// Those who do this work. `name`: of the lock. `None`: they do not know this kind yet.
    async fn parties(&self, work: &Work, name: &str) -> Option<Vec<Party>> {
        let peers = &self.0[..work.processes];
        let parties: Vec<_> =
            peers.iter().map(|peer| peer.party("crowd", work.kind, name)).collect();
        let first = match work.kind {
            // All commits know them. Of some kinds, or by some commits, they cannot be asked that.
            "lock" | "fair" | "fenced" | "read_write" | "multi" => return Some(parties),
            kind if kind.ends_with("semaphore") => {
                parties[0].ask("set", json!({ "n": PERMITS })).await
            }
            _ => parties[0].ask("is_locked", Value::Null).await,
        };
        first.is_ok().then_some(parties)
    }
}

/// What one side did in one round.
struct Outcome {
    turns: f64,
    /// µs of the server for each turn.
    server_cpu: f64,
}

async fn run(parties: &[Party], work: &Work, meter: &mut Meter) -> Outcome {
    let load = (work.load)(Load::new(work.owners, TIME));
    let before = meter.read();
    let reports = join_all(parties.iter().map(|party| party.run(&load))).await;
    let used = meter.read().since(&before).cpu.as_secs_f64() * 1e6;
    let errors: u64 = reports.iter().map(|report| report.errors).sum();
    assert_eq!(errors, 0, "{}", work.name);
    let turns = reports.iter().map(|report| report.acquired).sum::<u64>() as f64;
    Outcome { turns, server_cpu: used / turns.max(1.0) }
}

/// `program`: the peer of the commit. `wanted`: only work with one of these in its name, if there are any.
pub(crate) async fn with(program: PathBuf, wanted: &[String], server: &RedisServer) -> Section {
    let args = PeerArgs::redis(server.url()).optimized();
    let sides = [Side::start(&args.clone().launcher(program)).await, Side::start(&args).await];
    let mut meter = Meter::new(server.client());
    let mut rows = Vec::new();
    let is_wanted = |work: &&Work| {
        wanted.is_empty() || wanted.iter().any(|part| work.name.contains(part.as_str()))
    };
    for work in WORKS.iter().filter(is_wanted) {
        eprintln!("{} …", work.name);
        let [old, new] = [("before", &sides[0]), ("now", &sides[1])]
            .map(|(when, side)| (format!("{when}: {}", work.name), side));
        let new = new.1.parties(work, &new.0).await.expect("a kind of this tree");
        let Some(old) = old.1.parties(work, &old.0).await else {
            rows.push((work.name.to_owned(), vec!["–".to_owned(); 6]));
            continue;
        };
        let parties = [old, new];
        let mut rounds = Vec::new();
        for round in 0..=ROUNDS {
            let [first, second] = if round % 2 == 0 { [0, 1] } else { [1, 0] };
            let one = run(&parties[first], work, &mut meter).await;
            let other = run(&parties[second], work, &mut meter).await;
            // The first one warms up.
            if round > 0 {
                rounds.push(if first == 0 { [one, other] } else { [other, one] });
            }
        }
        let cells = cells(&rounds).map(readable);
        eprintln!("    {}", cells.join(", "));
        rows.push((work.name.to_owned(), cells.into()));
    }
    Section {
        title: "This tree beside a commit".into(),
        note: format!(
            "Medians of {ROUNDS} rounds of {TIME:?} each, by turns. The ratios are those of the rounds: above 1 this tree does more turns a second, or the server uses more CPU for a turn."
        ),
        header: [
            "",
            "before, turns/s",
            "now, turns/s",
            "now / before",
            "lower quartile",
            "upper quartile",
            "server CPU, now / before",
        ]
        .map(str::to_owned)
        .into(),
        rows,
        charts: Vec::new(),
    }
}

fn cells(rounds: &[[Outcome; 2]]) -> [f64; 6] {
    let sorted = |figure: &dyn Fn(&[Outcome; 2]) -> f64| {
        let mut figures: Vec<_> = rounds.iter().map(figure).collect();
        figures.sort_by(f64::total_cmp);
        figures
    };
    let per_second =
        |side: usize| percentile(&sorted(&|round| round[side].turns / TIME.as_secs_f64()), 50);
    let ratios = sorted(&|[before, now]| now.turns / before.turns.max(1.0));
    let cpu = sorted(&|[before, now]| now.server_cpu / before.server_cpu);
    [
        per_second(0),
        per_second(1),
        percentile(&ratios, 50),
        percentile(&ratios, 25),
        percentile(&ratios, 75),
        percentile(&cpu, 50),
    ]
}
