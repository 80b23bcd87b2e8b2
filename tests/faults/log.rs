//! The log lines of the crate.

use std::time::Duration;

use harness::redis::cmd;
use harness::{PATIENCE, RedisServer, eventually};
use redisson_lock::{Client, Config, Loss, MultiLock};

use crate::stage::{LOCK, Stage, connect, gets_it, gets_through, sha, soon, waiter};
use crate::warnings::{listen, listen_to_everything};

#[tokio::test]
async fn a_loss_is_told_to_the_log_once_and_so_are_renewals_that_fail() {
    let warnings = listen();
    let stage = Stage::new().await;
    let watchdog = Duration::from_secs(4);
    let client = connect(stage.config().watchdog(watchdog)).await;
    let guard = client.lock(LOCK).lock().await.unwrap();
    warnings.assert_without("lock lost");

    let lost = stage.proxy.lose_requests([&sha("reentrant/renew"), LOCK], 1);
    lost.reached(1).await;
    warnings.eventually_has(&["renewal failed"]).await;
    warnings.assert_without("lock lost");

    assert!(client.lock(LOCK).force_unlock().await.unwrap());
    assert_eq!(soon("to be told", guard.lost()).await, Loss::Removed);
    warnings.eventually_has(&["lock lost", LOCK, guard.holder(), "removed"]).await;
    assert!(guard.unlock().await.is_err());
    assert_eq!(warnings.count("lock lost"), 1);
    stage.end([client]).await;
}

#[tokio::test]
async fn a_loss_that_nobody_waits_for_is_told_to_the_log_when_the_guard_is_dropped() {
    let warnings = listen();
    let stage = Stage::new().await;
    let client = stage.client().await;
    let guard = client.lock(LOCK).lock().await.unwrap();
    assert!(client.lock(LOCK).force_unlock().await.unwrap());
    drop(guard);
    warnings.eventually_has(&["release of a dropped guard", LOCK, "no longer held"]).await;
    stage.end([client]).await;
}

#[tokio::test]
async fn a_waiter_for_a_lock_of_its_own_client_is_told_to_the_log_once() {
    let warnings = listen();
    let stage = Stage::new().await;
    let client = stage.client().await;
    let guard = client.lock(LOCK).lock().await.unwrap();
    let turn = waiter(&client, LOCK);
    warnings.eventually_has(&["waiting for a lock that this client holds", LOCK]).await;
    guard.unlock().await.unwrap();
    gets_it(turn).await.0.unlock().await.unwrap();
    assert_eq!(warnings.count("this client holds"), 1);
    stage.end([client]).await;
}

#[tokio::test]
async fn what_was_given_back_before_the_client_closes_is_not_told_to_be_lost() {
    let warnings = listen();
    let stage = Stage::new().await;
    for round in 0..5 {
        let client = stage.client().await;
        let mut me = client.owner();
        let dropped = [
            client.lock(LOCK).lock().await.unwrap(),
            client.fair_lock("fair").lock().lease(Duration::from_secs(60)).await.unwrap(),
            client.lock("owned").lock().by(&mut me).await.unwrap(),
        ];
        let several = MultiLock::all([client.lock("one"), client.lock("other")]);
        let several = several.lock().await.unwrap();
        let pool = client.expirable_semaphore("pool");
        pool.try_set(3).await.unwrap();
        let permit = pool.acquire(1).await.unwrap();
        drop((dropped, several, permit));
        if round == 0 {
            // One that is still there is lost.
            let kept = client.lock("kept").lock().await.unwrap();
            soon("to close", client.close()).await.unwrap();
            assert_eq!(kept.lost().await, Loss::Closed);
            assert_eq!(warnings.count("lock lost"), 1);
            stage.redis().query::<()>(harness::redis::cmd("DEL").arg("kept"));
        }
        soon("to close", client.close()).await.unwrap();
        assert_eq!(stage.redis().query::<i64>(harness::redis::cmd("GET").arg("pool")), 3);
        let of_pool = ["pool", "redisson_lock_requests:{pool}"];
        stage.redis().query::<()>(harness::redis::cmd("DEL").arg(&of_pool));
        stage.end([client]).await;
    }
    assert_eq!(warnings.count("lock lost"), 1);
    warnings.assert_without("permits lost");
    warnings.assert_without("dropped guard");
}

#[tokio::test]
async fn closing_in_peace_warns_of_nothing() {
    let log = listen_to_everything();
    let stage = Stage::new().await;
    let client = stage.client().await;
    client.lock(LOCK).lock().await.unwrap().unlock().await.unwrap();
    client.close().await.unwrap();
    // What is done when the last handle is gone, too.
    drop(client);
    tokio::time::sleep(Duration::from_millis(200)).await;
    log.assert_without("WARN");
    log.assert_without("ERROR");
    stage.end([]).await;
}

