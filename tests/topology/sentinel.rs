//! Contests behind sentinels.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use futures::future::join_all;
use harness::redis::cmd;
use harness::{Lang, PATIENCE, Proxy, RedisServer, Sentinel, assert_nothing_left, eventually};
use redisson_lock::{Client, Config, MultiLock};
use tokio::time::timeout;

use crate::failover::{a_master_dies_before_its_replicas_hear_of_a_hold, masters_are_killed};
use crate::mixes;

const DOWN_AFTER: Duration = Duration::from_secs(1);

mixes! {
    a_master_is_killed_under_contention;
    a_hold_is_lost_unless_replicas_confirmed_it;
}

async fn a_master_is_killed_under_contention(langs: [Lang; 2]) {
    masters_are_killed(start(), langs).await;
}

async fn a_hold_is_lost_unless_replicas_confirmed_it(langs: [Lang; 2]) {
    a_master_dies_before_its_replicas_hear_of_a_hold(start, langs).await;
}

/// A sentinel that is gone and that no other names any more. Its address may be anybody's by now.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sentinel_that_is_gone_for_good_is_forgotten() {
    let mut servers = Sentinel::start();
    let [first, second, gone] = &servers.sentinels()[..] else { panic!("three sentinels") };
    let service = Sentinel::MASTER;
    let url = format!("redis-sentinel://{first}?sentinelServiceName={service}&node={second}");
    let client = Client::connect(Config::from_url(&url).unwrap()).await.unwrap();
    let clients = || {
        let mut list = cmd("CLIENT");
        let list: String = list.arg("LIST").query(&mut servers.sentinel(2).client()).unwrap();
        list.matches("cmd=sentinel").count()
    };
    eventually(PATIENCE, "it to be asked", || (clients() > 0).then_some(())).await;

    servers.kill_sentinel(2);
    let impostor = TcpListener::bind(gone).expect("its port");
    impostor.set_nonblocking(true).unwrap();
    for sentinel in 0..2 {
        let mut sentinel = servers.sentinel(sentinel).client();
        cmd("SENTINEL").arg("RESET").arg(service).exec(&mut sentinel).unwrap();
    }
    let asked = || std::iter::from_fn(|| impostor.accept().ok()).count();
    // Whom it asks at all the client asks every second.
    let mut quiet = 0;
    eventually(PATIENCE, "it to be forgotten", || {
        quiet = if asked() == 0 { quiet + 1 } else { 0 };
        std::thread::sleep(Duration::from_millis(100));
        (quiet > 40).then_some(())
    })
    .await;
    client.lock("lock").lock().await.unwrap().unlock().await.unwrap();
    client.close().await.unwrap();
}

/// As long as a replica does not follow the new master, the sentinel that leads the failover does not end it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_master_is_known_before_all_replicas_follow_it() {
    // None begins by itself: sentinels that vote for each other would begin again after 240 s only.
    let mut servers = Sentinel::builder().down_after(10 * PATIENCE).start();
    let (service, sentinels, leader) = (Sentinel::MASTER, servers.sentinels(), 0);
    let asked = |sentinel: usize, words: &[&str]| -> Vec<String> {
        let mut ask = cmd("SENTINEL");
        ask.arg(words).query(&mut servers.sentinel(sentinel).client()).unwrap()
    };
    let leads = |sentinel| {
        asked(sentinel, &["MASTER", service]).iter().any(|word| word.contains("failover_in"))
    };
    for sentinel in 0..sentinels.len() {
        let set = &mut cmd("SENTINEL");
        set.arg("SET").arg(service).arg("failover-timeout").arg(120_000);
        set.exec(&mut servers.sentinel(sentinel).client()).unwrap();
    }
    let lost = servers.master();
    for replica in (0..servers.addresses().len()).filter(|server| *server != lost) {
        let set = &mut cmd("CONFIG");
        set.arg("SET").arg("masterauth").arg("wrong");
        set.exec(&mut servers.node(replica).client()).unwrap();
    }
    servers.node(lost).pause();
    eventually(PATIENCE, "a failover to begin", || {
        let mut begin = cmd("SENTINEL");
        begin.arg("FAILOVER").arg(service).exec(&mut servers.sentinel(leader).client()).ok()
    })
    .await;
    servers.failed_over(lost).await;
    assert!(leads(leader), "the failover ended at once");
    let url = format!("redis-sentinel://{}?sentinelServiceName={service}", sentinels[leader]);
    // The others do not answer.
    let others = (0..sentinels.len()).filter(|sentinel| *sentinel != leader);
    others.for_each(|sentinel| servers.sentinel(sentinel).pause());
    let client = timeout(PATIENCE, Client::connect(Config::from_url(&url).unwrap())).await;
    let client = client.expect("an answer").expect("a master");
    client.lock("lock").lock().await.unwrap().unlock().await.unwrap();
    assert!(leads(leader), "the failover ended before");
    client.close().await.unwrap();
    servers.kill(lost);
}

