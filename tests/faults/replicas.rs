//! Replicas that should confirm a hold, and do not.

use std::time::{Duration, Instant};

use futures::{
    FutureExt,
    future::{join_all, maybe_done},
};
use harness::redis::{Value, cmd};
use harness::{PATIENCE, Proxy, RedisServer, Servers, assert_nothing_left, eventually};
use redisson_lock::{Client, Config, Error, Replicas};

use crate::stage::{
    LOCK, SOON, Stage, assert_redis_error, connect, gets_through, sha, soon, within,
};

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

/// As Redisson's `checkLockSyncedSlaves`: all are asked, and one is enough. Without any, none is needed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_all_replicas_is_enough() {
    let (master, mut replicas) = with_replicas(2).await;
    let short = Duration::from_secs(1);
    let client = connect(config(&master).replicas(Replicas::OneOfAll).replica_timeout(short)).await;
    let lock = client.lock(LOCK);
    let confirmed = async || {
        let guard = soon("a lock", lock.lock()).await.unwrap();
        let by = guard.acknowledged();
        guard.unlock().await.unwrap();
        by
    };
    assert_eq!(confirmed().await, Some(2), "all are asked");
    replicas[0].pause();
    assert_eq!(confirmed().await, Some(1));
    let all = soon("a refusal", lock.clone().replicas(Replicas::All).lock()).await;
    assert!(matches!(all, Err(Error::NotReplicated { acknowledged: 1, needed: 2 })), "{all:?}");
    replicas[1].pause();
    let refused = soon("a refusal", lock.lock()).await;
    assert!(is_not_replicated(&refused), "{refused:?}");
    replicas.iter_mut().for_each(RedisServer::kill);
    let replicas_left = || {
        let info: String = master.inspector().query(cmd("INFO").arg("replication"));
        info.contains("connected_slaves:0").then_some(())
    };
    eventually(PATIENCE, "the master to miss its replicas", replicas_left).await;
    assert_eq!(confirmed().await, Some(0), "there is none to ask");
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
        for _ in 0..20 {
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
async fn those_that_nobody_polls_keep_nobody_from_waiting_for_replicas() {
    let master = RedisServer::start();
    let client = connect(config(&master).retry_timeout(TIMEOUT)).await;
    let lock = |i: usize| client.lock(format!("{LOCK}:{i}")).replicas(Replicas::All);
    let locks: Vec<_> = (1..=40).map(lock).collect();
    for round in ["new", "used"] {
        let alone = locks.iter().map(|lock| Box::pin(maybe_done(lock.lock().into_future())));
        let mut alone: Vec<_> = alone.collect();
        for alone in &mut alone {
            // Polled once. On a busy machine the answer may be there by then.
            let _ = alone.now_or_never();
        }
        let taken = soon("a lock", lock(0).lock()).await;
        taken.unwrap_or_else(|error| panic!("{round}: {error}")).unlock().await.unwrap();
        for mut alone in alone {
            alone.as_mut().await;
            let guard = alone.as_mut().take_output().expect("an answer");
            guard.unwrap().unlock().await.unwrap();
        }
    }
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

/// As after a firewall has forgotten what was open.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_wait_for_replicas_are_replaced_when_they_are_dead() {
    let stage = Stage::new().await;
    let short = Duration::from_secs(1);
    let config = stage.config().command_timeout(short).retry_timeout(short);
    let client = connect(config.replica_timeout(short / 2)).await;
    let confirmed = |i: usize| client.lock(format!("{LOCK}:{i}")).replicas(Replicas::All);
    let locks: Vec<_> = (0..12).map(confirmed).collect();
    let take_all = || join_all(locks.iter().map(async |lock| lock.lock().await?.unlock().await));
    take_all().await.into_iter().for_each(|taken| taken.unwrap());

    stage.proxy.forget_connections();
    let begun = Instant::now();
    let plain = async {
        gets_through(&client).await;
        begun.elapsed()
    };
    let replicated = async {
        while locks[0].lock().await.is_err() {}
        begun.elapsed()
    };
    let both = async { tokio::join!(plain, replicated) };
    let (plain, replicated) = within(2 * SOON, "to get through", both).await;
    println!("after a freeze: plain {plain:?}, with replicas {replicated:?}");
    assert!(replicated < plain + 4 * short, "{plain:?}, {replicated:?}");
    // All of them, not only one.
    take_all().await.into_iter().for_each(|taken| taken.unwrap());
    stage.nothing_held().await;
    stage.end([client]).await;
}

/// As when a name leads to another server, and the one before is still a master.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_wait_for_replicas_lead_where_the_one_for_commands_leads() {
    let (stage, other) = (Stage::new().await, RedisServer::start());
    let (client, far) = (stage.client().await, connect(config(&other)).await);
    let confirmed = client.lock(LOCK).replicas(Replicas::All);
    confirmed.lock().await.unwrap().unlock().await.unwrap();
    client.lock("plain").lock().await.unwrap().unlock().await.unwrap();

    let held = far.lock(LOCK).lock().await.unwrap();
    stage.proxy.lead_to(other.port());
    assert_eq!(stage.proxy.cut_matching("plain"), 1, "the connection for commands");
    let listed = || async { client.lock(LOCK).is_locked().await.is_ok_and(|locked| locked) };
    soon("the other server", async { while !listed().await {} }).await;
    let taken = soon("an answer", confirmed.try_lock()).await.unwrap();
    assert!(taken.is_none(), "beside {held:?}: {taken:?}");
    held.unlock().await.unwrap();
    soon("the lock", confirmed.lock()).await.unwrap().unlock().await.unwrap();
    assert_nothing_left(&other).await;
    stage.end([client, far]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_that_ask_for_replicas_of_a_server_that_hangs_are_answered_in_time() {
    const MANY: usize = 300;
    let master = RedisServer::start();
    let client =
        connect(config(&master).command_timeout(TIMEOUT).replica_timeout(TIMEOUT / 2)).await;
    let lock = |i: usize| client.lock(format!("{LOCK}:{i}")).replicas(Replicas::All);
    for round in ["new", "used"] {
        master.pause();
        let begun = Instant::now();
        let asking = (0..MANY).map(async |i| (lock(i).try_lock().await.map(drop), begun.elapsed()));
        let answers = within(3 * SOON, "for all answers", join_all(asking)).await;
        master.resume();
        let longest = answers.iter().map(|(_, took)| *took).max().unwrap();
        println!("{round} connections: the longest of {MANY} took {longest:?}");
        answers.into_iter().for_each(|(answer, _)| assert_redis_error(answer));
        assert!(longest < 2 * TIMEOUT, "{longest:?}");
        let free = async || while lock(0).is_locked().await.is_err() {};
        soon("to get through", free()).await;
        let taken = join_all((0..40).map(async |i| lock(i).lock().await?.unlock().await));
        soon("to take them", taken).await.into_iter().for_each(|taken| taken.unwrap());
    }
    let inspector = master.inspector();
    let gone = || inspector.keys().is_empty().then_some(());
    eventually(PATIENCE, "an end of all holds", gone).await;
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_waits_for_replicas_is_not_kept_by_a_client_that_is_closed() {
    let master = RedisServer::start();
    let config = config(&master).replicas(Replicas::AtLeast(1)).replica_timeout(TIMEOUT);
    let client = connect(config.retry_timeout(Duration::from_millis(300))).await;
    let lock = client.lock(LOCK);
    let waiting = tokio::spawn(async move { lock.lock().await.map(drop) });
    let inspector = master.inspector();
    let connections = || {
        let list: String = inspector.query(cmd("CLIENT").arg("LIST"));
        (list.lines().count() - 1, list.contains("cmd=wait"))
    };
    eventually(PATIENCE, "WAIT", || connections().1.then_some(())).await;
    client.close().await.unwrap_err();
    let ended = within(SOON, "to end", waiting).await.unwrap();
    assert!(matches!(ended, Err(Error::Closed)), "{ended:?}");
    let gone = || (connections().0 == 0).then_some(());
    eventually(PATIENCE, "all connections to be closed", gone).await;
    drop(client);
}

/// Redisson returns permits of a refused acquisition without a look whether it had them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permits_that_too_few_confirm_are_returned_once() {
    let (master, replicas) = with_replicas(1).await;
    let short = Duration::from_secs(1);
    let client = connect(config(&master).replicas(Replicas::All).replica_timeout(short)).await;
    let pool = client.semaphore(LOCK);
    assert!(pool.try_set(7).await.unwrap());
    pool.acquire(2).await.unwrap().release().await.unwrap();
    replicas[0].pause();
    for _ in 0..3 {
        let refused = soon("a refusal", pool.try_acquire(5)).await.map(drop);
        assert!(matches!(refused, Err(Error::NotReplicated { .. })), "{refused:?}");
        // There are not so many: nothing is to be confirmed.
        assert!(soon("an answer", pool.try_acquire(8)).await.unwrap().is_none());
        let returned = async { while pool.available().await.unwrap() != 7 {} };
        soon("the permits", returned).await;
    }
    replicas[0].resume();
    let permit = soon("permits", pool.acquire(7)).await.unwrap();
    assert_eq!(pool.available().await.unwrap(), 0);
    permit.release().await.unwrap();
    master.inspector().query::<()>(cmd("DEL").arg(LOCK));
    end(&master, client).await;
}

/// Redisson sends `addPermits` again when too few confirm it, and each copy counts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leased_permits_that_too_few_confirm_are_returned_and_added_ones_count_once() {
    let (master, replicas) = with_replicas(1).await;
    let short = Duration::from_secs(1);
    let client = connect(config(&master).replicas(Replicas::All).replica_timeout(short)).await;
    let pool = client.expirable_semaphore(LOCK);
    assert!(pool.try_set(7).await.unwrap());
    pool.acquire(2).await.unwrap().release().await.unwrap();
    replicas[0].pause();
    for _ in 0..3 {
        let refused = soon("a refusal", pool.try_acquire(5)).await.map(drop);
        assert!(matches!(refused, Err(Error::NotReplicated { .. })), "{refused:?}");
        let returned = async { while pool.available().await.unwrap() != 7 {} };
        soon("the permits", returned).await;
    }
    soon("an answer", pool.add(1)).await.unwrap();
    assert_eq!(pool.available().await.unwrap(), 8);
    replicas[0].resume();
    let permit = soon("permits", pool.acquire(8)).await.unwrap();
    assert_eq!(pool.available().await.unwrap(), 0);
    permit.release().await.unwrap();
    master.inspector().query::<()>(cmd("DEL").arg(LOCK));
    end(&master, client).await;
}

/// Of the second copy the server has nothing to replicate but that it came. From Redis 7.2 on, and in Valkey, WAIT asks for
/// the writes of its own connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_request_for_permits_needs_its_replicas_too() {
    let (master, replicas) = with_replicas(1).await;
    let proxy = Proxy::start(master.port()).await;
    let config = Config::from_url(proxy.url()).unwrap().replicas(Replicas::All);
    let client = connect(config.replica_timeout(Duration::from_secs(1))).await;
    let permits = client.semaphore("permits");
    assert!(permits.try_set(7).await.unwrap());
    permits.acquire(1).await.unwrap().release().await.unwrap();
    replicas[0].pause();
    let lost = proxy.lose_next_reply([&*sha("semaphore/acquire"), "permits"]);
    let refused = soon("a refusal", permits.try_acquire(5)).await;
    assert!(is_not_replicated(&refused), "{refused:?}");
    assert_eq!(lost.count(), 1);
    let returned = async || (permits.available().await.unwrap() == 7).then_some(());
    for _ in 0..100 {
        if returned().await.is_some() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the permits are not back");
}
