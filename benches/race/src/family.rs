//! Semaphores and plain locks: two processes, in one language and in both. Beside them one process with tokio's semaphore.

use std::time::Duration;

use harness::{Load, Peer, PeerArgs, RedisServer};

use crate::{
    client::{HOLD, LOCAL_SEMAPHORE, PERMITS},
    contestant::start_client,
    pairs::{Pairs, title},
    report::Section,
    table::{Column, Line, Row, Table, evenness},
};

const ROUNDS: usize = 5;
const TIME: Duration = Duration::from_millis(1_000);
/// Of both processes.
const OWNERS: [usize; 2] = [2, 64];

const COLUMNS: &[Column] = &[
    Column::new("turns/s", |s| s.per_second()),
    Column::new("least/most turns of an owner", |s| {
        evenness(s.reports.iter().flat_map(|r| [r.min_per_owner, r.max_per_owner]))
    }),
    Column::new("wait p50, µs", |s| s.worst(|r| r.acquire_us.p50)),
    Column::new("p99, µs", |s| s.worst(|r| r.acquire_us.p99)),
    Column::longest("longest wait, ms", |s| Some(s.worst(|r| r.acquire_us.max)? / 1e3)),
    Column::new("server CPU, µs/turn", |s| s.server_cpu()),
];

/// Owners that take one of few permits.
pub(crate) async fn semaphores(server: &RedisServer) -> Section {
    permits(server, "semaphore", format!("A semaphore of {PERMITS} permits"), "one permit").await
}

/// The same with permits that have ids. Those of this crate are renewed by the watchdog, Redisson's have no end.
pub(crate) async fn expirable_semaphores(server: &RedisServer) -> Section {
    let title = format!("An expirable semaphore of {PERMITS} permits");
    permits(server, "expirable_semaphore", title, "one permit without a lease").await
}

async fn permits(server: &RedisServer, kind: &'static str, title: String, what: &str) -> Section {
    let pairs = Pairs::start(&PeerArgs::redis(server.url())).await;
    let tokio = start_client(&server.url(), LOCAL_SEMAPHORE).await;
    let mut rows = Vec::new();
    for owners in OWNERS {
        rows.push(local_row(&tokio, owners));
        for pair in pairs.all() {
            let row = row(kind, pair, owners);
            assert_eq!(row.parties[0].with("set", PERMITS.into()).await, true, "a new semaphore");
            rows.push(row);
        }
    }
    table(title, rows, what).run(server).await
}

/// Owners of one lock by `SET NX PX`. The Java peer polls every 20 ms: no library of Java's has this lock.
pub(crate) async fn plain_locks(server: &RedisServer) -> Section {
    let pairs = Pairs::start(&PeerArgs::redis(server.url())).await;
    let mut rows = Vec::new();
    for owners in OWNERS {
        rows.extend(pairs.all().into_iter().map(|pair| row("plain", pair, owners)));
    }
    let title = "A plain lock (SET NX PX; in Java by hand, polling every 20 ms)".to_owned();
    table(title, rows, "the lock").run(server).await
}

/// All owners in one process, without a server.
fn local_row(tokio: &Peer, owners: usize) -> Row {
    let name = format!("tokio's Semaphore, one process: {owners} owners");
    let line = Line { name, share: 0..1, contestant: None };
    Row::new(vec![tokio.party("crowd", "lock", "local")], Load::new(owners, TIME), vec![line])
}

fn row(kind: &'static str, pair: [&Peer; 2], owners: usize) -> Row {
    let name = format!("{}: {owners} owners", title(pair));
    let parties = pair.map(|peer| peer.party("crowd", kind, format!("{kind}: {name}")));
    let line = Line { name, share: 0..2, contestant: None };
    Row::new(parties.into(), Load::new(owners / 2, TIME).hold(HOLD), vec![line])
}

fn table(title: String, rows: Vec<Row>, what: &str) -> Table {
    let note = format!(
        "Two processes, half of the owners in each, if nothing else is said. An owner takes {what}, keeps it for {HOLD:?}, and returns it; medians of {ROUNDS} rounds of {TIME:?}, the longest wait is that of all rounds. Waits are those of the slower process."
    );
    Table { title, note, columns: COLUMNS, time: TIME, rounds: ROUNDS, rows }
}
