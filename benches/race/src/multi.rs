//! Several locks as one: two callers that list them in different orders, and a majority of five servers.

use std::time::{Duration, Instant};

use futures::future::join_all;
use harness::{Party, Peer, PeerArgs, RedisServer};
use redisson_lock::{Client, Config, MultiLock};
use serde_json::Value;
use tokio::time::sleep;

use crate::{
    figures::{percentile, readable},
    pairs::{Pairs, title},
    report::Section,
};

const LOCKS: usize = 8;
const TAKEN: usize = 5;
const WARM_UP: usize = 1;
const ROUNDS: usize = 9;
const ROUND: Duration = Duration::from_secs(5);
const HOLD: Duration = Duration::from_millis(1);
/// Longer than this takes only who waits for somebody who waits for him, and gives up in the end.
const STALL: Duration = Duration::from_secs(1);
const LIMIT: Duration = Duration::from_secs(120);

const SERVERS: usize = 5;
const STOPPED: usize = 2;
const MAJORITIES: usize = 2_000;

/// Two processes take 5 of 8 locks each, other ones and in another order every time, so that they always overlap. The pairs take
/// turns.
pub(crate) async fn overlapping(server: &RedisServer) -> Section {
    eprintln!("{TAKEN} of {LOCKS} locks …");
    let pairs = Pairs::start(&PeerArgs::redis(server.url())).await;
    let mut callers: Vec<_> = pairs.all().into_iter().map(Callers::new).collect();
    for round in 0..WARM_UP + ROUNDS {
        for callers in &mut callers {
            callers.run(round >= WARM_UP).await;
        }
    }
    let header =
        ["", "turns", "turns/s", "p50, µs", "p99, µs", "longest, µs", "stalls", "deadlocks"];
    Section {
        title: format!("{TAKEN} of {LOCKS} locks as one, two callers"),
        note: format!(
            "Other locks in another order each time, held for {HOLD:?}; {ROUNDS} rounds of {ROUND:?}. A stall is an acquisition of more than {STALL:?}, a deadlock a time of more than {STALL:?} in which neither caller is granted anything."
        ),
        header: header.map(str::to_owned).into(),
        rows: callers.iter_mut().map(Callers::row).collect(),
        charts: Vec::new(),
    }
}

/// A majority of five servers, first with all up and then with two of them stopped.
pub(crate) async fn majority() -> Section {
    eprintln!("a majority of {SERVERS} servers …");
    let servers: Vec<_> = (0..SERVERS).map(|_| RedisServer::start()).collect();
    let connect = servers.iter().map(|server| {
        Client::connect(Config::from_url(server.url()).expect("the URL of a server"))
    });
    let clients: Vec<_> = join_all(connect).await;
    let clients: Vec<_> = clients.into_iter().map(|client| client.expect("a client")).collect();
    let lock = MultiLock::majority(clients.iter().map(|client| client.lock("majority")));
    let all_up = majorities(&lock).await;
    servers[..STOPPED].iter().for_each(RedisServer::pause);
    let stopped = majorities(&lock).await;
    servers[..STOPPED].iter().for_each(RedisServer::resume);
    for client in clients {
        let _ = client.close().await;
    }
    let row = |name: &str, [granted, released]: [Vec<Duration>; 2]| {
        let [half, most, longest] = [50, 99, 100].map(|percent| micros(&granted, percent));
        (name.to_owned(), [half, most, longest, micros(&released, 50)].map(readable).into())
    };
    Section {
        title: format!("A majority of {SERVERS} servers"),
        note: format!("{MAJORITIES} times each, alone; the servers share one machine."),
        header: ["", "p50, µs", "p99, µs", "longest, µs", "release p50, µs"]
            .map(str::to_owned)
            .into(),
        rows: vec![row("all up", all_up), row("2 stopped", stopped)],
        charts: Vec::new(),
    }
}

/// Two callers.
struct Callers {
    name: String,
    parties: [Party; 2],
    acquisitions: Vec<Duration>,
    deadlocks: usize,
    time: Duration,
}

/// An acquisition: when it was granted, and how long that took.
type Turn = (Instant, Duration);

impl Callers {
    fn new(pair: [&Peer; 2]) -> Self {
        let name = title(pair);
        let parties = pair.map(|peer| peer.party("caller", "multi", &name));
        Self { name, parties, acquisitions: Vec::new(), deadlocks: 0, time: Duration::ZERO }
    }

    async fn run(&mut self, counts: bool) {
        let begun = Instant::now();
        let [one, other] = &self.parties;
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

    fn row(&mut self) -> (String, Vec<String>) {
        self.acquisitions.sort_unstable();
        let stalls = self.acquisitions.iter().filter(|time| **time > STALL).count();
        let turns = self.acquisitions.len();
        let [half, most, longest] =
            [50, 99, 100].map(|percent| readable(micros(&self.acquisitions, percent)));
        let rate = readable(turns as f64 / self.time.as_secs_f64());
        let [turns, stalls, deadlocks] =
            [turns, stalls, self.deadlocks].map(|count| count.to_string());
        (self.name.clone(), vec![turns, rate, half, most, longest, stalls, deadlocks])
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

fn micros(sorted: &[Duration], percent: usize) -> f64 {
    percentile(sorted, percent).as_secs_f64() * 1e6
}
