//! Semaphores and latches in a cluster: the names that can be used, and a slot that moves.

use std::time::Duration;

use harness::{PATIENCE, RedisCluster, Servers, assert_nothing_left, redis::cmd};
use redisson_lock::{Client, Config, Error};
use tokio::time::timeout;

async fn connect(cluster: &RedisCluster) -> Client {
    let url = format!("redis-cluster://{}", cluster.addresses()[0]);
    Client::connect(Config::from_url(url).unwrap()).await.unwrap()
}

fn assert_refused<T: std::fmt::Debug>(result: Result<T, Error>, name: &str) {
    let Err(Error::Invalid(why)) = &result else { panic!("{name}: {result:?}") };
    assert!(why.contains("slot") && why.contains(name), "{why}");
}

/// Redisson fails with CROSSSLOT for these names of latches.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_whose_channel_is_in_another_slot_are_refused() {
    let cluster = RedisCluster::start();
    let client = connect(&cluster).await;
    for name in ["{tag}:x", "x}y", "{}x", "a{b}c", "a}b{c}d"] {
        assert_refused(client.count_down_latch(name).try_set(1).await, name);
        assert_refused(client.count_down_latch(name).wait().await, name);
    }
    for name in ["x}y", "a{b", "{}x", "a}b{c}d"] {
        assert_refused(client.semaphore(name).acquire(1).await, name);
    }
    for name in ["plain", "a{b", "a:b"] {
        let gate = client.count_down_latch(name);
        assert!(gate.try_set(1).await.unwrap(), "{name}");
        gate.count_down().await.unwrap();
        gate.wait().await.unwrap();
    }
    for name in ["plain", "{tag}:x", "a{b}c"] {
        let pool = client.semaphore(name);
        assert!(pool.try_set(1).await.unwrap(), "{name}");
        pool.acquire(1).await.unwrap().release().await.unwrap();
        assert_eq!(pool.drain().await.unwrap(), 1);
        cluster.inspector().query::<()>(cmd("DEL").arg(name));
    }
    client.close().await.unwrap();
    assert_nothing_left(&cluster).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_moves_while_permits_are_out_and_waited_for() {
    let cluster = RedisCluster::start();
    let (client, other) = (connect(&cluster).await, connect(&cluster).await);
    let pool = client.semaphore("pool");
    assert!(pool.try_set(1).await.unwrap());
    let from = cluster.master_of("pool");
    let to = cluster.masters().into_iter().find(|&node| node != from).unwrap();
    let permit = pool.acquire(1).await.unwrap();
    let turn = tokio::spawn(other.semaphore("pool").acquire(1).into_future());
    tokio::time::sleep(Duration::from_millis(500)).await;
    cluster.begin_to_move_slot_of("pool", to);
    cluster.move_slot_of("pool", to);
    timeout(PATIENCE, permit.release()).await.expect("a release").unwrap();
    let permit = timeout(PATIENCE, turn).await.expect("a grant").unwrap().unwrap();
    assert_eq!(pool.available().await.unwrap(), 0);
    permit.release().await.unwrap();
    assert_eq!(pool.available().await.unwrap(), 1);
    cluster.inspector().query::<()>(cmd("DEL").arg("pool"));
    for client in [client, other] {
        client.close().await.unwrap();
    }
    assert_nothing_left(&cluster).await;
}
