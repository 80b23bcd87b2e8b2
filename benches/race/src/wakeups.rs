//! The time from a release to the grant for a waiter in another process.

use std::time::Duration;

use harness::{Inspector, Party, Peer, PeerArgs, RedisServer, eventually, lock_channel};
use tokio::time::sleep;

use crate::{
    client::{OUR_WAKEUPS, OUR_WAKEUPS_OVER_REDIS_RS, WAKEUPS, WAKEUPS_BY_SCRIPT},
    contestant::start_client,
    figures::percentile,
    pairs::Pairs,
    report::Section,
};

const WARM_UP: usize = 3;
const ROUNDS: usize = 15;
const HANDOVERS: usize = 30;
const LIMIT: Duration = Duration::from_secs(10);

pub(crate) async fn wakeups(server: &RedisServer) -> Section {
    let inspector = server.inspector();
    let url = server.url();
    let pairs = Pairs::start(&PeerArgs::redis(&url)).await;
    let [rust, rust_too] = &pairs.rust;
    let jobs = [
        ("PUBLISH, message, EVALSHA by fred", WAKEUPS),
        ("EVALSHA, message, EVALSHA by fred", WAKEUPS_BY_SCRIPT),
        ("redisson-lock", OUR_WAKEUPS),
        ("redisson-lock over redis-rs", OUR_WAKEUPS_OVER_REDIS_RS),
    ];
    let mut mixes = Vec::new();
    for (name, job) in jobs {
        let (holder, waiter) = (start_client(&url, job).await, start_client(&url, job).await);
        mixes.push(Mix::new(name, &holder, &waiter));
    }
    mixes.push(Mix::new("peers: redisson-lock to redisson-lock", rust, rust_too));
    if let Some([java, java_too]) = &pairs.java {
        mixes.push(Mix::new("peers: Redisson to Redisson", java, java_too));
        mixes.push(Mix::new("peers: Redisson to redisson-lock", java, rust));
        mixes.push(Mix::new("peers: redisson-lock to Redisson", rust, java));
    }
    for round in 0..WARM_UP + ROUNDS {
        for mix in &mut mixes {
            let times = mix.hand_over(&inspector).await;
            if round >= WARM_UP {
                mix.times.extend(times);
            }
        }
    }
    Section {
        title: "Wake-up from another process".into(),
        note: format!(
            "µs from unlock begun to lock granted, {} hand-overs a row, by turns; every waiter sleeps on its subscription. A test peer sends each request to the task or thread of its owner first.",
            ROUNDS * HANDOVERS
        ),
        header: ["", "p50, µs", "p99, µs"].map(str::to_owned).into(),
        rows: mixes.iter_mut().map(Mix::row).collect(),
        charts: Vec::new(),
    }
}

/// Who hands over to whom, and how long it took.
struct Mix {
    name: &'static str,
    holder: Party,
    waiter: Party,
    channel: String,
    times: Vec<Duration>,
}

impl Mix {
    fn new(name: &'static str, holder: &Peer, waiter: &Peer) -> Self {
        Self {
            name,
            holder: holder.party("holder", "lock", name),
            waiter: waiter.party("waiter", "lock", name),
            channel: lock_channel(name),
            times: Vec::new(),
        }
    }

    async fn hand_over(&self, inspector: &Inspector) -> Vec<Duration> {
        let mut times = Vec::new();
        for _ in 0..HANDOVERS {
            self.holder.lock().await;
            let waiting = self.waiter.start_lock();
            eventually(LIMIT, "a subscription", || {
                (inspector.subscribers(&self.channel) > 0).then_some(())
            })
            .await;
            // It looks once more behind its subscription before it sleeps.
            sleep(Duration::from_millis(3)).await;
            let unlocked = self.holder.unlock().await;
            let locked = waiting.granted().await;
            times.push(locked.after_start_of(&unlocked));
            self.waiter.unlock().await;
            eventually(LIMIT, "the end of the subscription", || {
                (inspector.subscribers(&self.channel) == 0).then_some(())
            })
            .await;
        }
        times
    }

    fn row(&mut self) -> (String, Vec<String>) {
        self.times.sort_unstable();
        let at = |percent| percentile(&self.times, percent).as_micros().to_string();
        (self.name.into(), vec![at(50), at(99)])
    }
}
