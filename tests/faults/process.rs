//! A client process that stands still, and wakes up when everything has changed.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use harness::redis::cmd;
use harness::{Inspector, Lang, Peer, PeerArgs, RedisServer, assert_nothing_left, eventually};
use serde_json::json;

use crate::stage::{LOCK, SOON, stopped};

const WATCHDOG: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_that_slept_past_its_lease_says_so_and_harms_nobody() {
    let server = RedisServer::start();
    let args = PeerArgs::redis(server.url()).watchdog(WATCHDOG);
    let (sleeper, heir) = (
        Peer::spawn(Lang::Rust, &args).await.unwrap(),
        Peer::spawn(Lang::Rust, &args).await.unwrap(),
    );
    let (slept, taken) = (sleeper.party("sleeper", "lock", LOCK), heir.party("heir", "lock", LOCK));
    let redis = server.inspector();
    slept.lock().await;
    let turn = taken.start_lock();
    pause(&sleeper, &server).await;
    turn.granted_within(WATCHDOG + SOON).await;
    let holder = redis.holder(LOCK).expect("a holder");
    assert_eq!(holder.client, heir.client());

    sleeper.resume();
    let lost = slept.start("lost", json!({ "wait_ms": 10_000 }));
    let why = lost.answer().await.unwrap().value;
    // Or so says a renewal that was under way.
    assert!(why == "expired" || why == "taken", "{why}");
    assert_eq!(slept.unlock_refused().await, "not_held");
    assert_eq!(redis.holder(LOCK), Some(holder.clone()));

    // Nor did anything of the sleeper's, still on its way, stop the heir's renewals.
    let ends =
        || Instant::now() + Duration::from_millis(redis.pttl(LOCK).try_into().expect("a TTL"));
    let before = ends();
    eventually(SOON, "a renewal", || (ends() > before + WATCHDOG / 10).then_some(())).await;
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
    pause(&sleeper, &server).await;
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

/// Pauses a peer, and waits until it has stopped: the only one of those at this server.
async fn pause(peer: &Peer, server: &RedisServer) {
    peer.pause();
    if !Path::new("/proc/self/cmdline").exists() {
        return tokio::time::sleep(Duration::from_millis(300)).await;
    }
    let url = server.url();
    let at_server = |process: &u32| {
        fs::read_to_string(format!("/proc/{process}/cmdline"))
            .is_ok_and(|line| line.contains("redisson-lock-peer") && line.contains(&url))
    };
    let processes: Vec<u32> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(at_server)
        .collect();
    assert!(!processes.is_empty(), "a peer shows its server on its command line");
    let all = processes.into_iter().map(|process| Box::pin(stopped(process)));
    futures::future::select_all(all).await;
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
