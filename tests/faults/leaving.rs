//! Clients that are closed, and clients that are only dropped.

use std::time::Duration;

use harness::assert_nothing_left;
use redisson_lock::{Client, Error, Loss};

use crate::stage::{LOCK, SHORT, Stage, connect, renewed, soon, waiter, within};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_is_closed_releases_what_was_dropped_before() {
    let stage = Stage::new().await;
    let client = stage.client().await;
    let mut guards = Vec::new();
    for n in 0..200 {
        guards.push(client.lock(format!("lock:{n}")).lock().await.unwrap());
    }
    assert_eq!(stage.redis().keys().len(), 200);
    drop(guards);
    soon("to close", client.close()).await.unwrap();
    assert_eq!(stage.redis().keys(), [""; 0], "left at once");
    stage.end([client]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_is_dropped_releases_and_its_connections_go() {
    let stage = Stage::new().await;
    let before = stage.connections();
    for _ in 0..3 {
        let client = stage.client().await;
        assert_eq!(stage.connections(), before + 2);
        let guards =
            [client.lock("a").lock().await.unwrap(), client.lock("b").lock().await.unwrap()];
        let turn = waiter(&client, "a");
        stage.listening("a", 1).await;
        drop(client);
        turn.abort();
        drop(guards);
        assert_nothing_left(&stage.server).await;
        stage.connections_down_to(before).await;
    }
    stage.end([]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guard_outlives_its_client_and_is_renewed() {
    let stage = Stage::new().await;
    let before = stage.connections();
    let client = connect(stage.config().watchdog(SHORT)).await;
    let guard = client.lock(LOCK).lock().await.unwrap();
    drop(client);
    renewed(&guard).await;
    guard.check().await.unwrap();
    guard.unlock().await.unwrap();
    stage.connections_down_to(before).await;
    stage.end([]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guard_may_be_dropped_outside_the_runtime() {
    let stage = Stage::new().await;
    let client = stage.client().await;
    let guard = client.lock(LOCK).lock().await.unwrap();
    std::thread::spawn(move || drop(guard)).join().unwrap();
    assert_nothing_left(&stage.server).await;
    stage.end([client]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holders_and_waiters_of_a_closed_client_are_told() {
    let stage = Stage::new().await;
    let (client, far) = (stage.client().await, stage.far_client().await);
    let guard = client.lock("held").lock().await.unwrap();
    let far_guard = far.lock(LOCK).lock().await.unwrap();
    let turns = [waiter(&client, LOCK), waiter(&client, LOCK)];
    stage.listening(LOCK, 1).await;
    soon("to close", client.close()).await.unwrap();
    for turn in turns {
        let waited = soon("the waiter to be told", turn).await.unwrap();
        assert!(matches!(waited, Err(Error::Closed)), "{waited:?}");
    }
    assert_eq!(soon("to be told", guard.lost()).await, Loss::Closed);
    assert!(matches!(client.lock("new").lock().await, Err(Error::Closed)));
    assert!(matches!(client.lock("new").try_lock().await, Err(Error::Closed)));
    assert!(matches!(client.lock("new").is_locked().await, Err(Error::Closed)));
    assert!(guard.unlock().await.is_err());
    soon("to close again", client.close()).await.unwrap();
    stage.proxy.connected(0).await;
    assert!(far.lock("held").force_unlock().await.unwrap(), "it ends with its lease");
    far_guard.unlock().await.unwrap();
    stage.end([far]).await;
}

/// What is dropped while it connects must not stay connected.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_is_dropped_while_it_connects_leaves_no_connection() {
    let stage = Stage::new().await;
    let before = stage.connections();
    stage.proxy.delay_replies(Duration::from_millis(3));
    for cut in 0..40 {
        let config = stage.config();
        let connecting = tokio::spawn(async move { Client::connect(config).await.map(drop) });
        tokio::time::sleep(Duration::from_millis(cut)).await;
        connecting.abort();
    }
    within(Duration::from_secs(10), "the connections to go", stage.connections_down_to(before))
        .await;
    stage.end([]).await;
}
