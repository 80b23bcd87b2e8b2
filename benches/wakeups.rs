//! How soon a waiter has the lock after its holder began to release it, across languages.
//!
//! `cargo bench --bench wakeups` hands locks over between Rust peers and Redisson peers, all four mixes
//! in turn in one run. Every waiter sleeps on its subscription when the lock is released. The
//! times are taken in the peers, by the machine's clock.

use std::time::Duration;

use harness::{Inspector, Lang, Party, Peer, PeerArgs, RedisServer, eventually, lock_channel};
use tokio::time::sleep;

const ROUNDS: usize = 20;
const WARM_UP: usize = 4;
const HANDOVERS: usize = 50;

#[tokio::main]
async fn main() {
    let server = RedisServer::start();
    let inspector = server.inspector();
    let args = PeerArgs::redis(server.url());
    let peer = async |lang| Peer::spawn(lang, &args).await.expect("a peer");
    let (rust, rust_too) = (peer(Lang::Rust).await, peer(Lang::Rust).await);
    let (java, java_too) = (peer(Lang::Java).await, peer(Lang::Java).await);
    let mut mixes = [
        Mix::new("java", &java, "java", &java_too),
        Mix::new("rust", &rust, "rust", &rust_too),
        Mix::new("java", &java, "rust", &rust),
        Mix::new("rust", &rust, "java", &java),
    ];
    for round in 0..WARM_UP + ROUNDS {
        for mix in &mut mixes {
            let times = mix.hand_over(&inspector).await;
            if round >= WARM_UP {
                mix.times.extend(times);
            }
        }
    }
    println!("{} hand-overs a row, µs from unlock begun to lock granted", ROUNDS * HANDOVERS);
    println!("{:>8} {:>8} {:>8} {:>8}", "holder", "waiter", "p50", "p99");
    for mix in &mut mixes {
        mix.times.sort_unstable();
        let at = |share: usize| mix.times[mix.times.len() * share / 100].as_micros();
        println!("{:>8} {:>8} {:>8} {:>8}", mix.names.0, mix.names.1, at(50), at(99));
    }
    for peer in [rust, rust_too, java, java_too] {
        peer.close().await.expect("a clean end");
    }
}

/// Who hands over to whom, and how long it took.
struct Mix {
    names: (&'static str, &'static str),
    holder: Party,
    waiter: Party,
    channel: String,
    times: Vec<Duration>,
}

impl Mix {
    fn new(from: &'static str, holder: &Peer, to: &'static str, waiter: &Peer) -> Self {
        let lock = format!("{from}-{to}");
        Self {
            names: (from, to),
            holder: holder.party("holder", "lock", &lock),
            waiter: waiter.party("waiter", "lock", &lock),
            channel: lock_channel(&lock),
            times: Vec::new(),
        }
    }

    async fn hand_over(&self, inspector: &Inspector) -> Vec<Duration> {
        let mut times = Vec::new();
        for _ in 0..HANDOVERS {
            self.holder.lock().await;
            let waiting = self.waiter.start_lock();
            eventually(Duration::from_secs(10), "a subscription", || {
                (inspector.subscribers(&self.channel) > 0).then_some(())
            })
            .await;
            // It looks once more behind its subscription before it sleeps.
            sleep(Duration::from_millis(3)).await;
            let unlocked = self.holder.unlock().await;
            let locked = waiting.granted().await;
            times.push(locked.after_start_of(&unlocked));
            self.waiter.unlock().await;
            eventually(Duration::from_secs(10), "the end of the subscription", || {
                (inspector.subscribers(&self.channel) == 0).then_some(())
            })
            .await;
        }
        times
    }
}
