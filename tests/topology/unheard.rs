//! Releases that a master has answered, and that the new master has missed.

use std::time::{Duration, Instant};

use futures::future::join_all;
use harness::redis::cmd;
use harness::{PATIENCE, RedisCluster, Sentinel, assert_nothing_left, eventually, lock_channel};
use redisson_lock::{Client, Config, Error, Lock};

use crate::failover::{Failing, LOCK, deafen, drop_ballast};

/// How long a master is silent before another takes its place.
const SILENCE: Duration = Duration::from_millis(1_500);
/// How long the heir would keep what it has not heard of.
const LEASE: Duration = Duration::from_secs(180);
/// After another is master: more than is needed to find it, on a busy machine. Sentinels that still have to put
/// replicas in order are not believed before that is done.
const SOON: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_was_released_before_sentinels_failed_over_is_free() {
    let servers = Sentinel::builder().down_after(SILENCE).start();
    let [first, others @ ..] = &servers.sentinels()[..] else { panic!("no sentinels") };
    let others: String = others.iter().map(|node| format!("&node={node}")).collect();
    let service = Sentinel::MASTER;
    let url = format!("redis-sentinel://{first}?sentinelServiceName={service}{others}");
    what_was_released_is_free(servers, &url).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_was_released_before_a_cluster_failed_over_is_free() {
    let servers = RedisCluster::builder().node_timeout(SILENCE).start();
    let nodes = servers.addresses();
    let url = format!("redis-cluster://{}?node={}", nodes[0], nodes[1..].join("&node="));
    what_was_released_is_free(servers, &url).await;
}

async fn what_was_released_is_free(mut servers: impl Failing, url: &str) {
    let [one, other] = [connect(url).await, connect(url).await];
    let [fair, read, write, passed, again] =
        ["fair", "read", "write", "passed", "again"].map(|kind| format!("{{{LOCK}}}:{kind}"));
    let held = [
        one.lock(LOCK).lock().lease(LEASE).await.unwrap(),
        one.fair_lock(&fair).lock().lease(LEASE).await.unwrap(),
        one.read_write_lock(&read).read().lease(LEASE).await.unwrap(),
        one.read_write_lock(&write).write().lease(LEASE).await.unwrap(),
    ];
    // The heir knows of the first of two holds, of which the second takes the place.
    let (lock, mut owner) = (one.lock(&passed), one.owner());
    let first = lock.lock().lease(LEASE).await.unwrap();
    let second = tokio::spawn(async move { lock.lock().by(&mut owner).lease(LEASE).await });
    let taken_again = one.lock(&again);
    let before = taken_again.lock().lease(LEASE).await.unwrap();
    let inspector = servers.inspector();
    let listens = || (inspector.subscribers(&lock_channel(&passed)) > 0).then_some(());
    eventually(PATIENCE, "a waiter that listens", listens).await;

    let mut master = servers.node(servers.master()).client();
    let replicas = servers.replicas().len();
    let heard: usize = cmd("WAIT").arg(replicas).arg(10_000).query(&mut master).unwrap();
    assert_eq!(heard, replicas, "replicas that have heard of all holds");
    let deaf = deafen(&servers);
    for guard in held.into_iter().chain([first]) {
        guard.unlock().await.unwrap();
    }
    second.await.unwrap().unwrap().unlock().await.unwrap();
    before.unlock().await.unwrap();
    let unheard = taken_again.lock().lease(LEASE).await.unwrap();
    let lost = servers.master();
    servers.kill(lost);
    deaf.iter().for_each(|&replica| servers.node(replica).resume());
    servers.failed_over(lost).await;

    let begun = Instant::now();
    let (read, write) = (other.read_write_lock(&read), other.read_write_lock(&write));
    let locks: [&Lock; 5] = [
        &other.lock(LOCK),
        &other.fair_lock(&fair),
        read.write_lock(),
        write.read_lock(),
        &other.lock(&passed),
    ];
    let taken = join_all(locks.map(async |lock| {
        let taken = lock.try_lock().wait(SOON).await;
        println!("{}: after {:.1?}", lock.name().unwrap(), begun.elapsed());
        taken
    }));
    let taken: Vec<_> = taken.await.into_iter().map(|taken| taken.unwrap()).collect();
    for (taken, lock) in taken.into_iter().zip(locks) {
        let taken = taken.unwrap_or_else(|| panic!("{:?} is not free", lock.name()));
        taken.unlock().await.unwrap();
    }
    // What the heir holds still keeps others out while the client means to hold the lock by a later grant.
    let again = other.lock(&again);
    assert!(unheard.is_held() && again.try_lock().await.unwrap().is_none());
    assert!(matches!(unheard.unlock().await, Err(Error::NotHeld { .. })));
    let taken = again.try_lock().wait(SOON).await.unwrap().expect("a lock that is free");
    taken.unlock().await.unwrap();
    for client in [one, other] {
        client.close().await.unwrap();
    }
    drop_ballast(&servers);
    assert_nothing_left(&servers).await;
}

async fn connect(url: &str) -> Client {
    let config = Config::from_url(url).unwrap().retry_timeout(SOON);
    Client::connect(config).await.unwrap()
}
