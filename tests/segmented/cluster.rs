//! Segments in a cluster: where they are, and that all of them are used.

use std::collections::BTreeSet;

use harness::{RedisCluster, assert_nothing_left};
use tokio::time::timeout;

use crate::{PROMPT, connect};

const SEGMENTS: usize = 16;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn segments_are_spread_over_the_servers_unless_a_tag_keeps_them_together() {
    let cluster = RedisCluster::start();
    let client = connect(format!("redis-cluster://{}", cluster.addresses()[0])).await;
    for (name, spread) in [("stock:42", true), ("{shop}:stock:42", false)] {
        let stock = client.segmented(name, SEGMENTS);
        let keys = (0..SEGMENTS).map(|i| format!("{name}:{i}"));
        let named: Vec<_> = stock.iter().map(|lock| lock.name().unwrap().to_owned()).collect();
        assert_eq!(named, keys.collect::<Vec<_>>());
        let masters: BTreeSet<_> = named.iter().map(|key| cluster.master_of(key)).collect();
        assert_eq!(masters.len() > 1, spread, "{name}: {masters:?}");

        let mut guards = Vec::new();
        for _ in 0..SEGMENTS {
            guards.push(stock.any().lock().await.unwrap());
        }
        let segments: BTreeSet<_> = guards.iter().map(|guard| guard.segment()).collect();
        assert_eq!(segments.len(), SEGMENTS, "each once");
        assert!(stock.any().try_lock().await.unwrap().is_none());
        let all = stock.all();
        let all = tokio::spawn(async move { all.lock().await.unwrap() });
        drop(guards);
        let all = timeout(PROMPT, all).await.expect("granted").unwrap();
        assert!(stock.any().try_lock().await.unwrap().is_none());
        all.unlock().await.unwrap();
    }
    client.close().await.unwrap();
    assert_nothing_left(&cluster).await;
}
