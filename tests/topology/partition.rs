//! A client that does not reach one node of a cluster, while the cluster is whole; and a master that is alone with some clients.

use std::time::{Duration, Instant};

use futures::{future::join_all, join};
use harness::redis::{RedisResult, cmd};
use harness::{PATIENCE, Proxy, RedisCluster, RedisServer, Sentinel, Servers, eventually, within};
use redisson_lock::{Client, Config, Error, Lock, LockGuard, Loss, Replicas};
use tokio::time::sleep;

/// Renewed every two seconds.
const WATCHDOG: Duration = Duration::from_secs(6);
const BOUND: Duration = Duration::from_secs(12);
/// For what else a machine does.
const SLACK: Duration = Duration::from_secs(2);

/// How long a lock and an unlock take, most of the time.
async fn p99(lock: &Lock) -> Duration {
    let mut took = Vec::new();
    for _ in 0..200 {
        let begun = Instant::now();
        lock.lock().await.unwrap().unlock().await.unwrap();
        took.push(begun.elapsed());
    }
    took.sort();
    took[took.len() * 99 / 100]
}

/// A proxy before each master, by which the nodes call it from now on. A name of a lock on each, and the URL.
async fn behind_proxies(servers: &RedisCluster) -> (Vec<String>, Vec<Proxy>, String) {
    // A name on each master.
    let masters = servers.masters();
    let name_on = |master: usize| {
        (0..).map(|n| format!("lock:{n}")).find(|name| servers.master_of(name) == master).unwrap()
    };
    let names: Vec<_> = masters.iter().map(|&master| name_on(master)).collect();
    let ports = masters.iter().map(|&master| servers.node(master).port());
    let proxies = join_all(ports.map(Proxy::start)).await;
    for (&master, proxy) in masters.iter().zip(&proxies) {
        let node = servers.node(master).inspector();
        let announced =
            cmd("CONFIG").arg("SET").arg("cluster-announce-port").arg(proxy.port()).clone();
        let () = node.query(&announced);
    }
    let announced = |node: usize| {
        let mut node = servers.node(node).client();
        let nodes: RedisResult<String> = cmd("CLUSTER").arg("NODES").query(&mut node);
        let nodes = nodes.unwrap_or_default();
        proxies.iter().all(|proxy| nodes.contains(&format!(":{}@", proxy.port())))
    };
    eventually(PATIENCE, "all nodes to know the proxies", || {
        (0..servers.addresses().len()).all(announced).then_some(())
    })
    .await;

    let nodes: String =
        proxies.iter().map(|proxy| format!("&node=127.0.0.1:{}", proxy.port())).collect();
    let url = format!("redis-cluster://127.0.0.1:{}?{}", proxies[0].port(), &nodes[1..]);
    (names, proxies, url)
}

/// Locks of other nodes are not slower, and are renewed. Those of the lost node are told in time, and all is well when it is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_a_client_does_not_reach_costs_it_the_locks_of_that_node_alone() {
    let servers = RedisCluster::start();
    let (names, proxies, url) = behind_proxies(&servers).await;
    let timeout = Duration::from_secs(1);
    let config = Config::from_url(url).unwrap().watchdog(WATCHDOG);
    let client =
        Client::connect(config.command_timeout(timeout).retry_timeout(2 * timeout)).await.unwrap();
    let held: Vec<LockGuard> = join_all(
        names
            .iter()
            .map(async |name| client.lock(format!("{{{name}}}:held")).lock().await.unwrap()),
    )
    .await;
    let beside = |n: usize| client.lock(format!("{{{}}}:beside", names[n]));
    p99(&beside(1)).await;
    let before = p99(&beside(1)).await;

    proxies[0].blackhole(true);
    let cut = Instant::now();
    let lost = within(BOUND, "to be told", held[0].lost());
    let unmoved = async {
        let mut worst = Duration::ZERO;
        while cut.elapsed() < WATCHDOG {
            worst = worst.max(p99(&beside(1)).await).max(p99(&beside(2)).await);
        }
        worst
    };
    let (loss, during) = tokio::join!(lost, unmoved);
    let tried = beside(0).try_lock().await;
    assert!(matches!(tried, Err(Error::Redis(_))), "{tried:?}");
    assert_eq!(loss, Loss::Expired);
    println!(
        "p99 of a lock and an unlock on other nodes: {before:?} before, {during:?} (worst) meanwhile"
    );
    assert!(during < 10 * before + Duration::from_millis(500), "{during:?}, not {before:?}");
    for guard in &held[1..] {
        assert!(guard.is_held());
        within(BOUND, "for an answer", guard.check()).await.unwrap();
    }
    proxies[0].blackhole(false);
    let whole = Instant::now();
    let lock = beside(0);
    let back = async {
        loop {
            if let Ok(guard) = lock.lock().await {
                return guard;
            }
        }
    };
    within(BOUND, "for the node", back).await.unlock().await.unwrap();
    println!("its locks can be taken {:?} after the network is whole", whole.elapsed());
    for (n, guard) in held.into_iter().enumerate() {
        let unlocked = within(BOUND, "to unlock", guard.unlock()).await;
        assert_eq!(unlocked.is_ok(), n > 0, "{unlocked:?}");
    }
    within(BOUND, "to close", client.close()).await.unwrap();
}

