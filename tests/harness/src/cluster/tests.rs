use std::time::Instant;

use super::*;
use crate::clean::assert_nothing_left;
use crate::slots::slot;

/// One cluster for all of it: starting one takes longer than all the rest.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_cluster_works_moves_a_slot_and_survives_a_master() {
    let started = Instant::now();
    let mut cluster = RedisCluster::builder().node_timeout(Duration::from_millis(1_500)).start();
    eprintln!("a cluster starts in {:?}", started.elapsed());
    assert_eq!(cluster.masters().len(), 3);
    let inspector = cluster.inspector();
    let keys = ["a", "b", "c", "d", "{a}:1", "{a}:2"];
    for key in keys {
        inspector.query::<()>(cmd("SET").arg(key).arg(key));
    }
    assert_eq!(inspector.keys(), ["a", "b", "c", "d", "{a}:1", "{a}:2"]);

    listen_and_publish(&cluster, &inspector);

    let (from, to) = (cluster.master_of("a"), cluster.master_of("b"));
    assert_ne!((from, slot("a")), (to, slot("b")));
    cluster.move_slot_of("a", to);
    assert_eq!([cluster.master_of("a"), cluster.master_of("{a}:2")], [to, to]);
    assert_eq!(inspector.query::<String>(cmd("GET").arg("{a}:2")), "{a}:2");

    let replica = cluster.replica_of("a");
    // An acknowledged write outlives its master.
    let mut master = cluster.client_of("a");
    cmd("SET").arg("a").arg("late").exec(&mut master).unwrap();
    assert_eq!(cmd("WAIT").arg(1).arg(1_000).query::<i64>(&mut master).unwrap(), 1);
    let killed = Instant::now();
    cluster.kill(to);
    assert_eq!(cluster.failed_over("a", to).await, replica);
    eprintln!("a cluster fails over in {:?}", killed.elapsed());
    assert_eq!(inspector.query::<String>(cmd("GET").arg("a")), "late");
    cluster.restart(to);
    cluster.settled().await;
    assert_eq!([cluster.master_of("a"), cluster.replica_of("a")], [replica, to]);

    for key in keys {
        inspector.query::<()>(cmd("DEL").arg(key));
    }
    assert_nothing_left(&cluster).await;
}

fn listen_and_publish(cluster: &RedisCluster, inspector: &Inspector) {
    let channel = "news:{a}";
    let mut messages = cluster.messages(channel);
    assert_eq!(inspector.subscribers(channel), 1);
    assert_eq!(inspector.publish(channel, "one"), 1);
    inspector.publish(channel, "two");
    assert_eq!(messages.so_far(inspector), ["one", "two"]);
    assert!(inspector.channels().contains(&channel.to_owned()));
}
