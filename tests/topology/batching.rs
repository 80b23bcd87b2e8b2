//! Locks of one slot: their calls are batched, but not while the slot moves.

use std::time::Duration;

use futures::future::join_all;
use harness::{PATIENCE, RedisCluster, assert_nothing_left};
use redisson_lock::{Client, Config, LockGuard};
use tokio::time::{Instant, sleep, timeout};

use crate::failover::scripts_asked_of;

/// A busy machine that stands still for seconds ends no hold.
const WATCHDOG: Duration = Duration::from_secs(6);

/// What is quicker is so by luck.
const LEAST: Duration = Duration::from_millis(5);

async fn client(cluster: &RedisCluster) -> Client {
    let addresses = cluster.addresses();
    let (first, others) = addresses.split_first().expect("nodes");
    let others: Vec<_> = others.iter().map(|node| format!("node={node}")).collect();
    let url = format!("redis-cluster://{first}?{}", others.join("&"));
    let config = Config::from_url(url).unwrap().watchdog(WATCHDOG);
    Client::connect(config).await.unwrap()
}

fn names(what: &str, count: usize) -> Vec<String> {
    (0..count).map(|i| format!("{{stock}}:{what}:{i}")).collect()
}

async fn take(client: &Client, names: &[String]) -> Vec<LockGuard> {
    let taken = join_all(names.iter().map(async |name| client.lock(name).lock().await));
    let taken = timeout(PATIENCE, taken).await.expect("the locks in time");
    taken.into_iter().map(|guard| guard.expect("a lock")).collect()
}

async fn release(guards: Vec<LockGuard>) {
    let released = join_all(guards.into_iter().map(LockGuard::unlock));
    let released = timeout(PATIENCE, released).await.expect("the releases in time");
    released.into_iter().for_each(|released| released.expect("a release"));
}

/// How long fifty take to come and go, at best, over two watchdogs.
async fn quickest_round(client: &Client) -> Duration {
    let mut quickest = PATIENCE;
    for _ in 0..6 {
        let begun = Instant::now();
        release(take(client, &names("item", 50)).await).await;
        quickest = quickest.min(begun.elapsed());
        sleep(WATCHDOG / 3).await;
    }
    quickest
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_of_one_slot_travel_together() {
    const LOCKS: usize = 200;
    let cluster = RedisCluster::start();
    let client = client(&cluster).await;
    let master = cluster.node(cluster.master_of("{stock}"));
    let before = scripts_asked_of(master);
    release(take(&client, &names("item", LOCKS)).await).await;
    let scripts = scripts_asked_of(master) - before;
    assert!(scripts < LOCKS as u64, "{scripts} for {LOCKS} acquisitions and as many releases");
    client.close().await.unwrap();
    assert_nothing_left(&cluster).await;
}

/// A call that names keys on both sides is refused (`TRYAGAIN`) for as long as that lasts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_may_take_its_time_to_move() {
    let cluster = RedisCluster::start();
    let client = client(&cluster).await;
    let held = names("held", 20);
    let guards = take(&client, &held).await;
    let before = quickest_round(&client).await;
    let from = cluster.master_of("{stock}");
    let to = cluster.masters().into_iter().find(|&node| node != from).expect("another master");
    cluster.begin_to_move_slot_of("{stock}", to);
    let half: Vec<_> = held.iter().step_by(2).map(String::as_str).collect();
    cluster.move_keys(&half, to);
    // To be sent elsewhere, by oneself, takes a few times as long; to try again, much longer.
    let meanwhile = quickest_round(&client).await;
    println!("{before:?} in its place, {meanwhile:?} on its way");
    assert!(meanwhile < 50 * before.max(LEAST), "{before:?}, {meanwhile:?}");
    for guard in &guards {
        guard.check().await.expect("a hold that is renewed");
    }
    cluster.move_slot_of("{stock}", to);
    release(guards).await;
    client.close().await.unwrap();
    assert_nothing_left(&cluster).await;
}
