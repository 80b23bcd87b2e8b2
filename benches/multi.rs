//! Several locks as one: two callers who name them differently, and a majority of five servers.
//!
//! `cargo bench --bench multi` first lets two processes take 5 of 8 locks each, other ones and in another order every
//! time, so that they always overlap: two of Rust, two of Redisson, and one of either, by turns in one run. Where two
//! callers wait for each other, that shows as a turn that takes seconds, and as a deadlock: a time longer than a second in
//! which neither is granted anything. The times are taken in the peers. All run for as long as Rust alone needs for
//! `MULTI_TURNS` turns, or in fewer rounds than a hundred.
//! Then it takes and releases a majority of 5 servers, first with all up and then with 2 of them stopped.

use std::time::{Duration, Instant};

use futures::future::join_all;
use harness::{Lang, Party, Peer, PeerArgs, RedisServer};
use redisson_lock::{Client, Config, MultiLock};
use serde_json::Value;
use tokio::time::sleep;

const LOCKS: usize = 8;
const TAKEN: usize = 5;
/// So many at least, and more until Rust has had its turns.
const ROUNDS: usize = 3;
const MOST_ROUNDS: usize = 100;
const ROUND: Duration = Duration::from_secs(5);
const HOLD: Duration = Duration::from_millis(1);
/// Longer than this takes only who waits for somebody who waits for him, and gives up in the end.
const STALL: Duration = Duration::from_secs(1);
const LIMIT: Duration = Duration::from_secs(120);

const SERVERS: usize = 5;
const STOPPED: usize = 2;
const MAJORITIES: usize = 2_000;

#[tokio::main]
async fn main() {
    let server = RedisServer::start();
    let args = PeerArgs::redis(server.url());
    let peer = async |lang| Peer::spawn(lang, &args).await.expect("a peer");
    let (rust, rust_too) = (peer(Lang::Rust).await, peer(Lang::Rust).await);
    let (java, java_too) = (peer(Lang::Java).await, peer(Lang::Java).await);
    let mut cells = [[&rust, &rust_too], [&java, &java_too], [&rust, &java]].map(Cell::new);
    let wanted = std::env::var("MULTI_TURNS").map_or(0, |turns| turns.parse().expect("a number"));
    let mut rounds = 0;
    // The first one warms up.
    while rounds <= ROUNDS || rounds <= MOST_ROUNDS && cells[0].acquisitions.len() < wanted {
        for cell in &mut cells {
            cell.run(rounds > 0).await;
        }
        rounds += 1;
    }
    println!(
        "{TAKEN} of {LOCKS} locks, two callers, held {HOLD:?}, {} rounds of {ROUND:?}; acquisitions in µs, stalls are \
         longer than {STALL:?}, and deadlocks if neither is granted anything for so long",
        rounds - 1
    );
    println!(
        "{:>10} {:>8} {:>8} {:>8} {:>8} {:>9} {:>6} {:>9}",
        "processes", "turns", "turns/s", "p50", "p99", "longest", "stalls", "deadlocks"
    );
    cells.iter_mut().for_each(Cell::print);
    for peer in [rust, rust_too, java, java_too] {
        peer.close().await.expect("a clean end");
    }

    let servers: Vec<_> = (0..SERVERS).map(|_| RedisServer::start()).collect();
    let connect =
        servers.iter().map(|server| Client::connect(Config::from_url(server.url()).unwrap()));
    let clients: Vec<_> = join_all(connect).await.into_iter().map(Result::unwrap).collect();
    let lock = MultiLock::majority(clients.iter().map(|client| client.lock("majority")));
    let all_up = majorities(&lock).await;
    servers[..STOPPED].iter().for_each(RedisServer::pause);
    let hanging = majorities(&lock).await;
    servers[..STOPPED].iter().for_each(RedisServer::resume);
    println!("\na majority of {SERVERS} servers, {MAJORITIES} times, µs");
    println!("{:>10} {:>8} {:>8} {:>9} {:>12}", "", "granted", "p99", "longest", "released");
    for (what, [granted, released]) in [("all up", all_up), ("2 stopped", hanging)] {
        let [half, most, longest] = [50, 99, 100].map(|percent| at(&granted, percent));
        println!("{what:>10} {half:>8} {most:>8} {longest:>9} {:>12}", at(&released, 50));
    }
    for client in clients {
        let _ = client.close().await;
    }
}

