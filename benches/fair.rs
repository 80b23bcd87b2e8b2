//! A fair line: what a hand-over costs, and what a dead waiter at its head costs the next one.
//!
//! `cargo bench --bench fair` first lets a line of waiters go by, each unlocking at once, of two Rust processes, of
//! two of Redisson's, and of one of either by turns; the mixes take turns in one run. The times are taken in the
//! peers, by the machine's clock. Then it kills heads of lines while they wait, and sees how long after the
//! holder's unlock the next one runs.

use std::time::Duration;

use futures::future::join_all;
use harness::redis::cmd;
use harness::{
    Inspector, Lang, PATIENCE, Party, Peer, PeerArgs, Pending, RedisServer, deadlines_key,
    eventually, lock_channel, queue_key,
};
use serde_json::Value;
use tokio::time::sleep;

const LINE: usize = 40;
const WARM_UP: usize = 4;
const ROUNDS: usize = 15;

/// Places of Redisson's (5 min by default) and of ours (10 s by default).
const FAIR_WAIT: Duration = Duration::from_secs(10);
/// That of the holder before a dead head. Redisson counts a place from the end of the hold it waits for, as that looks
/// when the waiter comes.
const LEASE: Duration = Duration::from_secs(5);
/// How many locks with a dead head each pair has.
const DEATHS: usize = 3;
/// Between the arrivals of those, so that heartbeats are in different phases.
const STAGGER: Duration = Duration::from_millis(700);
const LIMIT: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() {
    let server = RedisServer::start();
    let inspector = server.inspector();
    let args = PeerArgs::redis(server.url()).fair_wait(FAIR_WAIT);
    let peer = async |lang| Peer::spawn(lang, &args).await.expect("a peer");
    let (rust, rust_too) = (peer(Lang::Rust).await, peer(Lang::Rust).await);
    let (java, java_too) = (peer(Lang::Java).await, peer(Lang::Java).await);

    let mut lines = [[&rust, &rust_too], [&java, &java_too], [&rust, &java]].map(FairLine::new);
    for round in 0..WARM_UP + ROUNDS {
        for line in &mut lines {
            line.go_by(&inspector, round >= WARM_UP).await;
        }
    }
    println!(
        "{ROUNDS} lines of {LINE} waiters, µs: the whole line by hand-over, median; and from unlock begun to lock granted"
    );
    println!("{:>10} {:>8} {:>8} {:>8}", "line", "whole", "p50", "p99");
    for line in &mut lines {
        line.print();
    }

    let (doomed, doomed_java) = (peer(Lang::Rust).await, peer(Lang::Java).await);
    let mut widows = Vec::new();
    for number in 0..DEATHS {
        let arrivals =
            [(&doomed, &rust), (&doomed, &java), (&doomed_java, &rust), (&doomed_java, &java)]
                .map(|(head, next)| Widow::stand(&rust_too, head, next, number, &inspector));
        widows.extend(join_all(arrivals).await);
        sleep(STAGGER).await;
    }
    tokio::join!(doomed.kill(), doomed_java.kill());
    println!(
        "\nhead killed while it waited, places of {FAIR_WAIT:?}, lock held for {LEASE:?}: s from unlock begun to the next \
         granted, and what the head's place had left"
    );
    println!("{:>6} {:>6} {:>8} {:>8}", "head", "next", "granted", "left");
    let mut times = join_all(widows.into_iter().map(|widow| widow.outlive(&inspector))).await;
    times.sort_by_key(|(langs, ..)| *langs);
    for ((head, next), granted, left) in times {
        println!("{head:>6} {next:>6} {:>8.2} {:>8.2}", granted.as_secs_f64(), left);
    }
    for peer in [rust, rust_too, java, java_too] {
        peer.close().await.expect("a clean end");
    }
}

/// Two processes whose waiters stand in one line by turns.
struct FairLine {
    lock: String,
    holder: Party,
    waiters: Vec<Party>,
    /// Of each round, the time of the whole line.
    wholes: Vec<Duration>,
    handovers: Vec<Duration>,
}

