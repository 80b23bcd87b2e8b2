//! Several locks as one: two callers who name them differently, and a majority of five servers.
//!
//! `cargo bench --bench multi` first lets two processes take 5 of 8 locks each, other ones and in another order every
//! time, so that they always overlap: two of Rust, two of Redisson, and one of either, by turns in one run. Where two
//! callers wait for each other, that shows as a turn that takes seconds. The times are taken in the peers.
//! Then it takes and releases a majority of 5 servers, first with all up and then with 2 of them stopped.

use std::time::{Duration, Instant};

use futures::future::join_all;
use harness::{Lang, Party, Peer, PeerArgs, RedisServer};
use redisson_lock::{Client, Config, MultiLock};
use serde_json::Value;
use tokio::time::sleep;

const LOCKS: usize = 8;
const TAKEN: usize = 5;
const ROUNDS: usize = 3;
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
    for round in 0..=ROUNDS {
        for cell in &mut cells {
            // The first one warms up.
            cell.run(round > 0).await;
        }
    }
    println!(
        "{TAKEN} of {LOCKS} locks, two callers, held {HOLD:?}, {ROUNDS} rounds of {ROUND:?}; acquisitions in µs, stalls \
         are longer than {STALL:?}"
    );
    println!(
        "{:>10} {:>8} {:>8} {:>8} {:>9} {:>6}",
        "processes", "turns/s", "p50", "p99", "longest", "stalls"
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
    time: Duration,
}

impl Cell {
    fn new(sides: [&Peer; 2]) -> Self {
        let [one, other] = sides.map(Peer::lang);
        let lock = format!("{one}+{other}");
        let caller = |peer: &Peer| peer.party("caller", "multi", &lock);
        Self { callers: sides.map(caller), acquisitions: Vec::new(), time: Duration::ZERO }
    }

    async fn run(&mut self, counts: bool) {
        let begun = Instant::now();
        let [one, other] = &self.callers;
        let (one, other) = tokio::join!(turns(one, begun), turns(other, begun));
        if counts {
            self.time += begun.elapsed();
            self.acquisitions.extend(one);
            self.acquisitions.extend(other);
        }
    }

    fn print(&mut self) {
        self.acquisitions.sort_unstable();
        let [one, other] = self.callers.each_ref().map(|caller| caller.peer().lang());
        let stalls = self.acquisitions.iter().filter(|time| **time > STALL).count();
        let rate = self.acquisitions.len() as f64 / self.time.as_secs_f64();
        let [half, most, longest] = [50, 99, 100].map(|percent| at(&self.acquisitions, percent));
        let processes = format!("{one}, {other}");
        println!("{processes:>10} {rate:>8.0} {half:>8} {most:>8} {longest:>9} {stalls:>6}");
    }
}

/// Takes and releases, other locks each time; how long each acquisition took.
async fn turns(caller: &Party, begun: Instant) -> Vec<Duration> {
    let mut times = Vec::new();
    while begun.elapsed() < ROUND {
        let mut names: Vec<_> = (0..LOCKS).map(|i| format!("stock:{i}")).collect();
        fastrand::shuffle(&mut names);
        names.truncate(TAKEN);
        let caller = caller.of_members(names);
        let granted = caller.start_lock().granted_within(LIMIT).await;
        times.push(Duration::from_micros(granted.us));
        sleep(HOLD).await;
        caller.start("unlock", Value::Null).answer().await.expect("it was held");
    }
    times
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
