//! Questions to holders in a cluster: sharded channels and plain ones, and a slot that moves.

use std::time::Duration;

use harness::{PATIENCE, RedisCluster, Servers, assert_nothing_left, eventually, knows};
use redisson_lock::{Asked, Client, Config, LockGuard, ShardedPubsub};
use tokio::time::{sleep, timeout};

const LOCK: &str = "order:42";

/// The key of the questions, and their channel.
const QUESTIONS: &str = "redisson_lock_asked:{order:42}";

async fn connect(cluster: &RedisCluster, sharded: ShardedPubsub) -> Client {
    let url = format!("redis-cluster://{}", cluster.addresses()[0]);
    Client::connect(Config::from_url(url).unwrap().sharded_pubsub(sharded)).await.unwrap()
}

/// Asks once. While a slot moves, the server may refuse at first.
async fn ask(client: &Client) -> Asked {
    let asked = async {
        loop {
            match client.lock(LOCK).ask_to_release().await {
                Ok(asked) => return asked,
                Err(error) => println!("asking again: {error}"),
            }
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE, asked).await.expect("an answer")
}

async fn listens(cluster: &RedisCluster, guard: &LockGuard) {
    assert!(!guard.is_asked_to_release());
    let inspector = cluster.inspector();
    let listening = || (inspector.subscribers(QUESTIONS) == 1).then_some(());
    eventually(PATIENCE, "a listener", listening).await;
}

async fn hears(guard: &LockGuard) {
    timeout(PATIENCE, guard.asked_to_release()).await.expect("a question");
}

async fn end(cluster: &RedisCluster, guard: LockGuard, clients: [Client; 2]) {
    guard.unlock().await.unwrap();
    for client in clients {
        client.close().await.unwrap();
    }
    assert_nothing_left(cluster).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_hears_it_by_channels_of_both_sorts() {
    let cluster = RedisCluster::start();
    let sharded = knows(&mut cluster.node(0).client(), "spublish").then_some(ShardedPubsub::On);
    for sort in [Some(ShardedPubsub::Off), sharded].into_iter().flatten() {
        let (client, other) = (connect(&cluster, sort).await, connect(&cluster, sort).await);
        let guard = client.lock(LOCK).lock().await.unwrap();
        listens(&cluster, &guard).await;
        assert!(ask(&other).await.is_heard());
        hears(&guard).await;
        end(&cluster, guard, [client, other]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_hears_it_before_during_and_after_a_move_of_its_slot() {
    let cluster = RedisCluster::start();
    let client = connect(&cluster, ShardedPubsub::Auto).await;
    let other = connect(&cluster, ShardedPubsub::Auto).await;
    let lock = client.lock(LOCK);
    let from = cluster.master_of(LOCK);
    let to = cluster.masters().into_iter().find(|&node| node != from).unwrap();
    // Kept over the move.
    let guard = lock.lock().await.unwrap();
    ask(&other).await;
    cluster.begin_to_move_slot_of(LOCK, to);
    hears(&guard).await;
    guard.unlock().await.unwrap();
    // On its way between two servers.
    let guard = timeout(PATIENCE, lock.lock()).await.expect("a grant").unwrap();
    assert!(!guard.is_asked_to_release());
    ask(&other).await;
    cluster.move_slot_of(LOCK, to);
    hears(&guard).await;
    guard.unlock().await.unwrap();
    // Listening when the slot goes back.
    let guard = timeout(PATIENCE, lock.lock()).await.expect("a grant").unwrap();
    listens(&cluster, &guard).await;
    cluster.move_slot_of(LOCK, from);
    ask(&other).await;
    hears(&guard).await;
    end(&cluster, guard, [client, other]).await;
}

/// The server ends sharded subscriptions when it gives their slot away, and tells so on the connection.
/// Nobody asks it for anything meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_hears_it_after_its_slot_has_gone_away_and_come_back_unnoticed() {
    let cluster = RedisCluster::start();
    let client = connect(&cluster, ShardedPubsub::Auto).await;
    let other = connect(&cluster, ShardedPubsub::Auto).await;
    let guard = client.lock(LOCK).lock().await.unwrap();
    listens(&cluster, &guard).await;
    let from = cluster.master_of(LOCK);
    let to = cluster.masters().into_iter().find(|&node| node != from).unwrap();
    for node in [to, from] {
        cluster.move_slot_of(LOCK, node);
    }
    listens(&cluster, &guard).await;
    assert!(ask(&other).await.is_heard());
    hears(&guard).await;
    end(&cluster, guard, [client, other]).await;
}
