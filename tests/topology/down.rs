//! A cluster that is down: a master is gone, and nobody stands up for it. The other nodes answer `CLUSTERDOWN`.

use std::time::{Duration, Instant};

use futures::future::join_all;
use harness::redis::cmd;
use harness::{PATIENCE, RedisCluster, RedisServer, eventually, within};
use redisson_lock::{Client, Config, Error, RedisErrorKind, Replicas};
use tokio::time::sleep;

const CALLERS: usize = 50;
/// Longer than the pauses between two tries grow.
const MEASURED: Duration = Duration::from_secs(5);

/// How many connections a node has accepted.
fn accepted(node: &RedisServer) -> u64 {
    let info: String = node.inspector().query(cmd("INFO").arg("stats"));
    let line =
        info.lines().find_map(|line| line.strip_prefix("total_connections_received:")).unwrap();
    line.trim().parse().unwrap()
}

fn is_down(node: &RedisServer) -> bool {
    let info: String = node.inspector().query(cmd("CLUSTER").arg("INFO"));
    info.contains("cluster_state:fail")
}

/// Over fred such an answer ends a connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_is_down_is_not_stormed_with_connections() {
    count_connections(Replicas::None).await;
}

/// Calls that replicas confirm have their own connections.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nor_by_calls_that_replicas_are_to_confirm() {
    count_connections(Replicas::All).await;
}

async fn count_connections(replicas: Replicas) {
    let node_timeout = Duration::from_millis(1_500);
    let mut servers = RedisCluster::builder().node_timeout(node_timeout).start();
    let url = format!("redis-cluster://{}", servers.addresses()[0]);
    let client = Client::connect(Config::from_url(url).unwrap().replicas(replicas)).await.unwrap();
    let name = "order:1";
    let lost = [servers.master_of(name), servers.replica_of(name)];
    let others: Vec<_> =
        servers.masters().into_iter().filter(|node| !lost.contains(node)).collect();
    let names = (0..).map(|n| format!("order:{n}"));
    let names = names.filter(|name| others.contains(&servers.master_of(name))).take(CALLERS);
    let names: Vec<_> = names.collect();
    for node in lost {
        servers.kill(node);
    }
    eventually(PATIENCE, "the cluster to be down", || {
        others.iter().all(|&node| is_down(servers.node(node))).then_some(())
    })
    .await;
    let callers = names.into_iter().map(|name| {
        let lock = client.lock(name);
        tokio::spawn(async move {
            loop {
                if let Ok(guard) = lock.lock().await {
                    return guard.unlock().await.unwrap();
                }
            }
        })
    });
    let callers: Vec<_> = callers.collect();
    sleep(Duration::from_secs(1)).await;
    let count = || others.iter().map(|&node| accepted(servers.node(node))).collect::<Vec<_>>();
    let (before, begun) = (count(), Instant::now());
    sleep(MEASURED).await;
    let (after, seconds) = (count(), begun.elapsed().as_secs_f64());
    // One of each is the test's own.
    let rates =
        after.iter().zip(before).map(|(after, before)| (after - before - 1) as f64 / seconds);
    let rates: Vec<_> = rates.collect();
    println!("connections a second to each node: {rates:.1?}");
    assert!(rates.iter().all(|&rate| rate < 5.0), "{rates:.1?} connections a second");

    for node in lost {
        servers.restart(node);
    }
    let up = || (!others.iter().any(|&node| is_down(servers.node(node)))).then_some(());
    eventually(PATIENCE, "the cluster to be up", up).await;
    let up = Instant::now();
    for caller in
        join_all(callers.into_iter().map(|caller| within(PATIENCE, "its turn", caller))).await
    {
        caller.unwrap();
    }
    println!("all callers were served {:?} after the cluster was up", up.elapsed());
    within(PATIENCE, "to close", client.close()).await.unwrap();
}

/// The server then runs scripts, and refuses their first write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_wait_for_a_cluster_that_is_down_and_allows_reads() {
    let builder = RedisCluster::builder().node_timeout(Duration::from_millis(1_500));
    let mut servers = builder.arg("--cluster-allow-reads-when-down").arg("yes").start();
    let url = format!("redis-cluster://{}", servers.addresses()[0]);
    let config = Config::from_url(url).unwrap().retry_timeout(Duration::from_secs(2));
    let client = Client::connect(config).await.unwrap();
    let lost = [servers.master_of("order:1"), servers.replica_of("order:1")];
    let names = (0..).map(|n| format!("order:{n}"));
    let here = names.into_iter().find(|name| !lost.contains(&servers.master_of(name))).unwrap();
    let master = servers.master_of(&here);
    for node in lost {
        servers.kill(node);
    }
    let down = || is_down(servers.node(master)).then_some(());
    eventually(PATIENCE, "the cluster to be down", down).await;
    let refused = within(PATIENCE, "for an answer", client.lock(&here).lock()).await;
    let Err(Error::Redis(error)) = refused else { panic!("{refused:?}") };
    assert_eq!(error.kind(), RedisErrorKind::ClusterDown, "{error}");
    within(PATIENCE, "to close", client.close()).await.unwrap();
}
