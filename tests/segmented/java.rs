//! A JVM holds one of the segments.

use std::time::Duration;

use harness::{PeerArgs, RedisServer, assert_nothing_left, java_or_skip};
use tokio::time::{sleep, timeout};

use crate::{NAME, PROMPT, SEGMENTS, connect, stock};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_segment_that_a_jvm_holds_is_passed_over_and_all_wait_for_it() {
    let server = RedisServer::start();
    let test = "a_segment_that_a_jvm_holds_is_passed_over_and_all_wait_for_it";
    let Some(jvm) = java_or_skip(test, &PeerArgs::redis(server.url())).await else { return };
    let java = jvm.party("seller", "lock", format!("{NAME}:2"));
    let client = connect(server.url()).await;
    let stock = stock(&client);

    java.lock().await;
    for start in (0..SEGMENTS).chain([2; 20]) {
        let guard = stock.any().starting_at(start).lock().await.unwrap();
        assert_eq!(guard.segment(), if start == 2 { 3 } else { start });
        guard.unlock().await.unwrap();
    }
    for _ in 0..50 {
        let guard = stock.any().try_lock().await.unwrap().expect("three are free");
        assert_ne!(guard.segment(), 2);
        guard.unlock().await.unwrap();
    }
    assert!(stock.segment(2).try_lock().await.unwrap().is_none());
    assert!(stock.any().except([0, 1, 3]).try_lock().await.unwrap().is_none());
    assert!(stock.all().try_lock().await.unwrap().is_none());

    // All wait for it.
    let all = stock.all();
    let all = tokio::spawn(async move { all.lock().await.unwrap() });
    sleep(Duration::from_millis(700)).await;
    assert!(!all.is_finished(), "the JVM holds a segment");
    java.unlock().await;
    let all = timeout(PROMPT, all).await.expect("woken").unwrap();
    assert_eq!(all.held_members(), SEGMENTS);
    assert!(!java.try_lock().await, "all segments are held");

    // The JVM waits for its segment, and is woken.
    let turn = java.start_lock();
    sleep(Duration::from_millis(300)).await;
    assert!(turn.is_pending());
    all.unlock().await.unwrap();
    turn.granted_within(PROMPT).await;

    // The last segment that is free: the JVM's release wakes the waiter.
    let mut guards = Vec::new();
    for _ in 0..SEGMENTS - 1 {
        guards.push(stock.any().lock().await.unwrap());
    }
    let any = stock.any();
    let waiter = tokio::spawn(async move { any.lock().await.unwrap() });
    sleep(Duration::from_millis(700)).await;
    assert!(!waiter.is_finished(), "nothing is free");
    java.unlock().await;
    let guard = timeout(PROMPT, waiter).await.expect("woken").unwrap();
    assert_eq!(guard.segment(), 2);

    drop((guard, guards));
    client.close().await.unwrap();
    jvm.close().await.unwrap();
    assert_nothing_left(&server).await;
}
