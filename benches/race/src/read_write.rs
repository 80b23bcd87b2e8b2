//! A read/write lock with nine reads in ten turns: two processes, in one language and in both.
//!
//! A writer adds to a counter by GET and SET. A reader GETs it at both ends of its hold. A hold therefore lasts that much longer
//! than the table says, and the server has that much more to do. In the table of empty holds nobody does that.

use std::{ops::Range, time::Duration};

use harness::{Load, LoadReport, Peer, PeerArgs, RedisServer};

use crate::{
    pairs::{self, Pairs, client_of, title},
    report::Section,
    table::{Column, Line, Row, Table},
};

const ROUNDS: usize = 5;
const TIME: Duration = Duration::from_millis(1_500);
const WRITE_PERCENT: u8 = 10;
/// Of both processes.
const OWNERS: [usize; 2] = [8, 64];

/// A Redisson writer that misses its wake-up sleeps for as long as the lock was to live: 30 s by default, which
/// would be many rounds.
const WATCHDOG: Duration = Duration::from_secs(3);

const COLUMNS: &[Column] = &[
    Column::new("turns/s", |s| s.per_second()),
    Column::new("reads/s", |s| Some(count(s.reports, |r| r.reads) / s.time.as_secs_f64())),
    Column::new("writes/s", |s| Some(count(s.reports, |r| r.writes) / s.time.as_secs_f64())),
    Column::new("read p50, µs", |s| Some(mean(s.reports, |r| (r.reads, r.read_us.p50)))),
    Column::new("p99, µs", |s| Some(mean(s.reports, |r| (r.reads, r.read_us.p99)))),
    Column::new("write p50, µs", |s| Some(mean(s.reports, |r| (r.writes, r.write_us.p50)))),
    Column::new("p99, µs", |s| Some(mean(s.reports, |r| (r.writes, r.write_us.p99)))),
    Column::longest("longest write wait, ms", |s| Some(s.worst(|r| r.write_us.max)? / 1e3)),
];

/// Each hold lasts so long, and what a reader and a writer do besides. `None`: they do nothing.
pub(crate) async fn read_write(server: &RedisServer, hold: Option<Duration>) -> Section {
    let args = PeerArgs::redis(server.url()).watchdog(WATCHDOG);
    let pairs = Pairs::start(&args).await;
    let alone = pairs::of_rust(&args.option("--reuse-holds", "off")).await;
    let mut rows = Vec::new();
    for owners in OWNERS {
        let alone =
            row([&alone[0], &alone[1]], "redisson-lock without sharing, twice", owners, hold);
        let all = pairs.all().into_iter().map(|pair| row(pair, &title(pair), owners, hold));
        rows.extend(all.chain([alone]));
    }
    let held = match hold {
        Some(hold) => format!("held for {} ms", hold.as_millis()),
        None => "empty holds".to_owned(),
    };
    let title = format!("A read/write lock, {held}, {WRITE_PERCENT} % writes");
    let note = format!(
        "Two processes, half of the owners in each; medians of {ROUNDS} rounds of {TIME:?}, times the mean of both processes; the longest wait is that of all rounds. Watchdogs of {WATCHDOG:?}."
    );
    Table { title, note, columns: COLUMNS, time: TIME, rounds: ROUNDS, rows }.run(server).await
}

fn row(pair: [&Peer; 2], title: &str, owners: usize, hold: Option<Duration>) -> Row {
    let name = format!("{title}: {owners} owners");
    let lock = format!("read_write: {name}, {hold:?}");
    let counter = hold.map(|_| format!("count of {lock}"));
    let mut load = Load::new(owners / 2, TIME).write_percent(WRITE_PERCENT);
    if let (Some(hold), Some(counter)) = (hold, &counter) {
        load = load.hold(hold).counter(counter);
    }
    let line = |name: String, share: Range<usize>| Line { name, share, contestant: None };
    let mut lines = vec![line(name, 0..2)];
    let [one, other] = pair.map(Peer::lang);
    if one != other {
        lines.push(line(format!("… its {}", client_of(one)), 0..1));
        lines.push(line(format!("… its {}", client_of(other)), 1..2));
    }
    let parties = pair.map(|peer| peer.party("crowd", "read_write", &lock));
    Row::new(parties.into(), load, lines).counting(counter)
}

fn count(reports: &[LoadReport], of: fn(&LoadReport) -> u64) -> f64 {
    reports.iter().map(of).sum::<u64>() as f64
}

/// Each process counts for as much as it did.
fn mean(reports: &[LoadReport], figure: fn(&LoadReport) -> (u64, f64)) -> f64 {
    let figures = || reports.iter().map(figure);
    let count: u64 = figures().map(|(count, _)| count).sum();
    figures().map(|(count, value)| count as f64 * value).sum::<f64>() / count.max(1) as f64
}
