//! Servers that stand still while their clocks run.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures::future::join3;
use harness::{PATIENCE, assert_nothing_left, eventually};
use redisson_lock::{LockGuard, Loss};
use tokio::time::sleep_until;

use crate::stage::{
    LOCK, Stage, WATCHDOG, connect, renewed, soon, stopped, trusted_until, why_not_held, within,
};

/// Timers know no shorter times.
const TICK: Duration = Duration::from_millis(1);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_on_a_paused_server_is_told_before_the_key_could_go() {
    the_holder_is_told_in_time(Duration::from_millis(1_500)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_with_a_watchdog_of_30_s_is_told_before_the_key_could_go() {
    the_holder_is_told_in_time(WATCHDOG).await;
}

async fn the_holder_is_told_in_time(watchdog: Duration) {
    let stage = Stage::new().await;
    let client = connect(stage.config().watchdog(watchdog)).await;
    let guard = client.lock(LOCK).lock().await.unwrap();
    let (trust_ends, key_ends) = pause(&stage, &guard, watchdog).await;

    let dropped = Arc::new(AtomicBool::new(false));
    let work = {
        let marker = Marker(Arc::clone(&dropped));
        async move {
            let _marker = marker;
            pending::<()>().await;
        }
    };
    let told = async { (guard.lost().await, Instant::now()) };
    // A timer of ours, polled behind the other: as late as it is, this machine is with all of them.
    let timer = async {
        sleep_until((trust_ends + 2 * TICK).into()).await;
        Instant::now()
    };
    let all = join3(told, guard.while_held(work), timer);
    let ((loss, told), worked, timer) = within(watchdog + PATIENCE, "to be told", all).await;

    assert_eq!(loss, Loss::Expired);
    assert_eq!(why_not_held(worked), Loss::Expired);
    assert!(dropped.load(Ordering::SeqCst), "the work goes on");
    assert!(!guard.is_held());
    println!(
        "watchdog {watchdog:?}: trust ended {:?} before the key could; told {:?} before it (timers were late by {:?})",
        key_ends.saturating_duration_since(trust_ends),
        key_ends.saturating_duration_since(told),
        timer.saturating_duration_since(trust_ends + 2 * TICK),
    );
    assert!(trust_ends + 3 * TICK < key_ends, "trust lasts as long as the key");
    assert!(told <= timer, "told {:?} after a timer", told - timer);

    eventually(watchdog + PATIENCE, "the end of the lease", || {
        (Instant::now() > key_ends + 50 * TICK).then_some(())
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
async fn pause(stage: &Stage, guard: &LockGuard, watchdog: Duration) -> (Instant, Instant) {
    loop {
        if watchdog < WATCHDOG {
            // Not the first lease, but a renewed one.
            renewed(guard).await;
        }
        let trust_ends = trusted_until(guard);
        let asked = Instant::now();
        let ttl = stage.redis().pttl(LOCK).try_into().expect("a TTL");
        stage.server.pause();
        stopped(stage.server.pid()).await;
        // By then no renewal was due yet, so none has slipped in.
        if guard.remaining() > watchdog.mul_f64(0.75) {
            // The server counts in whole milliseconds.
            return (trust_ends, asked + Duration::from_millis(ttl) - TICK);
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
