//! Servers that stand still while their clocks go on.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use harness::{PATIENCE, assert_nothing_left, eventually};
use redisson_lock::{Client, LockGuard, Loss};

use crate::stage::{
    LOCK, SHORT, Stage, WATCHDOG, renewed, soon, trusted_until, why_not_held, within,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_on_a_paused_server_is_told_before_the_key_could_go() {
    the_holder_is_told_in_time(SHORT).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_with_a_watchdog_of_30_s_is_told_before_the_key_could_go() {
    the_holder_is_told_in_time(WATCHDOG).await;
}

async fn the_holder_is_told_in_time(watchdog: Duration) {
    let stage = Stage::new().await;
    let client = Client::connect(stage.config().watchdog(watchdog)).await.unwrap();
    let guard = client.lock(LOCK).lock().await.unwrap();
    if watchdog < WATCHDOG {
        // Not the first lease, but a renewed one.
        renewed(&guard).await;
    }

    let (trust_ends, key_ends) = pause(&stage, &guard).await;
    // A timer for the same moment that is not ours: it shows how late this machine is with all timers.
    let reference = tokio::spawn(async move {
        tokio::time::sleep_until(trust_ends.into()).await;
        Instant::now().saturating_duration_since(trust_ends)
    });
    let dropped = Arc::new(AtomicBool::new(false));
    let work = {
        let marker = Marker(Arc::clone(&dropped));
        async move {
            let _marker = marker;
            pending::<()>().await;
        }
    };
    let (loss, worked) = within(watchdog + PATIENCE, "to be told", async {
        tokio::join!(async { (guard.lost().await, Instant::now()) }, guard.while_held(work),)
    })
    .await;
    let (loss, told) = loss;
    let late = reference.await.unwrap();

    assert_eq!(loss, Loss::Expired);
    assert_eq!(why_not_held(worked), Loss::Expired);
    assert!(dropped.load(Ordering::SeqCst), "the work goes on");
    assert!(!guard.is_held());
    let by_design = key_ends.saturating_duration_since(trust_ends);
    println!(
        "watchdog {watchdog:?}: trust ended {by_design:?} before the key could; told {:?} before it \
         (timers were late by {late:?})",
        key_ends.saturating_duration_since(told),
    );
    assert!(trust_ends < key_ends, "trust outlives the key");
    assert!(told < key_ends + late, "told {:?} late", told - key_ends);

    eventually(watchdog + PATIENCE, "the end of the lease", || {
        (Instant::now() > key_ends + Duration::from_millis(50)).then_some(())
    })
    .await;
    stage.server.resume();
    assert_nothing_left(&stage.server).await;
    assert_eq!(why_not_held(guard.unlock().await), Loss::Expired);
    let next = soon("to acquire", client.lock(LOCK).lock()).await.unwrap();
    stage.assert_held_by(&next, LOCK);
    next.unlock().await.unwrap();
    stage.end([client]).await;
}

/// Pauses the server. Says when the guard's trust ends at the latest, and when the key ends at the earliest.
async fn pause(stage: &Stage, guard: &LockGuard) -> (Instant, Instant) {
    loop {
        let trusted = trusted_until(guard);
        let asked = Instant::now();
        let ttl = stage.redis().pttl(LOCK).try_into().expect("a TTL");
        stage.server.pause();
        // A renewal may have slipped in: its answer would be here by now.
        tokio::time::sleep(Duration::from_millis(150)).await;
        if trusted_until(guard) < trusted + Duration::from_millis(20) {
            // The server counts in whole milliseconds.
            let key_until = asked + Duration::from_millis(ttl) - Duration::from_millis(1);
            return (trusted, key_until);
        }
        stage.server.resume();
    }
}

/// Tells when it is dropped.
struct Marker(Arc<AtomicBool>);

impl Drop for Marker {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
