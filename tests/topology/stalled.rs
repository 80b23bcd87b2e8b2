//! One node of a cluster stops reading, while the others do not.

use std::time::{Duration, Instant};

use futures::future::join_all;
use harness::redis::cmd;
use harness::{PATIENCE, Proxy, RedisCluster, Servers, assert_nothing_left, eventually};
use redisson_lock::{Client, Config, Error};
use tokio::time::timeout;

const TIMEOUT: Duration = Duration::from_secs(2);
const CROWD: usize = 2_000;
const LONG_NAME: usize = 6 << 10;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_to_a_node_that_nobody_reads_is_replaced() {
    let cluster = RedisCluster::start();
    let node = cluster.master_of("{stock}");
    let other = cluster.masters().into_iter().find(|&other| other != node).expect("another");
    let proxy = Proxy::start(cluster.node(node).port()).await;
    announce(&cluster, node, proxy.port()).await;
    let url = format!("redis-cluster://{}", cluster.node(other).address());
    let config = Config::from_url(url).unwrap().command_timeout(TIMEOUT);
    let client = Client::connect(config).await.unwrap();
    let held = client.lock("{stock}:held").lock().await.unwrap();
    assert!(proxy.connections() > 1);

    proxy.stop_reading_open();
    let begun = Instant::now();
    let asking = (0..CROWD).map(|n| {
        let lock = client.lock(format!("{{stock}}:{n}:{}", "x".repeat(LONG_NAME)));
        tokio::spawn(async move {
            let answer = lock.try_lock().await;
            assert!(matches!(answer, Ok(_) | Err(Error::Redis(_))), "{answer:?}");
            begun.elapsed()
        })
    });
    let answers = timeout(PATIENCE, join_all(asking)).await.expect("all answers");
    let longest = answers.into_iter().map(Result::unwrap).max().unwrap();
    let through = async { while client.lock("{stock}:any").is_locked().await.is_err() {} };
    timeout(PATIENCE / 2, through).await.expect("to get through");
    println!("the last call was answered after {longest:?}, through after {:?}", begun.elapsed());
    let before = Instant::now() + held.remaining();
    eventually(PATIENCE, "a renewal", || {
        assert!(held.is_held());
        (Instant::now() + held.remaining() > before + TIMEOUT / 10).then_some(())
    })
    .await;
    held.unlock().await.unwrap();
    proxy.heal();
    // On a busy machine the undoing of so many requests takes longer than closing waits for it.
    let inspector = cluster.inspector();
    eventually(PATIENCE, "no keys", || inspector.keys().is_empty().then_some(())).await;
    client.close().await.unwrap();
    announce(&cluster, node, 0).await;
    assert_nothing_left(&cluster).await;
}

/// Has all nodes tell clients that the node is to be found on this port.
async fn announce(cluster: &RedisCluster, node: usize, port: u16) {
    let set = |port: u16| {
        let mut set = cmd("CONFIG");
        set.arg("SET").arg("cluster-announce-port").arg(port);
        set
    };
    set(port).exec(&mut cluster.node(node).client()).expect("a node that can be configured");
    let port = if port == 0 { cluster.node(node).port() } else { port };
    let is_known = || {
        let knows = |node: usize| {
            let nodes: String =
                cmd("CLUSTER").arg("NODES").query(&mut cluster.node(node).client()).ok()?;
            nodes.contains(&format!(":{port}@")).then_some(())
        };
        (0..cluster.addresses().len()).all(|node| knows(node).is_some()).then_some(())
    };
    eventually(PATIENCE, "the port of a node to be known", is_known).await;
}
