//! First come, first served: two hundred waiters in one line, in two languages.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use harness::redis::cmd;
use harness::{
    Inspector, Lang, PATIENCE, Party, Peer, PeerArgs, Pending, RedisServer, assert_nothing_left,
    deadlines_key, eventually, java_or_skip,
};
use serde_json::{Value, json};

use crate::crowd::{LIMIT, begun, peer, place};

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
    let _place = place().await;
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
    let _place = place().await;
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_jvm_whose_clock_is_wrong_by_ten_minutes_costs_order_and_nothing_else() {
    let _place = place().await;
    const NAME: &str = "a_jvm_whose_clock_is_wrong_by_ten_minutes_costs_order_and_nothing_else";
    const OFF: i64 = 600;
    let server = RedisServer::start();
    let args = PeerArgs::redis(server.url()).fair_wait(FAIR_WAIT);
    let redis = server.inspector();
    let rust = peer(Lang::Rust, &args).await;
    let (fast, slow) = (args.clone().clock_ahead(OFF), args.clone().clock_ahead(-OFF));
    let (fast, slow) = tokio::join!(java_or_skip(NAME, &fast), java_or_skip(NAME, &slow));
    for (ahead, java) in [(OFF, fast), (-OFF, slow)] {
        let Some(java) = java else { return };
        let clock = i64::try_from(java.call(json!({ "op": "hello" })).await.expect("hello").at);
        let clock = clock.expect("a date")
            - SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as i64;
        assert!((clock / 1_000_000 - ahead).abs() < 60, "its clock is ahead by {clock} us");
        let holder = rust.party("holder", "fair", LOCK);
        holder.lock().await;
        let mut line = Vec::new();
        for number in 0..16 {
            let peer = if number % 2 == 0 { &rust } else { &java };
            line.push(Waiter::arrive(peer, number, Fate::Served, &redis).await);
        }
        let released = Instant::now();
        holder.unlock().await;
        let mut spans = Vec::new();
        for waiter in line {
            // What the JVM says of the time is wrong by a constant.
            let error =
                if waiter.party.peer().lang() == Lang::Java { ahead * 1_000_000 } else { 0 };
            let turn = waiter.turn.expect("pending").granted_within(LIMIT).await;
            let unlock = waiter.unlock.expect("pending").within(LIMIT).await.expect("its own lock");
            spans.push((turn.at as i64 - error, begun(&unlock) as i64 - error));
        }
        let order: Vec<u64> = spans.iter().map(|(from, _)| *from as u64).collect();
        println!(
            "a clock {ahead:+} s off: 16 served in {:?}, {} inversions",
            released.elapsed(),
            inversions(&order)
        );
        spans.sort();
        assert!(spans.windows(2).all(|pair| pair[0].1 <= pair[1].0), "two at a time: {spans:?}");
        java.kill().await;
    }
    rust.close().await.expect("a clean end");
    assert_nothing_left(&server).await;
}

/// Among JVMs alone it would be 330 s at most: its own wait, and what the hold it waited for had left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_redissons_waiters_did_not_use_is_not_kept_for_a_dead_one_behind_them() {
    let _place = place().await;
    const NAME: &str = "what_redissons_waiters_did_not_use_is_not_kept_for_a_dead_one_behind_them";
    const SHORT: Duration = Duration::from_secs(40);
    let server = RedisServer::start();
    let args = PeerArgs::redis(server.url());
    let Some(java) = java_or_skip(NAME, &args).await else { return };
    let (rust, doomed) = (peer(Lang::Rust, &args).await, peer(Lang::Java, &args).await);
    let redis = server.inspector();
    let holder = rust.party("holder", "fair", LOCK);
    holder.lock().await;
    let mut line = Vec::new();
    for (number, peer) in [&java, &java, &rust].into_iter().enumerate() {
        let party = peer.party(format!("waiter {number}"), "fair", LOCK);
        let turn = if number < 2 { party.start_try_lock(SHORT) } else { party.start_lock() };
        eventually(PATIENCE, "a place", || (length(&redis) == number + 1).then_some(())).await;
        line.push((party, turn));
    }
    Waiter::arrive(&doomed, 3, Fate::Dies, &redis).await;
    doomed.kill().await;
    holder.unlock().await;
    for (party, turn) in line {
        turn.granted_within(LIMIT).await;
        party.unlock().await;
    }
    let dead = tail(&redis).expect("a place that is kept");
    let deadline: f64 = redis.query(cmd("ZSCORE").arg(deadlines_key(LOCK)).arg(dead));
    let (seconds, _): (f64, f64) = redis.query(&cmd("TIME"));
    let kept = deadline / 1e3 - seconds;
    println!("the lock is free, and the place of a dead JVM's is kept for {kept:.0} s");
    assert!((250.0..330.0).contains(&kept), "{kept}");
    redis.query::<()>(cmd("DEL").arg(QUEUE).arg(deadlines_key(LOCK)));
    for peer in [rust, java] {
        peer.close().await.expect("a clean end");
    }
    assert_nothing_left(&server).await;
}
