//! What a read/write lock carries when nine turns in ten read, in either language and across both.
//!
//! `cargo bench --bench read_write` lets two processes come and go at one lock, half of the owners in each: two of
//! Rust, two of Redisson, and one of either. All cells of the table take turns in one run, round by round; the
//! medians of the rounds are printed. A writer adds to a counter by GET and SET, a reader GETs it at both ends of
//! its hold: so much longer than said lasts a hold.

use std::time::Duration;

use harness::{Inspector, Lang, Load, LoadReport, Party, Peer, PeerArgs, RedisServer, redis};

/// Warms up the JVMs, too.
const WARM_UP: usize = 1;
const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_millis(1_500);
const WRITE_PERCENT: u8 = 10;
const OWNERS: [usize; 2] = [8, 64];
const HOLDS: [Duration; 2] = [Duration::ZERO, Duration::from_millis(1)];

/// A Redisson writer that misses its wake-up sleeps for as long as the lock was to live: 30 s by default, which
/// would be many rounds.
const WATCHDOG: Duration = Duration::from_secs(3);

type Figure = fn(&[LoadReport]) -> f64;

const COLUMNS: [(&str, Figure); 7] = [
    ("turns/s", |sides| per_second(sides, |side| side.acquired)),
    ("reads/s", |sides| per_second(sides, |side| side.reads)),
    ("writes/s", |sides| per_second(sides, |side| side.writes)),
    ("read p50", |sides| mean(sides, |side| (side.reads, side.read_us.p50))),
    ("p99", |sides| mean(sides, |side| (side.reads, side.read_us.p99))),
    ("write p50", |sides| mean(sides, |side| (side.writes, side.write_us.p50))),
    ("p99", |sides| mean(sides, |side| (side.writes, side.write_us.p99))),
];

#[tokio::main]
async fn main() {
    let server = RedisServer::start();
    let args = PeerArgs::redis(server.url()).watchdog(WATCHDOG);
    let peer = async |lang| Peer::spawn(lang, &args).await.expect("a peer");
    let (rust, rust_too) = (peer(Lang::Rust).await, peer(Lang::Rust).await);
    let (java, java_too) = (peer(Lang::Java).await, peer(Lang::Java).await);
    let mut cells = Vec::new();
    for hold in HOLDS {
        for owners in OWNERS {
            for sides in [[&rust, &rust_too], [&java, &java_too], [&rust, &java]] {
                cells.push(Cell::new(sides, owners, hold));
            }
        }
    }
    for round in 0..WARM_UP + ROUNDS {
        for cell in &mut cells {
            cell.run(round >= WARM_UP).await;
        }
    }
    println!(
        "{WRITE_PERCENT} % writes, watchdog {WATCHDOG:?}, medians of {ROUNDS} rounds of {ROUND:?}; times in µs, of \
         two processes their mean; the longest a writer waited in all rounds, in ms"
    );
    for hold in HOLDS {
        println!("\nhold {hold:?}");
        print!("{:>14} {:>6}", "processes", "owners");
        COLUMNS.iter().for_each(|(name, _)| print!(" {name:>9}"));
        println!(" {:>9} {:>6} {:>6}", "longest", "errors", "torn");
        cells.iter().filter(|cell| cell.hold == hold).for_each(Cell::print);
    }
    let inspector = server.inspector();
    cells.iter().for_each(|cell| cell.check(&inspector));
    for peer in [rust, rust_too, java, java_too] {
        peer.close().await.expect("a clean end");
    }
}

/// Two processes at one lock.
struct Cell {
    sides: [Party; 2],
    owners: usize,
    hold: Duration,
    counter: String,
    /// Those of the warm-up, too.
    counted: u64,
    torn: u64,
    rounds: Vec<[LoadReport; 2]>,
}

impl Cell {
    fn new(sides: [&Peer; 2], owners: usize, hold: Duration) -> Self {
        let [one, other] = sides.map(Peer::lang);
        let lock = format!("{one}-{other}:{owners}:{}", hold.as_micros());
        Self {
            sides: sides.map(|side| side.party("crowd", "read_write", &lock)),
            owners,
            hold,
            counter: format!("count:{lock}"),
            counted: 0,
            torn: 0,
            rounds: Vec::new(),
        }
    }

    async fn run(&mut self, counts: bool) {
        let load = Load::new(self.owners / 2, ROUND)
            .hold(self.hold)
            .counter(&self.counter)
            .write_percent(WRITE_PERCENT);
        let [one, other] = &self.sides;
        let reports: [LoadReport; 2] = tokio::join!(one.run(&load), other.run(&load)).into();
        self.counted += reports.iter().map(|side| side.counted).sum::<u64>();
        self.torn += reports.iter().map(|side| side.torn).sum::<u64>();
        if counts {
            self.rounds.push(reports);
        }
    }

    /// Of two languages, what either got in a line of its own.
    fn print(&self) {
        let [one, other] = self.sides.each_ref().map(|side| side.peer().lang());
        self.print_line(&format!("{one}+{other}"), 0..2);
        if one != other {
            self.print_line(&format!("its {one}"), 0..1);
            self.print_line(&format!("its {other}"), 1..2);
        }
    }

    fn print_line(&self, name: &str, sides: std::ops::Range<usize>) {
        let rounds = || self.rounds.iter().map(|reports| &reports[sides.clone()]);
        print!("{name:>14} {:>6}", self.owners / 2 * sides.len());
        for (_, figure) in COLUMNS {
            print!(" {:>9.0}", median(rounds().map(figure).collect()));
        }
        let reports = || rounds().flatten();
        let longest = reports().map(|side| side.write_us.max).fold(0.0, f64::max) / 1e3;
        let errors: u64 = reports().map(|side| side.errors).sum();
        let torn: u64 = reports().map(|side| side.torn).sum();
        println!(" {longest:>9.0} {errors:>6} {torn:>6}");
    }

    fn check(&self, inspector: &Inspector) {
        let count: u64 = inspector.query(redis::cmd("GET").arg(&self.counter));
        assert_eq!(self.torn, 0, "{}: somebody wrote beside a reader", self.counter);
        assert_eq!(self.counted, count, "{}: writes were lost", self.counter);
    }
}

fn per_second(sides: &[LoadReport], count: fn(&LoadReport) -> u64) -> f64 {
    sides.iter().map(count).sum::<u64>() as f64 / ROUND.as_secs_f64()
}

/// Each process counts for as much as it did.
fn mean(sides: &[LoadReport], figure: fn(&LoadReport) -> (u64, f64)) -> f64 {
    let figures = || sides.iter().map(figure);
    let count: u64 = figures().map(|(count, _)| count).sum();
    figures().map(|(count, value)| count as f64 * value).sum::<f64>() / count.max(1) as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
