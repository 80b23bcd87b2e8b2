//! Users with few rights, on several servers.

use std::fmt::Debug;

use harness::{
    PATIENCE, RedisCluster, RedisServer, Sentinel, Servers, assert_nothing_left, called,
    eventually, knows, lock_channel, refused, rights,
};
use redisson_lock::{Client, Config, Error, LockGuard, ShardedPubsub};

const LOCK: &str = "order:42";
/// Asked whenever a connection is made, and not needed. The first is how Redis 6 says the next two.
const CURIOSITY: [&str; 4] = ["client", "client|id", "client|setname", "info"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_least_rights_are_enough_in_a_cluster_and_each_is_needed() {
    let cluster = RedisCluster::start();
    let nodes: Vec<_> = (0..cluster.addresses().len()).map(|node| cluster.node(node)).collect();
    let beside = rights("any lock in a cluster", "order:");
    let least = [rights("rights (ACL)", "order:"), beside.clone()].concat();
    let (url, all) = (cluster_url(&cluster), &nodes[..]);
    let (publish, subscribe, sharded) = match knows(&mut nodes[0].client(), "spublish") {
        true => ("spublish", "ssubscribe", ShardedPubsub::On),
        false => ("publish", "subscribe", ShardedPubsub::Off),
    };

    set_user("service", all, &least);
    let [one, other] = [connect(&url).await.unwrap(), connect(&url).await.unwrap()];
    hand_over(&cluster, &one, &other).await;
    let masters = cluster.masters();
    let to = masters.into_iter().find(|&node| node != cluster.master_of(LOCK)).unwrap();
    cluster.begin_to_move_slot_of(LOCK, to);
    one.lock(LOCK).lock().await.unwrap().unlock().await.unwrap();
    set_user("service", all, &but(&least, "asking"));
    assert_tells(one.lock(LOCK).lock().await, "asking");
    set_user("service", all, &least);
    cluster.move_slot_of(LOCK, to);
    hand_over(&cluster, &one, &other).await;
    let refusals = all_refused(all);
    let unneeded = |what: &String| *what == "asking" || CURIOSITY.contains(&&**what);
    assert!(refusals.iter().all(unneeded), "{refusals:?}");

    // Told when the lock is given back, which it is.
    set_user("service", all, &but(&least, publish));
    let guard = one.lock(LOCK).lock().await.unwrap();
    assert_tells(guard.unlock().await, "");
    assert!(all_refused(all).contains(&publish.to_owned()));
    assert!(!one.lock(LOCK).is_locked().await.unwrap());
    set_user("service", all, &least);
    // Those who may not listen look again and again.
    set_user("service", all, &but(&least, subscribe));
    let guard = one.lock(LOCK).lock().await.unwrap();
    let turn = waiter(&other);
    let listening = || all_refused(all).contains(&subscribe.to_owned()).then_some(());
    eventually(PATIENCE, "a refusal", listening).await;
    guard.unlock().await.unwrap();
    turn.await.unwrap().unwrap().unlock().await.unwrap();
    set_user("service", all, &least);
    for client in [one, other] {
        client.close().await.unwrap();
    }

    set_user("service", all, &but(&least, "cluster|nodes"));
    assert_tells(connect(&url).await, called(&mut nodes[0].client(), "cluster|nodes"));
    set_user("service", all, &but(&least, "pubsub|shardnumsub"));
    let error = connect(&url).await.expect_err("nobody says whether there are sharded channels");
    assert!(matches!(&error, Error::Config(why) if why.contains("SHARDNUMSUB")), "{error:?}");
    let config = Config::from_url(&url).unwrap().sharded_pubsub(sharded);
    let client = Client::connect(config).await.unwrap();
    hand_over(&cluster, &client, &client).await;
    client.close().await.unwrap();
    assert_nothing_left(&cluster).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_least_rights_are_enough_behind_sentinels_and_each_is_needed() {
    let servers = Sentinel::builder().replicas(1).start();
    let least = rights("rights (ACL)", "order:");
    let sentinels_own = rights("any lock behind sentinels", "order:");
    let nodes: Vec<_> = (0..servers.addresses().len()).map(|node| servers.node(node)).collect();
    let sentinels: Vec<_> =
        (0..servers.sentinels().len()).map(|sentinel| servers.sentinel(sentinel)).collect();
    let url = sentinel_url(&servers);

    set_user("service", &nodes, &least);
    set_user("watcher", &sentinels, &sentinels_own);
    let [one, other] = [connect(&url).await.unwrap(), connect(&url).await.unwrap()];
    hand_over(&servers, &one, &other).await;
    for servers in [&nodes, &sentinels] {
        let refusals = all_refused(servers);
        assert!(refusals.iter().all(|what| CURIOSITY.contains(&&**what)), "{refusals:?}");
    }
    for client in [one, other] {
        client.close().await.unwrap();
    }

    for right in &sentinels_own {
        let command = &right[1..];
        set_user("watcher", &sentinels, &but(&sentinels_own, command));
        let connected = connect(&url).await;
        if ["sentinel|myid", "sentinel|get-master-addr-by-name"].contains(&command) {
            // Sentinels of another deployment are not told apart then, and a failover is known later.
            connected.unwrap().close().await.unwrap();
            continue;
        }
        assert_tells(connected, called(&mut sentinels[0].client(), command));
    }
    set_user("watcher", &sentinels, &sentinels_own);
    let wrong = url.replace("sentinelPassword=secret", "sentinelPassword=wrong");
    assert_tells(connect(&wrong).await, "WRONGPASS");
    connect(&url).await.unwrap().close().await.unwrap();
    assert_nothing_left(&servers).await;
}

fn cluster_url(cluster: &RedisCluster) -> String {
    let [first, others @ ..] = &cluster.addresses()[..] else { panic!("no nodes") };
    let others: Vec<_> = others.iter().map(|node| format!("node={node}")).collect();
    format!("redis-cluster://service:secret@{first}?{}", others.join("&"))
}

fn sentinel_url(servers: &Sentinel) -> String {
    let [first, others @ ..] = &servers.sentinels()[..] else { panic!("no sentinels") };
    let others: String = others.iter().map(|node| format!("&node={node}")).collect();
    format!(
        "redis-sentinel://service:secret@{first}?sentinelServiceName={}{others}\
         &sentinelUsername=watcher&sentinelPassword=secret",
        Sentinel::MASTER
    )
}

async fn connect(url: &str) -> Result<Client, Error> {
    let connecting = Client::connect(Config::from_url(url).unwrap());
    tokio::time::timeout(PATIENCE, connecting).await.expect("an answer in time")
}

/// One gives the lock to the other, who waits for it and is woken.
async fn hand_over(servers: &dyn Servers, one: &Client, other: &Client) {
    let inspector = servers.inspector();
    let guard = one.lock(LOCK).lock().await.unwrap();
    let turn = waiter(other);
    let listening = || (inspector.subscribers(&lock_channel(LOCK)) == 1).then_some(());
    eventually(PATIENCE, "a listener", listening).await;
    guard.unlock().await.unwrap();
    turn.await.unwrap().unwrap().unlock().await.unwrap();
    assert_nothing_left(servers).await;
}

fn waiter(client: &Client) -> tokio::task::JoinHandle<Result<LockGuard, Error>> {
    let lock = client.lock(LOCK);
    tokio::spawn(async move { lock.lock().await })
}

/// By an error that names what is missing.
fn assert_tells<T: Debug>(result: Result<T, Error>, what: &str) {
    let Err(Error::Redis(error)) = result else { panic!("not refused by Redis: {result:?}") };
    assert!(error.to_string().contains(what), "{error}");
}

/// The same on all these servers.
fn set_user(user: &str, servers: &[&RedisServer], rights: &[String]) {
    for server in servers {
        harness::set_user(&mut server.client(), user, rights);
    }
}

fn but(rights: &[String], command: &str) -> Vec<String> {
    let others: Vec<_> = rights.iter().filter(|right| right[1..] != *command).cloned().collect();
    assert!(others.len() < rights.len(), "{command} is no right");
    others
}

fn all_refused(servers: &[&RedisServer]) -> Vec<String> {
    servers.iter().flat_map(|server| refused(&mut server.client())).collect()
}