#[tokio::test]
async fn a_connection_that_is_lost_and_back_is_told_to_the_log_in_a_line_each() {
    let log = listen_to_everything();
    let stage = Stage::new().await;
    let client = stage.client().await;
    let server = stage.proxy.url().replace("redis://", "");
    log.assert_without("is lost");
    for times in 1..=2 {
        assert!(stage.proxy.cut_all() >= 2);
        let back = "redis is connected to again";
        eventually(PATIENCE, "the connection to be back", || {
            (log.count(back) == times).then_some(())
        })
        .await;
        assert_eq!(log.count("the connection to redis is lost"), times);
        log.eventually_has(&["INFO", back, &server]).await;
        log.eventually_has(&["WARN", "the connection to redis is lost", &server]).await;
        gets_through(&client).await;
    }
    stage.end([client]).await;
    assert_eq!(log.count("the connection to redis is lost"), 2);
}

#[tokio::test]
async fn a_server_that_may_evict_locks_is_told_to_the_log_once() {
    let warnings = listen();
    let builder = RedisServer::builder().arg("--maxmemory").arg("100mb");
    let stage = Stage::with(builder.arg("--maxmemory-policy").arg("allkeys-lru")).await;
    let client = stage.client().await;
    let server = stage.proxy.url().replace("redis://", "");
    warnings.eventually_has(&["may evict locks", "allkeys-lru", "noeviction", &server]).await;
    use_it(&client).await;
    stage.end([client]).await;
    assert_eq!(warnings.count("may evict locks"), 1);
}

#[tokio::test]
async fn nothing_is_said_of_eviction_where_there_is_none_or_nobody_may_ask() {
    let warnings = listen();
    let builder = RedisServer::builder().arg("--maxmemory-policy").arg("allkeys-lru");
    let stage = Stage::with(builder).await;
    let unlimited = stage.client().await;
    use_it(&unlimited).await;
    let set = |name: &str, value: &str| {
        stage.redis().query::<()>(cmd("CONFIG").arg(&["SET", name, value]));
    };
    set("maxmemory", "100mb");
    set("maxmemory-policy", "noeviction");
    let careful = stage.client().await;
    use_it(&careful).await;
    set("maxmemory-policy", "allkeys-lru");
    let rules = ["SETUSER", "service", "on", ">secret", "~*", "&*", "+@all", "-info"];
    stage.redis().query::<()>(cmd("ACL").arg(&rules));
    let url = stage.proxy.url().replace("redis://", "redis://service:secret@");
    let connecting = Client::connect(Config::from_url(url).unwrap());
    let stranger = soon("to connect", connecting).await.unwrap();
    use_it(&stranger).await;
    stage.end([unlimited, careful, stranger]).await;
    warnings.assert_without("may evict locks");
}

/// What was asked before on the same connection is answered then.
async fn use_it(client: &Client) {
    client.lock(LOCK).lock().await.unwrap().unlock().await.unwrap();
}

#[tokio::test]
async fn a_waiter_for_a_key_without_a_ttl_is_told_to_the_log_once() {
    let warnings = listen();
    let stage = Stage::new().await;
    let client = stage.client().await;
    stage.redis().query::<()>(cmd("HSET").arg(LOCK).arg("name").arg("Ann"));
    let turn = waiter(&client, LOCK);
    let told = ["without a TTL", LOCK];
    warnings.eventually_has(&told).await;
    // It has asked again meanwhile.
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(warnings.count(told[0]), 1);
    stage.redis().query::<()>(cmd("DEL").arg(LOCK));
    gets_it(turn).await.0.unlock().await.unwrap();
    // A lock that another holds has one.
    let other = stage.far_client().await;
    let guard = other.lock(LOCK).lock().await.unwrap();
    let turn = waiter(&client, LOCK);
    tokio::time::sleep(Duration::from_secs(4)).await;
    guard.unlock().await.unwrap();
    gets_it(turn).await.0.unlock().await.unwrap();
    assert_eq!(warnings.count(told[0]), 1);
    stage.end([client, other]).await;
}

#[tokio::test]
async fn a_subscription_that_fails_again_and_again_is_told_to_the_log_once_in_a_while() {
    let warnings = listen();
    let stage = Stage::new().await;
    let (client, holder) = (stage.client().await, stage.far_client().await);
    let guard = holder.lock(LOCK).lock().await.unwrap();
    let lost = stage.proxy.lose_requests("SUBSCRIBE", 1_000);
    let turn = waiter(&client, LOCK);
    warnings.eventually_has(&["could not subscribe"]).await;
    lost.reached(6).await;
    let told = warnings.count("could not subscribe");
    println!("{told} warnings");
    // The reason may have two wordings: the connection ends, or there is none yet.
    assert!((1..=2).contains(&told), "{told} warnings");
    stage.proxy.heal();
    guard.unlock().await.unwrap();
    gets_it(turn).await.0.unlock().await.unwrap();
    stage.end([client, holder]).await;
}
