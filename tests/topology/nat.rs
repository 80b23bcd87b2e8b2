//! Servers that announce an address at which the client does not reach them: it connects as `Config::nat_map` says.

use std::time::Duration;

use futures::future::join_all;
use harness::{PATIENCE, Proxy, RedisCluster, RedisServer, Sentinel, assert_nothing_left};
use redisson_lock::{Client, Config};

/// So many names that each master has some of them.
const NAMES: usize = 12;

/// A proxy for each server, and the map to it from what the server announces.
async fn proxies<'a>(
    servers: impl Iterator<Item = &'a RedisServer>,
) -> (Vec<Proxy>, Vec<(String, String)>) {
    let (mut proxies, mut map) = (Vec::new(), Vec::new());
    for server in servers {
        let proxy = Proxy::start(server.port()).await;
        map.push((server.address(), format!("127.0.0.1:{}", proxy.port())));
        proxies.push(proxy);
    }
    (proxies, map)
}

/// Takes locks, and takes none when no proxy lets it through.
async fn goes_through(client: &Client, proxies: &[Proxy]) {
    for name in 0..NAMES {
        let guard = client.lock(format!("order:{name}")).lock().await.unwrap();
        guard.unlock().await.unwrap();
    }
    for proxy in proxies {
        proxy.refuse(true);
        proxy.cut_all();
    }
    let locks: Vec<_> = (0..NAMES).map(|name| client.lock(format!("order:{name}"))).collect();
    let answers = join_all(locks.iter().map(|lock| lock.try_lock().into_future())).await;
    for (name, answer) in answers.into_iter().enumerate() {
        assert!(answer.is_err(), "order:{name} is reached past the proxy: {answer:?}");
    }
    for proxy in proxies {
        proxy.refuse(false);
    }
    // When each server is reached again, nothing hinders the end.
    for lock in &locks {
        let guard = lock.try_lock().wait(PATIENCE).await.unwrap().expect("it is free");
        guard.unlock().await.unwrap();
    }
    client.close().await.unwrap();
}

fn config(url: &str, map: Vec<(String, String)>) -> Config {
    Config::from_url(url)
        .unwrap()
        .nat_map(map)
        .command_timeout(Duration::from_secs(1))
        .retry_timeout(Duration::from_secs(3))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_is_reached_as_the_map_says() {
    let cluster = RedisCluster::start();
    let nodes = (0..cluster.addresses().len()).map(|node| cluster.node(node));
    let (proxies, map) = proxies(nodes).await;
    let url = format!("redis-cluster://127.0.0.1:{}", proxies[0].port());
    let client = Client::connect(config(&url, map)).await.unwrap();
    assert!(proxies.iter().filter(|proxy| proxy.connections() > 0).count() >= 3);
    goes_through(&client, &proxies).await;
    assert_nothing_left(&cluster).await;
}

/// Redirections name the announced address, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_moves_is_followed_as_the_map_says() {
    let cluster = RedisCluster::start();
    let nodes = (0..cluster.addresses().len()).map(|node| cluster.node(node));
    let (proxies, map) = proxies(nodes).await;
    let url = format!("redis-cluster://127.0.0.1:{}", proxies[0].port());
    let client = Client::connect(config(&url, map)).await;
    let client = client.unwrap();
    let lock = client.lock("moving");
    let guard = lock.lock().await.unwrap();
    let from = cluster.master_of("moving");
    let to = cluster.masters().into_iter().find(|master| *master != from).expect("another");
    cluster.move_slot_of("moving", to);
    guard.unlock().await.unwrap();
    lock.lock().await.unwrap().unlock().await.unwrap();
    assert_eq!(cluster.master_of("moving"), to);
    client.close().await.unwrap();
    assert_nothing_left(&cluster).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_behind_sentinels_is_reached_as_the_map_says() {
    let servers = Sentinel::start();
    let nodes = (0..servers.addresses().len()).map(|node| servers.node(node));
    let (proxies, map) = proxies(nodes).await;
    let first = &servers.sentinels()[0];
    let url = format!("redis-sentinel://{first}?sentinelServiceName={}", Sentinel::MASTER);
    let client = Client::connect(config(&url, map)).await.unwrap();
    assert!(proxies[servers.master()].connections() > 0);
    goes_through(&client, &proxies).await;
    assert_nothing_left(&servers).await;
}
