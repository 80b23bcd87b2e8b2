//! Local waiters: a failure of one does not affect the others, unless it concerns all.

use std::time::Duration;

use futures::future::join_all;
use harness::redis::cmd;
use harness::{PATIENCE, eventually};
use redisson_lock::{Client, Error, LockGuard, Replicas};
use tokio::time::timeout;

use crate::stage::{LOCK, Stage, assert_redis_error, connect, gets_it, soon, visitor, waiter};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_that_nobody_polls_keeps_nobody_waiting_behind_it() {
    let stage = Stage::new().await;
    let (client, holder) = (stage.client().await, stage.far_client().await);
    let guard = holder.lock(LOCK).lock().await.unwrap();
    let lock = client.lock(LOCK);
    let mut alone = lock.lock().into_future();
    // A request that is under way is granted if it comes after the release, and then nobody knows.
    let scripts = scripts_run(&stage);
    let both = || (scripts_run(&stage) >= scripts + 2).then_some(());
    tokio::select! {
        guard = &mut alone => panic!("it is held: {guard:?}"),
        () = eventually(PATIENCE, "its two requests, before and after it subscribes", both) => {}
    }
    let polled = timeout(Duration::from_millis(300), &mut alone).await;
    assert!(polled.is_err());
    let turns = [visitor(&client, LOCK), visitor(&client, LOCK)];
    tokio::time::sleep(Duration::from_millis(100)).await;
    guard.unlock().await.unwrap();
    for turn in turns {
        soon("to be let past the one that sleeps", turn).await.unwrap().unwrap();
    }
    soon("to get its turn late", alone).await.unwrap().unlock().await.unwrap();
    stage.end([client, holder]).await;
}

/// How many scripts the server has run, which it knew.
fn scripts_run(stage: &Stage) -> u64 {
    let stats: String = stage.redis().query(cmd("INFO").arg("commandstats"));
    let calls = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    calls.map_or(0, |calls| calls.split(',').next().unwrap().parse().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_hangs_is_not_reported_as_a_lock_that_is_held() {
    let stage = Stage::new().await;
    let (client, holder) = (stage.client().await, stage.far_client().await);
    let guard = holder.lock(LOCK).lock().await.unwrap();
    let head = waiter(&client, LOCK);
    stage.listening(LOCK, 1).await;
    for answer in fifty_try(&client).await {
        assert!(matches!(answer, Ok(None)), "while the server answers: {answer:?}");
    }
    stage.server.pause();
    // The head looks again every three seconds, and now hears nothing.
    tokio::time::sleep(Duration::from_millis(3_300)).await;
    for answer in fifty_try(&client).await {
        assert_redis_error(answer);
    }
    stage.server.resume();
    guard.unlock().await.unwrap();
    if let (Ok(Ok(guard)), _) = (soon("to end", head).await, ()) {
        guard.unlock().await.unwrap();
    }
    stage.end([client, holder]).await;
}

async fn fifty_try(client: &Client) -> Vec<Result<Option<LockGuard>, Error>> {
    let lock = client.lock(LOCK);
    let wait = Duration::from_millis(500);
    join_all((0..50).map(|_| soon("an answer", lock.try_lock().wait(wait)))).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_that_do_not_confirm_concern_only_who_asked_for_them() {
    let stage = Stage::new().await;
    let config = stage.config().replica_timeout(Duration::from_millis(300));
    let (client, holder) = (connect(config).await, stage.far_client().await);
    let guard = holder.lock(LOCK).lock().await.unwrap();
    // There are no replicas.
    let particular = client.lock(LOCK).replicas(Replicas::AtLeast(1));
    let mut particular = particular.lock().into_future();
    assert!(timeout(Duration::from_millis(300), &mut particular).await.is_err());
    let turn = waiter(&client, LOCK);
    tokio::time::sleep(Duration::from_millis(100)).await;
    let (refused, _) = tokio::join!(soon("to be refused", particular), guard.unlock());
    assert!(matches!(refused, Err(Error::NotReplicated { .. })), "{refused:?}");
    let (next, _) = gets_it(turn).await;
    next.unlock().await.unwrap();
    stage.end([client, holder]).await;
}
