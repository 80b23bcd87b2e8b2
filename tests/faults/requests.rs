//! Requests that never arrive, or arrive late.

use std::time::Duration;

use harness::{PATIENCE, eventually};

use crate::stage::{LOCK, Stage, connect, sha, soon, warm_up};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acquisitions_and_releases_that_never_arrive_are_sent_again() {
    let stage = Stage::new().await;
    let client = stage.client().await;
    warm_up(&client).await;
    let lock = client.lock(LOCK);
    let mut me = client.owner();
    for round in 0..6 {
        // Of every third, also the second try is lost.
        let times = 1 + usize::from(round % 3 == 0);
        let lost = stage.proxy.lose_requests([&sha("reentrant/acquire"), LOCK], times);
        let outer = soon("to acquire", lock.lock().by(&mut me)).await.unwrap();
        assert_eq!(lost.count(), times);
        assert_eq!(stage.hold_count(LOCK), 1);

        let lost = stage.proxy.lose_requests([&sha("reentrant/reenter"), LOCK], times);
        let inner = soon("to re-enter", lock.lock().by(&mut me)).await.unwrap();
        assert_eq!(lost.count(), times);
        assert_eq!(stage.hold_count(LOCK), 2);

        let lost = stage.proxy.lose_requests([&sha("reentrant/release"), LOCK], 2 * times);
        soon("to unlock", inner.unlock()).await.unwrap();
        assert_eq!(lost.count(), 2 * times);
        assert_eq!(stage.hold_count(LOCK), 1);

        let lost = stage.proxy.lose_requests([&sha("reentrant/release"), LOCK], times);
        soon("to unlock", outer.unlock()).await.unwrap();
        assert_eq!(lost.count(), times);
        assert_eq!(stage.hold_count(LOCK), 0);
    }
    stage.end([client]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_guard_whose_release_never_arrives_is_released_all_the_same() {
    let stage = Stage::new().await;
    let client = stage.client().await;
    warm_up(&client).await;
    for _ in 0..5 {
        let guard = client.lock(LOCK).lock().await.unwrap();
        let lost = stage.proxy.lose_requests([&sha("reentrant/release"), LOCK], 2);
        drop(guard);
        lost.reached(2).await;
        eventually(PATIENCE, "the release", || (stage.hold_count(LOCK) == 0).then_some(())).await;
    }
    stage.end([client]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquisition_that_arrives_after_its_caller_has_gone_is_undone() {
    let stage = Stage::new().await;
    let timeout = Duration::from_millis(700);
    let config = stage.config().command_timeout(timeout);
    let client = connect(config).await;
    warm_up(&client).await;
    // Held back beyond its time, and for less.
    for wait in [Duration::ZERO, timeout / 2, 3 * timeout] {
        stage.proxy.hold_requests_with([&sha("reentrant/acquire"), LOCK]);
        let lock = client.lock(LOCK);
        let task = tokio::spawn(async move { lock.lock().await.map(drop) });
        eventually(PATIENCE, "the request to be held back", || {
            (stage.proxy.held() > 0).then_some(())
        })
        .await;
        tokio::time::sleep(wait).await;
        task.abort();
        stage.proxy.release_held();
        stage.nothing_held().await;
    }
    stage.end([client]).await;
}
