//! An owner drops its guard while the server does not answer, and wants the lock again.

use std::time::Duration;

use redisson_lock::{Client, Error, Lock, Owner, RedisErrorKind};
use tokio::time::timeout;

use crate::stage::{LOCK, Stage, sha, soon, warm_up};

/// A lock whose guard was dropped. The release does not come to the server.
async fn dropped(stage: &Stage) -> (Client, Lock, Owner) {
    let client = stage.client().await;
    warm_up(&client).await;
    let (lock, mut me) = (client.lock(LOCK), client.owner());
    let guard = lock.lock().by(&mut me).await.unwrap();
    stage.proxy.hold_requests_with(&*sha("reentrant/release"));
    drop(guard);
    (client, lock, me)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_does_not_wait_for_ever_for_the_release_of_its_own_hold() {
    let stage = Stage::new().await;
    let (client, lock, mut me) = dropped(&stage).await;
    let tried = soon("an answer", lock.try_lock().by(&mut me).into_future()).await;
    let Err(Error::Redis(error)) = tried else { panic!("{tried:?}") };
    assert_eq!(error.kind(), RedisErrorKind::Timeout);
    let wait = Duration::from_millis(100);
    let tried = soon("an answer", lock.try_lock().wait(wait).by(&mut me).into_future()).await;
    assert!(matches!(tried, Ok(None) | Err(Error::Redis(_))), "{tried:?}");
    assert_eq!(stage.hold_count(LOCK), 1, "it re-entered, or the release came");
    stage.proxy.heal();
    stage.proxy.release_held();
    let guard = soon("the lock", lock.lock().by(&mut me).into_future()).await.unwrap();
    assert_eq!(guard.hold_count(), 1);
    stage.assert_held_by(&guard, LOCK);
    guard.unlock().await.unwrap();
    stage.end([client]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_that_waits_for_the_release_of_its_own_hold_may_be_dropped() {
    let stage = Stage::new().await;
    let (client, lock, mut me) = dropped(&stage).await;
    for _ in 0..3 {
        let waits = timeout(Duration::from_millis(100), lock.lock().by(&mut me).into_future());
        assert!(waits.await.is_err(), "it re-entered");
    }
    stage.proxy.heal();
    stage.proxy.release_held();
    stage.nothing_held().await;
    let guard = soon("the lock", lock.try_lock().by(&mut me).into_future()).await.unwrap();
    drop(guard.expect("free"));
    stage.end([client]).await;
}
