//! A master that became a replica and keeps its connections, while its name leads to another server.

use std::time::{Duration, Instant};

use harness::redis::cmd;
use harness::{PATIENCE, RedisServer, eventually};
use redisson_lock::{Client, Config, LockGuard, Replicas};

use crate::stage::{LOCK, Stage, connect, gets_it, renewed, soon, waiter, within};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_leads_to_another_master_by_now_is_followed() {
    let stage = Stage::new().await;
    let client = stage.client().await;
    let held = client.lock("held").lock().await.unwrap();
    let other = RedisServer::start();
    become_replica(&other, Some(&stage.server)).await;

    become_replica(&other, None).await;
    stage.proxy.lead_to(other.port());
    become_replica(&stage.server, Some(&other)).await;
    let demoted = Instant::now();
    let guard = soon("a lock", client.lock("new").lock()).await.unwrap();
    println!("demoted: a lock after {:?}", demoted.elapsed());
    guard.unlock().await.unwrap();
    renewed(&held).await;
    held.unlock().await.unwrap();

    // Messages come from there, too.
    let far = connect(Config::from_url(other.url()).unwrap()).await;
    let guard = far.lock(LOCK).lock().await.unwrap();
    is_woken_by(guard, &client, &other).await;
    stage.end([client, far]).await;
}

/// Waiters only read, and what a replica answers is never refused. It hears of nothing that the master does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_for_a_latch_does_not_wait_at_a_server_that_was_demoted() {
    /// A client looks every 30 s.
    const SOON: Duration = Duration::from_secs(45);
    let stage = Stage::new().await;
    let client = stage.client().await;
    let gate = client.count_down_latch("gate");
    assert!(gate.try_set(1).await.unwrap());
    let other = RedisServer::start();
    become_replica(&other, Some(&stage.server)).await;
    become_replica(&other, None).await;
    let waits = tokio::spawn({
        let gate = gate.clone();
        async move { gate.wait().await }
    });
    stage.proxy.lead_to(other.port());
    let nobody = cmd("REPLICAOF").arg("127.0.0.1").arg(1).clone();
    stage.server.inspector().query::<()>(&nobody);
    let far = connect(Config::from_url(other.url()).unwrap()).await;
    far.count_down_latch("gate").count_down().await.unwrap();
    within(SOON, "for the latch", waits).await.unwrap().unwrap();
    stage.server.inspector().query::<()>(cmd("REPLICAOF").arg("NO").arg("ONE"));
    stage.server.inspector().query::<()>(&cmd("FLUSHALL"));
    other.inspector().query::<()>(&cmd("FLUSHALL"));
    stage.end([client, far]).await;
}

/// As when a connection for commands was closed while its address led to another server, and the one for messages
/// was not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_come_from_the_server_that_commands_go_to() {
    let stage = Stage::new().await;
    let client = stage.client().await;
    client.lock("plain").lock().await.unwrap().unlock().await.unwrap();
    let other = RedisServer::start();
    let far = connect(Config::from_url(other.url()).unwrap()).await;
    let held = far.lock(LOCK).lock().await.unwrap();

    stage.proxy.lead_to(other.port());
    assert_eq!(stage.proxy.cut_matching("plain"), 1, "the connection for commands");
    is_woken_by(held, &client, &other).await;
    stage.end([client, far]).await;
}

/// As when the master of a cluster or of sentinels stands still after its grant, and another takes its place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_is_not_confirmed_by_a_master_that_is_a_replica_by_now() {
    let asked = [Replicas::All, Replicas::OneOfAll];
    let questions = ["ROLE", "WAIT"];
    for (replicas, question) in asked.into_iter().flat_map(|all| questions.map(|it| (all, it))) {
        let stage = Stage::new().await;
        let other = RedisServer::builder().arg("--repl-diskless-sync-delay").arg("0").start();
        become_replica(&other, Some(&stage.server)).await;
        let client = connect(Config::from_url(stage.proxy.url()).unwrap().replicas(replicas)).await;
        // From now on it hears nothing of the other's grants.
        become_replica(&other, None).await;
        stage.proxy.hold_requests_with(question);
        let lock = client.lock(LOCK);
        let locking = tokio::spawn(async move { lock.lock().await });
        let asks = || (stage.proxy.held() > 0).then_some(());
        eventually(PATIENCE, "the question about replicas", asks).await;

        stage.proxy.lead_to(other.port());
        let port = other.port().to_string();
        stage.server.inspector().query::<()>(cmd("REPLICAOF").arg("127.0.0.1").arg(port));
        stage.proxy.release_held();
        let guard = soon("a lock", locking).await.unwrap().unwrap();
        let holder = other.inspector().holder(LOCK).map(|holder| holder.client);
        assert_eq!(holder, Some(client.id().to_string()), "{replicas:?}, {question}: {guard:?}");
        guard.unlock().await.unwrap();
        stage.end([client]).await;
    }
}

/// The release of that hold wakes a waiter of the client, by a message of that server. Nothing is left there.
async fn is_woken_by(held: LockGuard, client: &Client, server: &RedisServer) {
    let turn = waiter(client, LOCK);
    let channel = harness::lock_channel(LOCK);
    let inspector = server.inspector();
    let listens = || (inspector.subscribers(&channel) == 1).then_some(());
    eventually(PATIENCE, "a listener", listens).await;
    held.unlock().await.unwrap();
    let (guard, _) = gets_it(turn).await;
    guard.unlock().await.unwrap();
    assert_eq!(inspector.keys().len(), 0);
}

/// Makes it a replica that has everything, or a master.
async fn become_replica(server: &RedisServer, of: Option<&RedisServer>) {
    let inspector = server.inspector();
    let (host, port) = match of {
        Some(master) => ("127.0.0.1".to_owned(), master.port().to_string()),
        None => ("NO".to_owned(), "ONE".to_owned()),
    };
    inspector.query::<()>(cmd("REPLICAOF").arg(host).arg(port));
    let state = if of.is_some() { "master_link_status:up" } else { "role:master" };
    eventually(PATIENCE, state, || {
        let info: String = inspector.query(cmd("INFO").arg("replication"));
        info.contains(state).then_some(())
    })
    .await;
}
