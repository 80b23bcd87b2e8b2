//! A URL whose scheme does not suit its servers: the error says what they are, and which scheme does.

use harness::{RedisCluster, RedisServer, Sentinel};
use redisson_lock::{Client, Config, Error};

async fn refused(url: String) -> String {
    match Client::connect(Config::from_url(url.clone()).unwrap()).await {
        Err(Error::Config(why)) => why,
        other => panic!("{url}: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sentinel_that_is_taken_for_a_server_says_so() {
    let servers = Sentinel::start();
    let sentinel = &servers.sentinels()[0];
    for scheme in ["redis", "redis-cluster"] {
        let why = refused(format!("{scheme}://{sentinel}")).await;
        assert_eq!(why, "the server is a sentinel: use a redis-sentinel:// URL", "{scheme}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_taken_for_a_sentinel_says_so() {
    let (server, cluster) = (RedisServer::start(), RedisCluster::start());
    for address in [server.address(), cluster.addresses()[0].to_string()] {
        let why = refused(format!("redis-sentinel://{address}?sentinelServiceName=m")).await;
        assert_eq!(why, "the server is no sentinel: use a redis:// or redis-cluster:// URL");
    }
}

/// With `lazy_connect` the first call says it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lazy_client_says_so_too() {
    let server = RedisServer::start();
    let url = format!("redis-sentinel://{}?sentinelServiceName=m", server.address());
    let client = Client::connect(Config::from_url(url).unwrap().lazy_connect(true)).await.unwrap();
    let why = client.lock("order:42").try_lock().await.unwrap_err().to_string();
    assert!(why.contains("the server is no sentinel"), "{why}");
}

/// A node of a cluster serves the slots it has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_of_a_cluster_that_is_taken_for_a_server_says_so() {
    let cluster = RedisCluster::start();
    let url = format!("redis://{}", cluster.addresses()[0]);
    let client = Client::connect(Config::from_url(url).unwrap()).await.unwrap();
    let mut told = 0;
    for name in ["a", "b", "c", "d", "e", "f"] {
        match client.lock(name).try_lock().await {
            Ok(guard) => guard.expect("a free lock").unlock().await.unwrap(),
            Err(error) => {
                assert!(error.to_string().contains("use a redis-cluster:// URL"), "{error}");
                told += 1;
            }
        }
    }
    assert!(told > 0, "one node serves all");
    client.close().await.unwrap();
}
