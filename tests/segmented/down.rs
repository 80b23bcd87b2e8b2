//! The server goes down while callers wait for any segment, or that of some segments does.

use std::{collections::BTreeSet, time::Duration};

use futures::future::join_all;
use harness::{Proxy, RedisCluster, RedisServer};
use redisson_lock::{Client, Config, Error};
use tokio::time::{sleep, timeout};

use crate::{PROMPT, SEGMENTS, connect, stock};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_down_is_an_error_and_not_a_busy_stock() {
    let mut server = RedisServer::start();
    let proxy = Proxy::start(server.port()).await;
    let holder = connect(server.url()).await;
    let held = join_all(stock(&holder).iter().map(|it| async move { it.lock().await.unwrap() }));
    let held = held.await;
    let config = Config::from_url(proxy.url()).unwrap();
    let config =
        config.command_timeout(Duration::from_secs(2)).retry_timeout(Duration::from_secs(4));
    let client = Client::connect(config).await.unwrap();

    let any = stock(&client).any();
    assert!(any.try_lock().wait(Duration::from_millis(300)).await.unwrap().is_none());
    let waits = any.clone();
    let for_ever = tokio::spawn(async move { waits.lock().await.map(Some) });
    let waits = any.clone();
    let bounded = tokio::spawn(async move { waits.try_lock().wait(Duration::from_secs(8)).await });
    sleep(Duration::from_millis(500)).await;
    assert!(!for_ever.is_finished() && !bounded.is_finished());
    server.kill();
    for waiter in [for_ever, bounded] {
        let ended = timeout(3 * PROMPT, waiter).await.expect("it has a bound").unwrap();
        assert!(matches!(ended, Err(Error::Redis(_))), "{ended:?}");
    }
    let at_once = timeout(PROMPT, any.try_lock().into_future()).await.expect("it has a bound");
    assert!(matches!(at_once, Err(Error::Redis(_))), "{at_once:?}");
    assert_eq!(held.len(), SEGMENTS);
}

/// Spread over all masters of a cluster.
const MANY: usize = 12;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn segments_of_a_master_that_is_down_are_passed_over() {
    // The other masters go on to serve.
    let mut cluster = RedisCluster::builder().node_timeout(Duration::from_secs(120)).start();
    let url = format!("redis-cluster://{}", cluster.addresses()[0]);
    let config = Config::from_url(url).unwrap();
    let config =
        config.command_timeout(Duration::from_secs(2)).retry_timeout(Duration::from_secs(4));
    let client = Client::connect(config).await.unwrap();
    let stock = client.segmented("stock:42", MANY);
    let segment_is_at = |node: usize| {
        let at = |&i: &usize| cluster.master_of(&format!("stock:42:{i}")) == node;
        (0..MANY).filter(at).collect::<BTreeSet<_>>()
    };
    let lost = cluster.master_of("stock:42:0");
    let down = segment_is_at(lost);
    let up: BTreeSet<_> = (0..MANY).filter(|i| !down.contains(i)).collect();
    assert!(!up.is_empty(), "all segments are at one master");
    // A connection to each master.
    stock.all().lock().await.unwrap().unlock().await.unwrap();

    // No replica replaces it.
    let replica = cluster.replica_of("stock:42:0");
    cluster.kill(replica);
    cluster.kill(lost);
    let any = stock.any().starting_at(0);
    let mut guards = Vec::new();
    for n in 0..up.len() {
        let guard = match n % 3 {
            0 => timeout(PROMPT, any.lock().into_future()).await.expect("granted").unwrap(),
            1 => any.try_lock().await.unwrap().expect("one is free"),
            _ => any.try_lock().wait(PROMPT).await.unwrap().expect("one is free"),
        };
        assert!(up.contains(&guard.segment()));
        guards.push(guard);
    }
    // It is unknown whether those that are left are free.
    for wait in [Duration::ZERO, Duration::from_millis(500)] {
        let refused = timeout(PROMPT, any.try_lock().wait(wait).into_future()).await;
        let refused = refused.expect("it has a bound");
        assert!(matches!(refused, Err(Error::Redis(_))), "{refused:?}");
    }
    // A waiter is served by a segment whose master is up.
    let waits = any.clone();
    let waiter = tokio::spawn(async move { waits.lock().await });
    sleep(Duration::from_secs(1)).await;
    assert!(!waiter.is_finished(), "nothing is free");
    let freed = guards.remove(0);
    let segment = freed.segment();
    freed.unlock().await.unwrap();
    let granted = timeout(PROMPT, waiter).await.expect("woken").unwrap().unwrap();
    assert_eq!(granted.segment(), segment);
}
