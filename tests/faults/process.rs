//! A client's process that stands still and wakes up in another world.

use std::time::Duration;

use harness::redis::cmd;
use harness::{Inspector, Lang, Peer, PeerArgs, RedisServer, assert_nothing_left, eventually};
use serde_json::json;

use crate::stage::{LOCK, SHORT, SOON};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_that_slept_past_its_lease_says_so_and_harms_nobody() {
    let server = RedisServer::start();
    let args = PeerArgs::redis(server.url()).watchdog(SHORT);
    let (sleeper, heir) = (
        Peer::spawn(Lang::Rust, &args).await.unwrap(),
        Peer::spawn(Lang::Rust, &args).await.unwrap(),
    );
    let (slept, taken) = (sleeper.party("sleeper", "lock", LOCK), heir.party("heir", "lock", LOCK));
    let redis = server.inspector();
    slept.lock().await;
    let turn = taken.start_lock();
    sleeper.pause();
    turn.granted_within(SHORT + SOON).await;
    let holder = redis.holder(LOCK).expect("a holder");
    assert_eq!(holder.client, heir.client());

    sleeper.resume();
    let lost = slept.start("lost", json!({ "wait_ms": 10_000 }));
    let why = lost.answer().await.unwrap().value;
    assert_eq!(why, "expired");
    assert_eq!(slept.unlock_refused().await, "not_held");
    assert_eq!(redis.holder(LOCK), Some(holder.clone()));

    // Nor did anything of the sleeper's, still on its way, stop the heir's renewals.
    let ttl = redis.pttl(LOCK);
    eventually(SOON, "a renewal", || (redis.pttl(LOCK) > ttl).then_some(())).await;
    assert_eq!(redis.holder(LOCK), Some(holder));
    taken.unlock().await;
    for peer in [sleeper, heir] {
        peer.close().await.unwrap();
    }
    assert_nothing_left(&server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_that_slept_through_its_turn_gets_the_next() {
    let server = RedisServer::start();
    let args = PeerArgs::redis(server.url());
    let (sleeper, other) = (
        Peer::spawn(Lang::Rust, &args).await.unwrap(),
        Peer::spawn(Lang::Rust, &args).await.unwrap(),
    );
    let (waiter, holder) =
        (sleeper.party("waiter", "lock", LOCK), other.party("holder", "lock", LOCK));
    let redis = server.inspector();
    holder.lock().await;
    let turn = waiter.start_lock();
    let channel = harness::lock_channel(LOCK);
    eventually(SOON, "a listener", || (redis.subscribers(&channel) == 1).then_some(())).await;
    at_rest(&redis).await;
    sleeper.pause();
    holder.unlock().await;
    // What it does not take while it sleeps, others may.
    holder.lock().await;
    holder.unlock().await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(turn.is_pending());
    sleeper.resume();
    turn.granted_within(SOON).await;
    waiter.unlock().await;
    for peer in [sleeper, other] {
        peer.close().await.unwrap();
    }
    assert_nothing_left(&server).await;
}

/// Waits until nobody asks the server for a lock: who waits has looked, and relies on a message.
async fn at_rest(redis: &Inspector) {
    let calls = || -> String {
        let stats: String = redis.query(cmd("INFO").arg("commandstats"));
        stats.lines().filter(|line| line.starts_with("cmdstat_eval")).collect()
    };
    let mut seen = calls();
    loop {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let now = calls();
        if now == seen {
            return;
        }
        seen = now;
    }
}
