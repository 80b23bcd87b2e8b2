//! Fair locks: the cost of a grant to the next waiter, and of a waiter that dies at the head of the line.
//!
//! The times are taken in the peers, by the machine's clock.

use std::time::Duration;

use futures::future::join_all;
use harness::{
    Inspector, Lang, PATIENCE, Party, Peer, PeerArgs, Pending, RedisServer, deadlines_key,
    eventually, lock_channel, queue_key, redis::cmd,
};
use serde_json::Value;
use tokio::time::sleep;

use crate::{
    figures::{median, percentile, readable},
    pairs::{Pairs, client_of, title},
    report::Section,
};

const LINE: usize = 40;
const WARM_UP: usize = 4;
const ROUNDS: usize = 15;

/// How long a dead waiter keeps its place. Redisson's default is 5 min, this crate's is 10 s.
const FAIR_WAIT: Duration = Duration::from_secs(10);
/// The lease of the holder before a dead head. Redisson counts a place from the end of the hold it waits for, as that looks
/// when the waiter comes.
const LEASE: Duration = Duration::from_secs(5);
/// How many locks with a dead head each pair has.
const DEATHS: usize = 3;
/// Between the arrivals of those, so that heartbeats are in different phases.
const STAGGER: Duration = Duration::from_millis(700);
const LIMIT: Duration = Duration::from_secs(60);

/// Lines whose waiters unlock at once. The pairs take turns.
pub(crate) async fn lines(server: &RedisServer) -> Section {
    eprintln!("fair lines …");
    let inspector = server.inspector();
    let pairs = Pairs::start(&args(server)).await;
    let mut lines: Vec<_> = pairs.all().into_iter().map(FairLine::new).collect();
    for round in 0..WARM_UP + ROUNDS {
        for line in &mut lines {
            line.go_by(&inspector, round >= WARM_UP).await;
        }
    }
    Section {
        title: format!("A fair line of {LINE} waiters in two processes"),
        note: format!(
            "From unlock begun to lock granted; {ROUNDS} lines a row, by turns. The last column is the median time of a whole line, by hand-over."
        ),
        header: ["", "p50, µs", "p99, µs", "whole line, µs"].map(str::to_owned).into(),
        rows: lines.iter_mut().map(FairLine::row).collect(),
        charts: Vec::new(),
    }
}

/// Heads of lines that are killed while they wait.
pub(crate) async fn dead_heads(server: &RedisServer) -> Section {
    eprintln!("fair lines whose heads die …");
    let inspector = server.inspector();
    let args = args(server);
    // Of these the first wait; those of the other pairs are killed.
    let (living, doomed) = (Pairs::start(&args).await, Pairs::start(&args).await);
    let first = |pairs: &Pairs| -> Vec<Peer> {
        let java = pairs.java.as_ref().map(|[java, _]| java.clone());
        std::iter::once(pairs.rust[0].clone()).chain(java).collect()
    };
    let (heads, waiters) = (first(&doomed), first(&living));
    let mut orphans = Vec::new();
    for number in 0..DEATHS {
        let arrivals = heads.iter().flat_map(|head| waiters.iter().map(move |next| (head, next)));
        let arrivals = arrivals
            .map(|(head, next)| Orphan::stand(&living.rust[1], head, next, number, &inspector));
        orphans.extend(join_all(arrivals).await);
        sleep(STAGGER).await;
    }
    join_all(heads.iter().map(Peer::kill)).await;
    let mut times = join_all(orphans.into_iter().map(|orphan| orphan.outlive(&inspector))).await;
    times.sort_by_key(|(langs, ..)| *langs);
    let row = |((head, next), granted, left): ((Lang, Lang), Duration, f64)| {
        let name = format!("{}, then {}", client_of(head), client_of(next));
        (name, [granted.as_secs_f64(), left].map(readable).into())
    };
    Section {
        title: "A fair line whose head is killed".into(),
        note: format!(
            "A place lasts {FAIR_WAIT:?}, and the lock was taken for {LEASE:?}. From unlock begun to the next waiter's lock, and what the place of the dead head had left."
        ),
        header: ["head, next", "granted after, s", "the place had left, s"]
            .map(str::to_owned)
            .into(),
        rows: times.into_iter().map(row).collect(),
        charts: Vec::new(),
    }
}

fn args(server: &RedisServer) -> PeerArgs {
    PeerArgs::redis(server.url()).fair_wait(FAIR_WAIT)
}

/// Two processes whose waiters stand in one line by turns.
struct FairLine {
    name: String,
    lock: String,
    holder: Party,
    waiters: Vec<Party>,
    /// Of each round, the time of the whole line.
    wholes: Vec<f64>,
    handovers: Vec<Duration>,
}

impl FairLine {
    fn new(pair: [&Peer; 2]) -> Self {
        let name = title(pair);
        let lock = format!("fair: {name}");
        let waiter = |i: usize| pair[i % 2].party(format!("waiter {i}"), "fair", &lock);
        Self {
            holder: pair[1].party("holder", "fair", &lock),
            waiters: (0..LINE).map(waiter).collect(),
            name,
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
            self.wholes.push(whole.as_secs_f64() * 1e6 / LINE as f64);
            self.handovers.extend(handovers);
        }
    }

    fn row(&mut self) -> (String, Vec<String>) {
        self.handovers.sort_unstable();
        let at = |percent| percentile(&self.handovers, percent).as_secs_f64() * 1e6;
        let figures = [at(50), at(99), median(self.wholes.clone())];
        (self.name.clone(), figures.map(readable).into())
    }
}

/// The waiter behind a head that is killed.
struct Orphan {
    langs: (Lang, Lang),
    lock: String,
    holder: Party,
    party: Party,
    turn: Pending,
}

impl Orphan {
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