/// A connection takes several round trips, and with the question more than a second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_connects_to_a_cluster_that_is_far_away() {
    let servers = RedisCluster::start();
    let (names, proxies, url) = behind_proxies(&servers).await;
    proxies.iter().for_each(|proxy| proxy.delay_replies(Duration::from_millis(400)));
    let config = Config::from_url(&url).unwrap().command_timeout(BOUND);
    let client = within(BOUND, "to connect", Client::connect(config)).await.unwrap();
    client.lock(&names[0]).lock().await.unwrap().unlock().await.unwrap();
    within(BOUND, "to close", client.close()).await.unwrap();
}

/// Of a node that is down, or that a firewall hides.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_connects_without_a_node_that_it_does_not_reach() {
    let servers = RedisCluster::start();
    let (names, proxies, url) = behind_proxies(&servers).await;
    for lazy in [false, true] {
        proxies[1].refuse(true);
        proxies[1].cut_all();
        let config = Config::from_url(&url).unwrap().retry_timeout(BOUND / 2).lazy_connect(lazy);
        let client = within(BOUND, "to connect", Client::connect(config)).await.unwrap();
        for n in [0, 2] {
            client.lock(&names[n]).lock().await.unwrap().unlock().await.unwrap();
        }
        let hidden = client.lock(&names[1]);
        let refused = within(BOUND, "for an answer", hidden.lock()).await;
        assert!(matches!(refused, Err(Error::Redis(_))), "{refused:?}");
        proxies[1].refuse(false);
        let back = async {
            loop {
                if let Ok(guard) = hidden.lock().await {
                    return guard;
                }
            }
        };
        within(BOUND, "for the node", back).await.unlock().await.unwrap();
        within(BOUND, "to close", client.close()).await.unwrap();
    }
    proxies.iter().for_each(|proxy| proxy.refuse(true));
    let config = Config::from_url(&url).unwrap();
    let refused = within(BOUND, "for an answer", Client::connect(config)).await;
    assert!(matches!(refused, Err(Error::Redis(_))), "{refused:?}");
}

