//! What clients announce, where masters die and slots move.

use std::time::{Duration, Instant};

use harness::redis::cmd;
use harness::{
    PATIENCE, RedisCluster, RedisServer, Sentinel, Servers, assert_nothing_left, eventually, rights,
};
use redisson_lock::{Announced, Client, Config, Lock};

const LOCK: &str = "order:42";

const WATCHDOG: Duration = Duration::from_secs(9);

async fn announced(url: &str) -> Client {
    let config = Config::from_url(url).unwrap().announce("orders").unwrap();
    Client::connect(config.watchdog(WATCHDOG)).await.unwrap()
}

fn key(client: &Client) -> String {
    format!("redisson_lock_client:{}", client.id())
}

/// What is announced about the holder, once this note is.
async fn noted(lock: &Lock, note: &str) -> Announced {
    let begun = Instant::now();
    loop {
        // A failover may be under way.
        let seen = lock.inspect().await;
        let holders = seen.as_ref().map_or(&[][..], |seen| &seen.holders);
        let mut found = holders.iter().filter_map(|holder| holder.announced.as_ref());
        if let Some(found) = found.find(|found| found.note.as_deref() == Some(note)) {
            return found.clone();
        }
        assert!(begun.elapsed() < 3 * PATIENCE, "no {note:?}: {seen:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn is_there(servers: &dyn Servers, key: &str) {
    let inspector = servers.inspector();
    let there = || inspector.hash(key).contains_key("app").then_some(());
    eventually(PATIENCE, "an announcement", there).await;
}

fn connections(node: &RedisServer, client: &Client) -> usize {
    let list: String = cmd("CLIENT").arg("LIST").query(&mut node.client()).unwrap();
    list.matches(&format!("name=redisson-lock:{}:orders ", client.id())).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_cluster_every_reader_finds_it_wherever_its_slot_is() {
    let cluster = RedisCluster::start();
    let url = format!("redis-cluster://{}", cluster.addresses()[0]);
    let mut holders = Vec::new();
    let far = announced(&url).await;
    // Readers in as many slots, and the lock in another.
    let sides = far.read_write_lock(LOCK);
    for n in 0..5 {
        let client = announced(&url).await;
        let lock = client.read_write_lock(LOCK);
        let guard = lock.read_lock().lock().note(format!("reader {n}")).await.unwrap();
        holders.push((client, guard));
    }
    for n in 0..5 {
        let who = noted(sides.read_lock(), &format!("reader {n}")).await;
        assert_eq!((&*who.app, who.pid), ("orders", Some(std::process::id())));
    }
    for node in cluster.masters() {
        let node = cluster.node(node);
        for (client, _) in &holders {
            // One for commands, one for messages; another asks which servers there are.
            let named = || (connections(node, client) >= 2).then_some(());
            eventually(PATIENCE, "connections with a name", named).await;
        }
    }
    let moving = key(&holders[0].0);
    let from = cluster.master_of(&moving);
    let to = cluster.masters().into_iter().find(|&node| node != from).unwrap();
    cluster.move_slot_of(&moving, to);
    noted(sides.read_lock(), "reader 0").await;
    let inspector = cluster.inspector();
    let seen = || inspector.hash(&moving).get("seen").cloned();
    let before = seen();
    eventually(PATIENCE, "a write after the move", || (seen() > before).then_some(())).await;
    for (client, guard) in holders {
        guard.unlock().await.unwrap();
        client.close().await.unwrap();
    }
    far.close().await.unwrap();
    assert_nothing_left(&cluster).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_written_again_when_the_master_that_had_it_dies() {
    let mut cluster = RedisCluster::builder().node_timeout(Duration::from_millis(1_500)).start();
    let url = cluster
        .addresses()
        .iter()
        .skip(1)
        .fold(format!("redis-cluster://{}?", cluster.addresses()[0]), |url, node| {
            format!("{url}node={node}&")
        });
    let url = url.trim_end_matches('&').to_owned();
    // The lock is on another master, whose failover is no matter of this test.
    let client = loop {
        let client = announced(&url).await;
        if cluster.master_of(&key(&client)) != cluster.master_of(LOCK) {
            break client;
        }
        client.close().await.unwrap();
    };
    let guard = client.lock(LOCK).lock().note("before").await.unwrap();
    noted(&client.lock(LOCK), "before").await;
    let key = key(&client);
    cluster.kill(cluster.master_of(&key));
    guard.note("after");
    noted(&client.lock(LOCK), "after").await;
    is_there(&cluster, &key).await;
    guard.unlock().await.unwrap();
    client.close().await.unwrap();
    assert_nothing_left(&cluster).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_written_again_when_sentinels_replace_the_master() {
    let mut servers = Sentinel::builder().replicas(1).down_after(Duration::from_secs(1)).start();
    let [first, others @ ..] = &servers.sentinels()[..] else { panic!("no sentinels") };
    let others: String = others.iter().map(|node| format!("&node={node}")).collect();
    let service = Sentinel::MASTER;
    let url = format!("redis-sentinel://{first}?sentinelServiceName={service}{others}");
    let client = announced(&url).await;
    let lock = client.lock(LOCK);
    let guard = lock.lock().lease(4 * PATIENCE).note("before").await.unwrap();
    let before = noted(&lock, "before").await;
    // Its sentinels know no name.
    let mut sentinel = servers.sentinel(0).client();
    let list: String = cmd("CLIENT").arg("LIST").query(&mut sentinel).unwrap();
    assert!(!list.contains("redisson-lock:"), "{list}");
    let lost = servers.master();
    servers.kill(lost);
    guard.note("after");
    let after = noted(&lock, "after").await;
    // The new master is known for a shorter time than the hold.
    let moments = |seen: &Announced| [Some(seen.since), seen.held_since].map(Option::unwrap);
    for (before, after) in moments(&before).into_iter().zip(moments(&after)) {
        let moved = after.duration_since(before).unwrap_or_else(|earlier| earlier.duration());
        assert!(moved < Duration::from_secs(1), "it is said to have begun {moved:?} apart");
    }
    let master = servers.node(servers.failed_over(lost).await);
    eventually(PATIENCE, "connections with a name", || {
        (connections(master, &client) == 2).then_some(())
    })
    .await;
    guard.unlock().await.unwrap();
    client.close().await.unwrap();
    assert_nothing_left(&servers).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_of_a_cluster_without_the_rights_is_shown_the_holders_alone() {
    let cluster = RedisCluster::start();
    let least =
        [rights("rights (ACL)", "order:"), rights("any lock in a cluster", "order:")].concat();
    for node in 0..cluster.addresses().len() {
        harness::set_user(&mut cluster.node(node).client(), "service", &least);
    }
    let open = announced(&format!("redis-cluster://{}", cluster.addresses()[0])).await;
    let url = format!("redis-cluster://service:secret@{}", cluster.addresses()[0]);
    let client = announced(&url).await;
    let guard = open.lock(LOCK).lock().note("seen").await.unwrap();
    noted(&open.lock(LOCK), "seen").await;
    let seen = client.lock(LOCK).inspect().await.unwrap();
    assert!(seen.holders.len() == 1 && seen.holders[0].announced.is_none(), "{seen:?}");
    guard.unlock().await.unwrap();
    for client in [open, client] {
        client.close().await.unwrap();
    }
    assert_nothing_left(&cluster).await;
}