/// Two callers.
struct Cell {
    callers: [Party; 2],
    acquisitions: Vec<Duration>,
    deadlocks: usize,
    time: Duration,
}

/// An acquisition: when it was granted, and how long that took.
type Turn = (Instant, Duration);

impl Cell {
    fn new(sides: [&Peer; 2]) -> Self {
        let [one, other] = sides.map(Peer::lang);
        let lock = format!("{one}+{other}");
        let caller = |peer: &Peer| peer.party("caller", "multi", &lock);
        let callers = sides.map(caller);
        Self { callers, acquisitions: Vec::new(), deadlocks: 0, time: Duration::ZERO }
    }

    async fn run(&mut self, counts: bool) {
        let begun = Instant::now();
        let [one, other] = &self.callers;
        let (one, other) = tokio::join!(turns(one, begun), turns(other, begun));
        if counts {
            self.time += begun.elapsed();
            let (mut moments, took): (Vec<_>, Vec<_>) = one.into_iter().chain(other).unzip();
            self.acquisitions.extend(took);
            moments.push(begun);
            moments.sort_unstable();
            let deadlocks = moments.windows(2).filter(|pair| pair[1] - pair[0] > STALL);
            self.deadlocks += deadlocks.count();
        }
    }

    fn print(&mut self) {
        self.acquisitions.sort_unstable();
        let [one, other] = self.callers.each_ref().map(|caller| caller.peer().lang());
        let stalls = self.acquisitions.iter().filter(|time| **time > STALL).count();
        let (turns, deadlocks) = (self.acquisitions.len(), self.deadlocks);
        let rate = turns as f64 / self.time.as_secs_f64();
        let [half, most, longest] = [50, 99, 100].map(|percent| at(&self.acquisitions, percent));
        let processes = format!("{one}, {other}");
        println!(
            "{processes:>10} {turns:>8} {rate:>8.1} {half:>8} {most:>8} {longest:>9} {stalls:>6} {deadlocks:>9}"
        );
    }
}

/// Takes and releases, other locks each time.
async fn turns(caller: &Party, begun: Instant) -> Vec<Turn> {
    let mut turns = Vec::new();
    while begun.elapsed() < ROUND {
        let mut names: Vec<_> = (0..LOCKS).map(|i| format!("stock:{i}")).collect();
        fastrand::shuffle(&mut names);
        names.truncate(TAKEN);
        let caller = caller.of_members(names);
        let granted = caller.start_lock().granted_within(LIMIT).await;
        turns.push((Instant::now(), granted.took()));
        sleep(HOLD).await;
        caller.start("unlock", Value::Null).answer().await.expect("it was held");
    }
    turns
}

/// How long it took to be granted, and to release.
async fn majorities(lock: &MultiLock) -> [Vec<Duration>; 2] {
    let [mut granted, mut released] = [Vec::new(), Vec::new()];
    for _ in 0..MAJORITIES {
        let begun = Instant::now();
        let guard = lock.lock().lease(Duration::from_secs(10)).await.expect("a majority");
        granted.push(begun.elapsed());
        let begun = Instant::now();
        guard.unlock().await.expect("it was held");
        released.push(begun.elapsed());
    }
    granted.sort_unstable();
    released.sort_unstable();
    [granted, released]
}

/// In µs.
fn at(sorted: &[Duration], percent: usize) -> u128 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).map_or(0, Duration::as_micros)
}