/// The link between master and replica is cut, and the replica is made master. On each side there are clients.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_was_left_alone_with_clients_grants_nothing_that_a_replica_must_confirm() {
    let old = RedisServer::builder().arg("--repl-diskless-sync-delay").arg("0").start();
    let heir = RedisServer::builder().arg("--replicaof").arg("127.0.0.1");
    let heir = heir.arg(old.port().to_string()).arg("--repl-diskless-sync-delay").arg("0").start();
    let way = Proxy::start(old.port()).await;
    let config = |port: u16| {
        let config = Config::from_url(format!("redis://127.0.0.1:{port}")).unwrap();
        config.watchdog(WATCHDOG).replica_timeout(Duration::from_millis(300))
    };
    let left = Client::connect(config(way.port())).await.unwrap();
    // After the parting the replica hears of no renewal, so what it knows of a hold ends with the lease. This client's
    // leases outlast the parting, however slow the machine is.
    let early = Client::connect(config(way.port()).watchdog(10 * WATCHDOG)).await.unwrap();
    eventually(PATIENCE, "a replica", || {
        let info: String = old.inspector().query(cmd("INFO").arg("replication"));
        info.contains("state=online").then_some(())
    })
    .await;
    let sure = |client: &Client, name: &str| client.lock(name).replicas(Replicas::AtLeast(1));
    let confirmed = async {
        loop {
            // On a busy machine the replica may not confirm the first in time.
            if let Ok(guard) = sure(&early, "known").lock().await {
                return guard;
            }
        }
    };
    let known = within(BOUND, "for the replica", confirmed).await;
    assert_eq!(known.acknowledged(), Some(1));

    // From here on there are two, which know nothing of each other.
    let () = heir.inspector().query(cmd("REPLICAOF").arg("NO").arg("ONE"));
    let parted = Instant::now();
    let right = Client::connect(config(heir.port())).await.unwrap();
    // What was confirmed before is held on both sides.
    assert!(right.lock("known").try_lock().await.unwrap().is_none());
    // What must be confirmed is granted here by nobody: a replica that is gone confirms nothing.
    let mut refused = 0;
    for n in 0..5 {
        let tried = within(BOUND, "for an answer", sure(&left, &format!("sure:{n}")).lock()).await;
        assert!(matches!(tried, Err(Error::NotReplicated { .. })), "{tried:?}");
        refused += 1;
    }
    // Of a master that no replica is connected to, "all" are none.
    let alone = left.lock("alone").replicas(Replicas::All);
    let alone = within(BOUND, "for an answer", alone.lock()).await.unwrap();
    assert_eq!(alone.acknowledged(), Some(0));
    alone.unlock().await.unwrap();
    // What need not be confirmed both sides grant.
    let (mine, theirs) =
        (left.lock("both").lock().await.unwrap(), right.lock("both").lock().await.unwrap());
    assert!(mine.is_held() && theirs.is_held());
    sleep(SLACK).await;

    // The network is whole, and leads to the one that is master.
    way.lead_to(heir.port());
    way.cut_all();
    let whole = Instant::now();
    let loss = within(BOUND, "to be told", mine.lost()).await;
    println!(
        "{refused} of {refused} refused; the other's hold was told {loss:?} {:?} after the network was whole, \
         {:?} after the parting",
        whole.elapsed(),
        parted.elapsed()
    );
    assert!(whole.elapsed() < WATCHDOG / 3 + SLACK, "told after {:?}", whole.elapsed());
    assert_eq!(loss, Loss::Taken);
    within(BOUND, "to be asked", known.check()).await.unwrap();
    for guard in [known, theirs] {
        guard.unlock().await.unwrap();
    }
    drop(mine);
    for client in [left, early, right] {
        within(BOUND, "to close", client.close()).await.unwrap();
    }
    harness::assert_nothing_left(&heir).await;
}

/// As when a host of another cluster is given the address of one that is gone. Its epochs are later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_of_another_cluster_is_not_believed() {
    let (ours, theirs) = (RedisCluster::start(), RedisCluster::start());
    for _ in 0..20 {
        for master in theirs.masters() {
            let _: String = theirs.node(master).inspector().query(cmd("CLUSTER").arg("BUMPEPOCH"));
        }
    }
    let [first, second, ..] = ours.masters()[..] else { panic!("too few masters") };
    let way = Proxy::start(ours.node(first).port()).await;
    let known = ours.node(second).port();
    let url = format!("redis-cluster://127.0.0.1:{}?node=127.0.0.1:{known}", way.port());
    let client = Client::connect(Config::from_url(&url).unwrap()).await.unwrap();
    let held = client.lock("order:1").lock().await.unwrap();
    way.lead_to(theirs.node(theirs.masters()[0]).port());
    way.cut_all();
    // Without a cause the nodes are asked every 5 s.
    takes_nothing_from(&theirs, &client, Duration::from_secs(12)).await;
    held.unlock().await.unwrap();
    within(BOUND, "to close", client.close()).await.unwrap();
}

/// For so long the client's locks are not those of these servers.
async fn takes_nothing_from(theirs: &dyn Servers, client: &Client, time: Duration) {
    let until = Instant::now() + time;
    while Instant::now() < until {
        let other = client.lock("order:2").lock().await.unwrap();
        assert!(!theirs.inspector().exists("order:2"), "two deployments have one lock each");
        other.unlock().await.unwrap();
        sleep(Duration::from_millis(100)).await;
    }
}

