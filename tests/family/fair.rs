//! First come, first served: two hundred in one line, in two languages.

use std::time::{Duration, Instant};

use harness::redis::cmd;
use harness::{
    Inspector, Lang, PATIENCE, Party, Peer, PeerArgs, Pending, RedisServer, assert_nothing_left,
    eventually, java_or_skip,
};
use serde_json::Value;

use crate::crowd::{LIMIT, peer};

const LOCK: &str = "line";
const QUEUE: &str = "redisson_lock_queue:{line}";

/// A place of Redisson's in line; its default of 5 min nobody here would wait for.
const FAIR_WAIT: Duration = Duration::from_secs(4);

/// What is to become of a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Served,
    Cancelled,
    TimesOut,
    /// Its process is killed while it waits.
    Dies,
}

struct Waiter {
    party: Party,
    fate: Fate,
    turn: Option<Pending>,
    unlock: Option<Pending>,
}

impl Waiter {
    /// Comes, and is seen in line before anybody else comes.
    async fn arrive(peer: &Peer, number: usize, fate: Fate, redis: &Inspector) -> Self {
        let party = peer.party(format!("waiter {number}"), "fair", LOCK);
        let last = tail(redis);
        let turn = match fate {
            // Longer than it takes all to arrive, so that it leaves from the middle.
            Fate::TimesOut => party.start_try_lock(Duration::from_secs(8)),
            _ => party.start_lock(),
        };
        let unlock = (fate == Fate::Served).then(|| party.start("unlock", Value::Null));
        eventually(PATIENCE, "the next in line", || (tail(redis) != last).then_some(())).await;
        Self { party, fate, turn: Some(turn), unlock }
    }
}

fn tail(redis: &Inspector) -> Option<String> {
    redis.query(cmd("LINDEX").arg(QUEUE).arg(-1))
}

fn length(redis: &Inspector) -> usize {
    redis.query(cmd("LLEN").arg(QUEUE))
}

/// How many pairs were served in the wrong order.
fn inversions(served: &[u64]) -> usize {
    let later = |i: usize| served[i + 1..].iter().filter(|other| **other < served[i]).count();
    (0..served.len()).map(later).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_are_served_in_the_order_in_which_they_came() {
    let server = RedisServer::start();
    let args = PeerArgs::redis(server.url()).fair_wait(FAIR_WAIT);
    const NAME: &str = "two_hundred_are_served_in_the_order_in_which_they_came";
    let Some(java) = java_or_skip(NAME, &args).await else { return };
    let (rust, rust_too) = (peer(Lang::Rust, &args).await, peer(Lang::Rust, &args).await);
    let (doomed, doomed_java) = (peer(Lang::Rust, &args).await, peer(Lang::Java, &args).await);
    let redis = server.inspector();

    let holder = rust.party("holder", "fair", LOCK);
    holder.lock().await;
    let mut line = Vec::new();
    for number in 0..200 {
        let (peer, fate) = match number {
            61 => (&doomed_java, Fate::Dies),
            90 | 91 | 150 => (&doomed, Fate::Dies),
            // Not of the JVM's: an interrupted waiter of Redisson's stays in line until its time is over.
            n if n % 20 == 7 => (&rust, Fate::Cancelled),
            n if n % 20 == 17 => (&rust_too, Fate::TimesOut),
            n if n % 20 == 18 => (&java, Fate::TimesOut),
            n if n % 3 == 0 => (&rust, Fate::Served),
            n if n % 3 == 1 => (&java, Fate::Served),
            _ => (&rust_too, Fate::Served),
        };
        line.push(Waiter::arrive(peer, number, fate, &redis).await);
    }
    for waiter in line.iter().filter(|waiter| waiter.fate == Fate::Cancelled) {
        waiter.party.cancel().await;
    }
    doomed.kill().await;
    doomed_java.kill().await;
    for waiter in line.iter_mut().filter(|waiter| waiter.fate == Fate::TimesOut) {
        let refused = waiter.turn.take().expect("pending").within(LIMIT).await;
        assert!(refused.is_ok_and(|answer| !answer.is_granted()), "{} was served", waiter.party);
    }
    let alive = line.iter().filter(|waiter| waiter.fate == Fate::Served).count();
    eventually(LIMIT, "those who gave up to be gone", || {
        (length(&redis) == alive + 4).then_some(())
    })
    .await;

    let released = Instant::now();
    holder.unlock().await;
    let mut served = Vec::new();
    for waiter in line.iter_mut().filter(|waiter| waiter.fate == Fate::Served) {
        let turn = waiter.turn.take().expect("pending").granted_within(LIMIT).await;
        let unlock = waiter.unlock.take().expect("pending").within(LIMIT).await;
        unlock.unwrap_or_else(|error| panic!("{} lost it: {error}", waiter.party));
        served.push(turn.at);
    }
    let took = released.elapsed();
    println!(
        "{alive} of 200 waiters served in {took:?}, past 3 dead Rust waiters and a dead JVM's: {} inversions",
        inversions(&served)
    );
    assert_eq!(inversions(&served), 0, "{served:?}");
    for peer in [rust, rust_too, java] {
        peer.close().await.expect("a clean end");
    }
    assert_nothing_left(&server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_process_costs_its_wait_once_however_many_of_it_stood_in_line() {
    let server = RedisServer::start();
    let args = PeerArgs::redis(server.url());
    let (rust, doomed) = (peer(Lang::Rust, &args).await, peer(Lang::Rust, &args).await);
    let redis = server.inspector();
    let holder = rust.party("holder", "fair", LOCK);
    holder.lock().await;
    for number in 0..10 {
        Waiter::arrive(&doomed, number, Fate::Dies, &redis).await;
    }
    let last = Waiter::arrive(&rust, 10, Fate::Served, &redis).await;
    doomed.kill().await;
    holder.unlock().await;
    let begun = Instant::now();
    last.turn.expect("pending").granted_within(LIMIT).await;
    println!("behind ten dead waiters: served after {:?}", begun.elapsed());
    // One wait of 10 s and a heartbeat of 3 s, and not ten.
    assert!(begun.elapsed() < Duration::from_secs(25), "{:?}", begun.elapsed());
    last.unlock.expect("pending").answer().await.expect("unlocked");
    rust.close().await.expect("a clean end");
    assert_nothing_left(&server).await;
}
