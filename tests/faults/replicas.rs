//! Replicas that are to confirm a hold, and do not.

use std::time::Duration;

use futures::future::join_all;
use harness::redis::{Value, cmd};
use harness::{PATIENCE, RedisServer, Servers, assert_nothing_left, eventually};
use redisson_lock::{Client, Config, Error, Replicas};

use crate::stage::{LOCK, assert_redis_error, connect, soon};

/// Long enough for a replica that is alive.
const TIMEOUT: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_many_replicas_as_asked_for_confirm_a_hold() {
    let (master, _replicas) = with_replicas(2).await;
    let client = connect(config(&master)).await;
    let lock = client.lock(LOCK);
    assert_eq!(lock.lock().await.unwrap().acknowledged(), None, "nobody asked");
    for (asked, confirmed) in [(Replicas::All, 2), (Replicas::AtLeast(1), 1)] {
        let lock = lock.clone().replicas(asked);
        let mut me = client.owner();
        let outer = soon("a lock", lock.lock().by(&mut me)).await.unwrap();
        assert!(outer.acknowledged().unwrap() >= confirmed, "{asked:?}: {outer:?}");
        let inner = soon("a re-entry", lock.lock().by(&mut me)).await.unwrap();
        assert_eq!(inner.hold_count(), 2);
        let beside = lock.try_lock().await.unwrap();
        assert!(beside.is_none(), "another's is refused as ever");
        inner.unlock().await.unwrap();
        outer.unlock().await.unwrap();
    }
    for lock in [client.fair_lock(LOCK), client.read_write_lock(LOCK).read_lock().clone()] {
        let guard = soon("a lock", lock.replicas(Replicas::All).lock()).await.unwrap();
        assert_eq!(guard.acknowledged(), Some(2));
        guard.unlock().await.unwrap();
    }
    end(&master, client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_that_too_few_confirm_is_given_back() {
    let (master, replicas) = with_replicas(1).await;
    let short = Duration::from_secs(1);
    let client = connect(config(&master).replicas(Replicas::All).replica_timeout(short)).await;
    let (lock, plain) = (client.lock(LOCK), client.lock(LOCK).replicas(Replicas::None));
    let mut me = client.owner();
    let outer = lock.lock().by(&mut me).await.unwrap();
    assert_eq!(outer.acknowledged(), Some(1));

    replicas[0].pause();
    let inner = soon("a refusal", lock.lock().by(&mut me)).await;
    assert!(is_not_replicated(&inner), "{inner:?}");
    assert!(outer.is_held(), "what was confirmed is held");
    assert_eq!(outer.hold_count(), 1);
    outer.unlock().await.unwrap();
    let refused = soon("a refusal", lock.lock()).await;
    assert!(is_not_replicated(&refused), "{refused:?}");
    let free = async || while plain.is_locked().await.unwrap() {};
    soon("it to be given back", free()).await;
    let refused = soon("a refusal", lock.try_lock()).await;
    assert!(is_not_replicated(&refused), "{refused:?}");
    replicas[0].resume();
    // Behind the release of the last one.
    soon("a lock", lock.lock()).await.unwrap().unlock().await.unwrap();
    end(&master, client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_for_replicas_keeps_no_other_waiting() {
    let (master, replicas) = with_replicas(1).await;
    let client = connect(config(&master)).await;
    let confirmed = |i: usize| client.lock(format!("{LOCK}:{i}")).replicas(Replicas::AtLeast(1));
    // Connects those connections.
    let locks: Vec<_> = (0..4).map(confirmed).collect();
    join_all(locks.iter().map(async |lock| lock.lock().await.unwrap().unlock().await.unwrap()))
        .await;
    replicas[0].pause();
    let waiting = join_all(locks.iter().map(|lock| lock.lock().into_future()));
    let mut waiting = std::pin::pin!(waiting);
    let others = async {
        for _ in 0..100 {
            client.lock(LOCK).lock().await.unwrap().unlock().await.unwrap();
        }
    };
    tokio::select! {
        biased;
        _ = &mut waiting => panic!("those that wait for replicas were first"),
        () = others => {}
    }
    assert!(waiting.await.iter().all(is_not_replicated));
    replicas[0].resume();
    end(&master, client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_by_itself_has_all_its_replicas_but_not_one() {
    let master = RedisServer::start();
    let client = connect(config(&master)).await;
    let lock = client.lock(LOCK);
    let guard = lock.clone().replicas(Replicas::All).lock().await.unwrap();
    assert_eq!(guard.acknowledged(), Some(0));
    guard.unlock().await.unwrap();
    let short = config(&master).replica_timeout(Duration::from_millis(50));
    let other = connect(short.replicas(Replicas::AtLeast(1))).await;
    let refused = soon("a refusal", other.lock(LOCK).lock()).await;
    assert!(is_not_replicated(&refused), "{refused:?}");
    other.close().await.unwrap();
    end(&master, client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_does_not_say_how_many_there_are_confirms_nothing() {
    let master = RedisServer::start();
    let client = connect(config(&master)).await;
    let inspector = master.inspector();
    inspector.query::<()>(cmd("ACL").arg("SETUSER").arg("default").arg("-role"));
    let lock = client.lock(LOCK);
    let refused = soon("a refusal", lock.clone().replicas(Replicas::All).lock()).await;
    assert_redis_error(refused);
    // Behind the release of what was taken all the same.
    soon("a lock", lock.lock()).await.unwrap().unlock().await.unwrap();
    end(&master, client).await;
}

fn config(master: &RedisServer) -> Config {
    Config::from_url(master.url()).unwrap().replica_timeout(TIMEOUT)
}

fn is_not_replicated<T>(answer: &Result<T, Error>) -> bool {
    matches!(answer, Err(Error::NotReplicated { acknowledged: 0, needed: 1 }))
}

/// A master, and replicas that are linked to it.
async fn with_replicas(count: usize) -> (RedisServer, Vec<RedisServer>) {
    let master = RedisServer::builder().arg("--repl-diskless-sync-delay").arg("0").start();
    let port = master.port().to_string();
    let replica = || RedisServer::builder().arg("--replicaof").arg("127.0.0.1").arg(&port).start();
    let replicas: Vec<_> = (0..count).map(|_| replica()).collect();
    let inspector = master.inspector();
    eventually(PATIENCE, "the replicas", || {
        let info: Value = inspector.query(cmd("INFO").arg("replication"));
        let info = format!("{info:?}");
        (info.matches("state=online").count() == count).then_some(())
    })
    .await;
    (master, replicas)
}

async fn end(master: &RedisServer, client: Client) {
    soon("to close", client.close()).await.unwrap();
    assert_nothing_left(master as &dyn Servers).await;
}