impl FairLine {
    fn new(sides: [&Peer; 2]) -> Self {
        let [one, other] = sides.map(Peer::lang);
        let lock = format!("{one}+{other}");
        let waiter = |i: usize| sides[i % 2].party(format!("waiter {i}"), "fair", &lock);
        Self {
            holder: sides[1].party("holder", "fair", &lock),
            waiters: (0..LINE).map(waiter).collect(),
            lock,
            wholes: Vec::new(),
            handovers: Vec::new(),
        }
    }

    async fn go_by(&mut self, inspector: &Inspector, counts: bool) {
        self.holder.lock().await;
        let mut line = Vec::new();
        for (before, waiter) in self.waiters.iter().enumerate() {
            let turn = waiter.start_lock();
            let unlock = waiter.start("unlock", Value::Null);
            standing(inspector, &self.lock, before + 1).await;
            line.push((turn, unlock));
        }
        let own_channels = format!("{}:*", lock_channel(&self.lock));
        eventually(PATIENCE, "subscriptions", || {
            let channels: Vec<String> =
                inspector.query(cmd("PUBSUB").arg("CHANNELS").arg(&own_channels));
            (channels.len() == LINE).then_some(())
        })
        .await;
        // The last one looks once more behind its subscription before it sleeps.
        sleep(Duration::from_millis(20)).await;
        let first = self.holder.unlock().await;
        let mut unlocked = first.clone();
        let mut handovers = Vec::new();
        let mut whole = Duration::ZERO;
        for (turn, unlock) in line {
            let granted = turn.granted().await;
            handovers.push(granted.after_start_of(&unlocked));
            whole = granted.after_start_of(&first);
            unlocked = unlock.answer().await.expect("it was held");
        }
        if counts {
            self.wholes.push(whole);
            self.handovers.extend(handovers);
        }
    }

    fn print(&mut self) {
        self.wholes.sort_unstable();
        self.handovers.sort_unstable();
        let at = |share: usize| self.handovers[self.handovers.len() * share / 100].as_micros();
        let whole = self.wholes[self.wholes.len() / 2].as_micros() / LINE as u128;
        println!("{:>10} {whole:>8} {:>8} {:>8}", self.lock, at(50), at(99));
    }
}

/// Who stands behind one that is to die.
struct Widow {
    langs: (Lang, Lang),
    lock: String,
    holder: Party,
    party: Party,
    turn: Pending,
}

impl Widow {
    async fn stand(
        holder: &Peer,
        head: &Peer,
        next: &Peer,
        number: usize,
        inspector: &Inspector,
    ) -> Self {
        let langs = (head.lang(), next.lang());
        let lock = format!("{}-{}-{number}", langs.0, langs.1);
        let [holder, head, party] = [(holder, "holder"), (head, "head"), (next, "next")]
            .map(|(peer, role)| peer.party(format!("{role} {lock}"), "fair", &lock));
        holder.lock_for(LEASE).await;
        drop(head.start_lock());
        standing(inspector, &lock, 1).await;
        let turn = party.start_lock();
        standing(inspector, &lock, 2).await;
        Self { langs, lock, holder, party, turn }
    }

    /// How long after the unlock it was its turn, and how many seconds the place of the dead head had left then.
    async fn outlive(self, inspector: &Inspector) -> ((Lang, Lang), Duration, f64) {
        let left = self.left(inspector);
        let unlocked = self.holder.unlock().await;
        let granted = self.turn.granted_within(LIMIT).await.after_start_of(&unlocked);
        self.party.unlock().await;
        (self.langs, granted, left)
    }

    fn left(&self, inspector: &Inspector) -> f64 {
        let head: String = inspector.query(cmd("LINDEX").arg(queue_key(&self.lock)).arg(0));
        let deadline: f64 = inspector.query(cmd("ZSCORE").arg(deadlines_key(&self.lock)).arg(head));
        let (seconds, micros): (f64, f64) = inspector.query(&cmd("TIME"));
        deadline / 1e3 - seconds - micros / 1e6
    }
}

async fn standing(inspector: &Inspector, lock: &str, waiters: usize) {
    eventually(PATIENCE, "a waiter in line", || {
        let length: usize = inspector.query(cmd("LLEN").arg(queue_key(lock)));
        (length == waiters).then_some(())
    })
    .await;
}
