//! A read/write lock with nine reads in ten turns: two processes, in one language and in both.
//!
//! With a counter, a writer adds to it by GET and SET, and a reader GETs it at both ends of its hold. A hold therefore lasts that much
//! longer than the table says.

use std::{ops::Range, time::Duration};

use harness::{Lang, Load, LoadReport, Peer, PeerArgs, RedisServer};

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

/// What a hold is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    Nothing,
    Counter,
}

/// Each hold lasts so long, and what a reader and a writer do besides.
pub(crate) async fn read_write(server: &RedisServer, hold: Duration, work: Work) -> Section {
    let args = PeerArgs::redis(server.url()).watchdog(WATCHDOG);
    let pairs = Pairs::start(&args).await;
    let alone = pairs::pair(Lang::Rust, &args.optimized().handing_nothing_on()).await;
    let alone = alone.unwrap_or_else(|error| panic!("{error}"));
    let mut rows = Vec::new();
    for owners in OWNERS {
        for (n, pair) in pairs.all().into_iter().enumerate() {
            rows.push(row(&title(pair), pair, owners, hold, work));
            if n == 0 {
                rows.push(row("… not passing on", alone.each_ref(), owners, hold, work));
            }
        }
    }
    let ms = hold.as_millis();
    let title = match work {
        Work::Nothing => format!("A read/write lock, held for {ms} ms, {WRITE_PERCENT} % writes"),
        Work::Counter => {
            format!(
                "A read/write lock around a counter, for {ms} ms more, {WRITE_PERCENT} % writes"
            )
        }
    };
    let note = format!(
        "Two processes, half of the owners in each; medians of {ROUNDS} rounds of {TIME:?}, times the mean of both processes; the longest wait is that of all rounds. Watchdogs of {WATCHDOG:?}."
    );
    Table { title, note, columns: COLUMNS, time: TIME, rounds: ROUNDS, rows }.run(server).await
}

fn row(title: &str, pair: [&Peer; 2], owners: usize, hold: Duration, work: Work) -> Row {
    let name = format!("{title}: {owners} owners");
    let lock = format!("read_write: {name}, {hold:?}, {work:?}");
    let counter = format!("count of {lock}");
    let load = Load::new(owners / 2, TIME).hold(hold).write_percent(WRITE_PERCENT);
    let line = |name: String, share: Range<usize>| Line { name, share, contestant: None };
    let mut lines = vec![line(name, 0..2)];
    let [one, other] = pair.map(Peer::lang);
    if one != other {
        lines.push(line(format!("… its {}", client_of(one)), 0..1));
        lines.push(line(format!("… its {}", client_of(other)), 1..2));
    }
    let parties = pair.map(|peer| peer.party("crowd", "read_write", &lock));
    match work {
        Work::Nothing => Row::new(parties.into(), load, lines),
        Work::Counter => Row::new(parties.into(), load.counter(&counter), lines).counting(counter),
    }
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
