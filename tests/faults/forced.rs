//! A lock is freed from one holder by its id, while others take it.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use harness::{PATIENCE, redis::cmd};
use redisson_lock::{Client, Error, Lock};
use tokio::{task::JoinHandle, time::sleep};

use crate::stage::{LOCK, Stage, assert_redis_error, connect, gets_it, waiter};

/// Takes the lock and gives it back until it is told to end, every fourth time after a while only. Returns the ids of the holds
/// that were gone when they were to be given back.
fn worker(lock: Lock, ended: Arc<AtomicBool>) -> JoinHandle<BTreeSet<String>> {
    tokio::spawn(async move {
        let mut lost = BTreeSet::new();
        for turn in 0.. {
            if ended.load(Ordering::Relaxed) {
                break;
            }
            let guard = lock.lock().await.unwrap();
            match turn % 4 {
                0 => sleep(Duration::from_millis(2)).await,
                _ => tokio::task::yield_now().await,
            }
            let holder = guard.holder().to_owned();
            match guard.unlock().await {
                Ok(()) => {}
                Err(Error::NotHeld { .. }) => assert!(lost.insert(holder), "one id, two holds"),
                Err(error) => panic!("{error}"),
            }
        }
        lost
    })
}

/// Looks who holds the lock and frees it from that holder, who has often given it back by then.
async fn races(lock_of: fn(&Client) -> Lock, looks: usize) {
    let stage = Stage::new().await;
    let ended = Arc::new(AtomicBool::new(false));
    let mut clients = Vec::new();
    let mut workers = Vec::new();
    for _ in 0..3 {
        let client = stage.far_client().await;
        workers.push(worker(lock_of(&client), ended.clone()));
        clients.push(client);
    }
    let operator = stage.far_client().await;
    let lock = lock_of(&operator);
    let (mut freed, mut late, mut looked) = (BTreeSet::new(), 0, 0);
    // On a slow machine a holder is nearly always gone when its release arrives.
    while looked < looks || freed.is_empty() && looked < 20 * looks {
        for holder in lock.inspect().await.unwrap().holders {
            looked += 1;
            match lock.force_unlock_if(&holder.id).await.unwrap() {
                true => assert!(freed.insert(holder.id), "freed twice"),
                false => late += 1,
            }
        }
    }
    ended.store(true, Ordering::Relaxed);
    let mut lost = BTreeSet::new();
    for worker in workers {
        lost.extend(worker.await.unwrap());
    }
    println!("{looked} looks: {} freed, {late} too late", freed.len());
    assert!(!freed.is_empty());
    assert_eq!(freed, lost, "the freed holds are the lost ones, and no others");
    clients.push(operator);
    stage.end(clients).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_is_freed_from_one_holder_is_never_freed_from_the_next() {
    // FORCED_LOOKS=10000 looks longer.
    let looks = std::env::var("FORCED_LOOKS").map_or(2_000, |looks| looks.parse().unwrap());
    races(|client| client.lock(LOCK), looks).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nor_is_a_fair_lock() {
    races(|client| client.fair_lock(LOCK), 500).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nor_are_the_sides_of_a_read_write_lock() {
    races(|client| client.read_write_lock(LOCK).read_lock().clone(), 1_000).await;
    races(|client| client.read_write_lock(LOCK).write_lock().clone(), 1_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_is_freed_and_the_others_stay() {
    let stage = Stage::new().await;
    let client = stage.client().await;
    let lock = client.read_write_lock(LOCK);
    // With leases of their own they do not share a hold.
    let read = || lock.read().lease(10 * PATIENCE).into_future();
    let (one, other) = (read().await.unwrap(), read().await.unwrap());
    assert!(lock.read_lock().force_unlock_if(one.holder()).await.unwrap());
    assert!(!lock.read_lock().force_unlock_if(one.holder()).await.unwrap(), "it is gone");
    one.check().await.unwrap_err();
    other.check().await.unwrap();
    assert!(!lock.write_lock().force_unlock_if(other.holder()).await.unwrap(), "it only reads");
    let plain = client.lock(LOCK).force_unlock_if(other.holder()).await;
    assert!(matches!(plain, Err(Error::WrongKind { .. })), "{plain:?}");
    other.check().await.unwrap();
    let field = client.lock(LOCK).force_unlock_if("mode").await;
    assert!(matches!(field, Err(Error::Invalid(_))), "{field:?}");
    other.unlock().await.unwrap();
    one.unlock().await.unwrap_err();
    stage.end([client]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_gets_what_was_freed_from_its_holder() {
    let stage = Stage::new().await;
    let (client, other) = (stage.client().await, stage.far_client().await);
    let held = client.lock(LOCK).lock().await.unwrap();
    let waiter = waiter(&other, LOCK);
    stage.listening(LOCK, 1).await;
    assert!(other.lock(LOCK).force_unlock_if(held.holder()).await.unwrap());
    let (guard, _) = gets_it(waiter).await;
    assert!(!other.lock(LOCK).force_unlock_if(held.holder()).await.unwrap());
    guard.check().await.unwrap();
    guard.unlock().await.unwrap();
    held.unlock().await.unwrap_err();
    stage.end([client, other]).await;
}

/// A thread of another program.
const THREAD: &str = "6f1c0a3e-8f0e-4a53-9e6f-0d2a3c4b5d6e:17";

/// The bound is for both requests, of which each has an answer within it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conditional_force_unlock_ends_within_the_command_timeout() {
    const BOUND: Duration = Duration::from_secs(8);
    let stage = Stage::new().await;
    let client = connect(stage.config().command_timeout(BOUND)).await;
    let lock = client.lock(LOCK);
    let hold = || stage.redis().query::<()>(cmd("HSET").arg(LOCK).arg(THREAD).arg(1));
    hold();
    // The server now knows the scripts, so that each later use is one request.
    assert!(lock.force_unlock_if(THREAD).await.unwrap());
    hold();
    stage.proxy.delay_replies(BOUND * 7 / 8);
    let begun = Instant::now();
    assert_redis_error(lock.force_unlock_if(THREAD).await);
    // Both answers would take 14 s.
    assert!(begun.elapsed() < BOUND * 13 / 8, "{:?}", begun.elapsed());
    stage.proxy.heal();
    stage.redis().query::<()>(cmd("DEL").arg(LOCK));
    stage.end([client]).await;
}