/// The address that the sentinels tell stays, and what it leads to changes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_that_leads_to_another_master_by_now_is_connected_to_anew() {
    let servers = Sentinel::builder().replicas(1).start();
    let service = Sentinel::MASTER;
    let (master, heir) = (servers.master(), 1 - servers.master());
    let proxy = Proxy::start(servers.node(master).port()).await;
    servers.forget_master();
    servers.watch(service, proxy.port());
    let url = format!("redis-sentinel://{}?sentinelServiceName={service}", servers.sentinels()[0]);
    let client = Client::connect(Config::from_url(&url).unwrap()).await.unwrap();
    let lock = client.lock("lock");
    let begun = Instant::now();
    let took = async |what| {
        let begun = Instant::now();
        let taken = async { lock.lock().await?.unlock().await };
        timeout(PATIENCE / 2, taken).await.expect("an answer").expect("a lock");
        println!("{what}: a lock after {:?}", begun.elapsed());
    };
    took("at first").await;

    proxy.stop_reading_open();
    let crowd = (0..2_000).map(|n| {
        let lock = client.lock(format!("{n}:{}", "x".repeat(6 << 10)));
        tokio::spawn(async move { lock.is_locked().await.is_ok() })
    });
    timeout(PATIENCE, join_all(crowd)).await.expect("all answers");
    took("nobody reads").await;
    proxy.heal();

    let replicate = |node: usize, of: [&str; 2]| {
        cmd("REPLICAOF").arg(&of).exec(&mut servers.node(node).client()).unwrap();
    };
    replicate(heir, ["NO", "ONE"]);
    proxy.lead_to(servers.node(heir).port());
    replicate(master, ["127.0.0.1", &servers.node(heir).port().to_string()]);
    assert!(begun.elapsed() > Duration::from_secs(1));
    took("demoted").await;
    client.close().await.unwrap();
}