/// As when a host of other sentinels, whose master has the same name, is given the address of one that is gone. They have
/// seen more failovers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sentinel_of_another_master_is_not_believed() {
    let (ours, theirs) = (Sentinel::start(), Sentinel::start());
    let before = theirs.master();
    let failover = cmd("SENTINEL").arg("FAILOVER").arg(Sentinel::MASTER).clone();
    let () = theirs.sentinel(0).inspector().query(&failover);
    theirs.failed_over(before).await;
    // Until then the sentinel that leads the failover names nobody.
    theirs.settled().await;
    let way = Proxy::start(ours.sentinel(0).port()).await;
    let url = |first: u16, second: u16| {
        let service = Sentinel::MASTER;
        format!(
            "redis-sentinel://127.0.0.1:{first}?sentinelServiceName={service}&node=127.0.0.1:{second}"
        )
    };
    let config = |url: String| Config::from_url(url).unwrap();
    let client = Client::connect(config(url(way.port(), ours.sentinel(1).port()))).await.unwrap();
    let held = client.lock("order:1").lock().await.unwrap();
    way.lead_to(theirs.sentinel(0).port());
    way.cut_all();
    // The sentinels are asked each second.
    takes_nothing_from(&theirs, &client, Duration::from_secs(6)).await;
    held.unlock().await.unwrap();
    within(BOUND, "to close", client.close()).await.unwrap();
    // Who begins now cannot know which of them is meant.
    let short = config(url(way.port(), ours.sentinel(1).port())).command_timeout(SLACK);
    let error = within(2 * BOUND, "an answer", Client::connect(short)).await.unwrap_err();
    assert!(error.to_string().contains("name different masters"), "{error}");
}

/// As when the host of a master is gone, and one of another cluster is given its address before a replica is promoted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_of_another_cluster_is_not_asked_for_locks() {
    let (ours, theirs) = (RedisCluster::start(), RedisCluster::start());
    let master = ours.node(ours.master_of("order:1"));
    let way = Proxy::start(master.port()).await;
    let client = client_with_a_way(&ours, master, &way).await;
    let (first, second) = (client.lock("order:1"), client.lock("{order:1}:2"));
    let held = first.lock().await.unwrap();
    // Over a connection of its own.
    let confirmed = client.lock("{order:1}:3").replicas(Replicas::All);
    way.lead_to(theirs.node(theirs.master_of("order:1")).port());
    way.cut_all();
    let until = Instant::now() + BOUND;
    while Instant::now() < until {
        let (second, confirmed) =
            (second.try_lock().into_future(), confirmed.try_lock().into_future());
        for answer in <[_; 2]>::from(join!(second, confirmed)) {
            let answer = answer.map(|guard| guard.is_some());
            assert!(
                matches!(answer, Err(Error::Redis(_))),
                "two clusters have one lock each: {answer:?}"
            );
        }
        sleep(Duration::from_millis(100)).await;
    }
    way.lead_to(master.port());
    way.cut_all();
    let other = second.try_lock().wait(PATIENCE).await.unwrap().expect("it is free");
    other.unlock().await.unwrap();
    held.unlock().await.unwrap();
    harness::assert_nothing_left(&theirs).await;
    within(BOUND, "to close", client.close()).await.unwrap();
}

/// As above, but the host is that of a master that gets its first slot.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_is_not_followed_to_another_cluster() {
    let (ours, theirs) = (RedisCluster::start(), RedisCluster::start());
    ours.make_an_empty_master();
    let to = ours.empty_master();
    let way = Proxy::start(theirs.node(theirs.master_of("order:1")).port()).await;
    let client = client_with_a_way(&ours, ours.node(to), &way).await;
    ours.begin_to_move_slot_of("order:1", to);
    let lock = client.lock("order:1");
    let answer = lock.try_lock().await.map(|guard| guard.is_some());
    assert!(matches!(answer, Err(Error::Redis(_))), "a lock of another cluster: {answer:?}");
    assert!(way.accepted() > 0);
    way.lead_to(ours.node(to).port());
    let guard = lock.try_lock().wait(PATIENCE).await.unwrap().expect("it is free");
    guard.unlock().await.unwrap();
    harness::assert_nothing_left(&theirs).await;
    within(BOUND, "to close", client.close()).await.unwrap();
}

/// It reaches that node over the proxy alone.
async fn client_with_a_way(cluster: &RedisCluster, node: &RedisServer, way: &Proxy) -> Client {
    let url = format!("redis-cluster://{}", cluster.node(cluster.masters()[0]).address());
    let config = Config::from_url(url)
        .unwrap()
        .nat_map([(node.address(), format!("127.0.0.1:{}", way.port()))])
        .command_timeout(Duration::from_secs(1))
        .retry_timeout(Duration::from_secs(2));
    Client::connect(config).await.unwrap()
}