/// Sentinels that have not heard of a failover yet name the old master, which may still take itself for one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_that_lag_behind_lead_nobody_back_to_the_old_master() {
    let servers = Sentinel::builder().replicas(1).start();
    let service = Sentinel::MASTER;
    let (old, heir) = (servers.master(), 1 - servers.master());
    let url = format!("redis-sentinel://{}?sentinelServiceName={service}", servers.sentinels()[0]);
    let client = Client::connect(Config::from_url(&url).unwrap()).await.unwrap();
    client.lock("lock").lock().await.unwrap().unlock().await.unwrap();
    eventually(PATIENCE, "the sentinels to begin", || {
        let mut sentinel = servers.sentinel(0).client();
        cmd("SENTINEL").arg("FAILOVER").arg(service).exec(&mut sentinel).ok()
    })
    .await;
    let is_replica = || -> Option<()> {
        // The sentinels cut its connections, also while they are made.
        let url = format!("redis://{}", servers.node(old).address());
        let mut old = harness::redis::Client::open(url).unwrap().get_connection().ok()?;
        let role = cmd("INFO").arg("replication").query::<String>(&mut old);
        role.ok()?.contains("role:slave").then_some(())
    };
    eventually(PATIENCE, "the old master to be a replica", is_replica).await;
    // A replica grants nothing.
    client.lock("lock").lock().await.unwrap().unlock().await.unwrap();

    // What it has of the lock when it is no replica any more, it keeps.
    let has_followed = || servers.node(old).inspector().keys().is_empty().then_some(());
    eventually(PATIENCE, "the old master to follow", has_followed).await;

    servers.forget_master();
    // None of them makes it a replica again.
    let mut alone = cmd("REPLICAOF");
    alone.arg("NO").arg("ONE").exec(&mut servers.node(old).client()).unwrap();
    servers.watch(service, servers.node(old).port());
    // They are asked every second.
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(5) {
        let guard = client.lock("lock").lock().await.unwrap();
        let on = |node: usize| servers.node(node).inspector().keys();
        assert_eq!((on(old), on(heir)), (vec![], vec!["lock".into()]), "{:?}", begun.elapsed());
        guard.unlock().await.unwrap();
    }
    client.close().await.unwrap();
}

fn start() -> Sentinel {
    Sentinel::builder().down_after(DOWN_AFTER).start()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn masters_that_the_same_sentinels_watch_are_as_many_servers() {
    let sentinel = start();
    let others = [RedisServer::start(), RedisServer::start()];
    let names = [Sentinel::MASTER, "second", "third"];
    for (name, server) in names[1..].iter().zip(&others) {
        sentinel.watch(name, server.port());
    }
    let [first, rest @ ..] = &sentinel.sentinels()[..] else { unreachable!() };
    let nodes: String = rest.iter().map(|at| format!("&node={at}")).collect();
    let mut clients = Vec::new();
    for name in names {
        let url = format!("redis-sentinel://{first}?sentinelServiceName={name}{nodes}");
        clients.push(Client::connect(Config::from_url(url).unwrap()).await.unwrap());
    }
    let locks = || clients.iter().map(|client| client.lock("nightly"));
    let guard = MultiLock::majority(locks()).try_lock().await.unwrap().expect("free");
    assert!(guard.held_members() >= 2);
    assert!(MultiLock::majority(locks()).try_lock().await.unwrap().is_none());
    guard.unlock().await.unwrap();
    let guard = MultiLock::all(locks()).lock().await.unwrap();
    assert_eq!(guard.held_members(), 3);
    guard.unlock().await.unwrap();
    for client in clients {
        client.close().await.unwrap();
    }
    for server in &others {
        assert_nothing_left(server).await;
    }
}

/// It is further away than the others, as in another region: most have answered long before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sentinel_that_is_slower_than_the_others_is_not_connected_to_over_and_over() {
    let servers = Sentinel::start();
    let [first, second, _] = &servers.sentinels()[..] else { panic!("three sentinels") };
    let far = Proxy::start(servers.sentinel(2).port()).await;
    far.delay_replies(Duration::from_millis(60));
    let service = Sentinel::MASTER;
    let url = format!(
        "redis-sentinel://{first}?sentinelServiceName={service}&node={second}&node=127.0.0.1:{}",
        far.port()
    );
    let client = Client::connect(Config::from_url(&url).unwrap()).await.unwrap();
    let received = || {
        let info: String =
            cmd("INFO").arg("stats").query(&mut servers.sentinel(2).client()).unwrap();
        let count = info.lines().find_map(|line| line.strip_prefix("total_connections_received:"));
        count.unwrap().parse::<usize>().unwrap()
    };
    tokio::time::sleep(Duration::from_secs(3)).await;
    let before = received();
    tokio::time::sleep(Duration::from_secs(6)).await;
    let more = received() - before;
    println!("{more} connections in 6 s");
    client.close().await.unwrap();
    assert!(more < 4, "{more} connections");
}
