//! Servers that forget, die, or stand still.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use harness::redis::cmd;
use harness::{PATIENCE, assert_nothing_left, eventually};
use redisson_lock::{Client, Error, LockGuard, Loss};

use crate::stage::{LOCK, SHORT, Stage, WATCHDOG, gets_it, soon, waiter, why_not_held, within};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_that_the_server_forgets_are_sent_again() {
    let stage = Stage::new().await;
    let client = Client::connect(stage.config().watchdog(SHORT)).await.unwrap();
    let holder = stage.far_client().await;
    let forget = || stage.redis().query::<()>(cmd("SCRIPT").arg("FLUSH"));
    let lock = client.lock(LOCK);

    forget();
    let mut me = client.owner();
    let outer = lock.lock().by(&mut me).await.unwrap();
    forget();
    let inner = lock.lock().by(&mut me).await.unwrap();
    forget();
    let unsure = outer.remaining();
    eventually(PATIENCE, "a renewal", || (outer.remaining() > unsure).then_some(())).await;
    forget();
    assert_eq!(lock.inspect().await.unwrap().holders[0].count, 2);
    forget();
    inner.unlock().await.unwrap();
    forget();
    outer.unlock().await.unwrap();

    let guard = holder.lock(LOCK).lock().await.unwrap();
    let turn = waiter(&client, LOCK);
    stage.listening(LOCK, 1).await;
    forget();
    guard.unlock().await.unwrap();
    let (guard, _) = gets_it(turn).await;
    forget();
    assert!(lock.force_unlock().await.unwrap());
    assert_eq!(soon("to be told", guard.lost()).await, Loss::Removed);
    drop(guard);
    stage.end([client, holder]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_comes_back_empty_takes_the_lock_from_its_holder_who_is_told() {
    let mut stage = Stage::new().await;
    let config = stage.config().watchdog(Duration::from_secs(6));
    let client = Client::connect(config).await.unwrap();
    let guard = client.lock(LOCK).lock().await.unwrap();
    let leased = client.lock("leased").lock().lease(WATCHDOG).await.unwrap();
    stage.restart_server();
    let back = Instant::now();
    assert_eq!(soon("to be told", guard.lost()).await, Loss::Removed);
    println!("told of the empty server {:?} after its return", back.elapsed());
    assert_eq!(why_not_held(guard.unlock().await), Loss::Removed);
    // Nobody renews it, so nobody has asked.
    assert!(leased.is_held());
    assert_eq!(why_not_held(leased.check().await), Loss::Removed);
    assert_eq!(why_not_held(leased.unlock().await), Loss::Removed);

    let guard = soon("to acquire", client.lock(LOCK).lock()).await.unwrap();
    stage.assert_held_by(&guard, LOCK);
    guard.unlock().await.unwrap();
    stage.end([client]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_gets_the_lock_from_a_server_that_comes_back_empty() {
    let mut stage = Stage::new().await;
    let (client, holder) = (stage.client().await, stage.far_client().await);
    let guard = holder.lock(LOCK).lock().await.unwrap();
    let (first, second) = (waiter(&client, LOCK), waiter(&client, LOCK));
    stage.listening(LOCK, 1).await;
    stage.server.kill();
    tokio::time::sleep(Duration::from_millis(300)).await;
    stage.restart_server();
    // One after the other, in whichever order.
    for turn in [first, second] {
        let unlock = async {
            let (guard, took) = gets_it(turn).await;
            println!("server came back empty: got the lock after {took:?}");
            stage.assert_held_by(&guard, LOCK);
            guard.unlock().await.unwrap();
        };
        soon("for both to be served", unlock).await;
    }
    why_not_held(guard.unlock().await);
    stage.end([client, holder]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn releases_that_meet_a_dead_server_end_when_it_is_back() {
    let mut stage = Stage::new().await;
    let client = stage.client().await;
    let (dropped, unlocked) = (
        client.lock("dropped").lock().await.unwrap(),
        client.lock("unlocked").lock().await.unwrap(),
    );
    stage.server.kill();
    drop(dropped);
    let unlock = tokio::spawn(unlocked.unlock());
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!unlock.is_finished(), "there is nobody to say so");
    stage.restart_server();
    // Whether a copy did it before the server died, nobody can know.
    let unlock = soon("to unlock", unlock).await.unwrap();
    assert!(matches!(unlock, Ok(()) | Err(Error::NotHeld { .. })), "{unlock:?}");
    stage.end([client]).await;
}

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
        let first = guard.remaining();
        eventually(PATIENCE, "a renewal", || (guard.remaining() > first).then_some(())).await;
    }

    let (trusted_until, key_until) = pause(&stage, &guard).await;
    // A timer for the same moment that is not ours: it shows how late this machine is with all timers.
    let reference = tokio::spawn(async move {
        tokio::time::sleep_until(trusted_until.into()).await;
        Instant::now().saturating_duration_since(trusted_until)
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
    let by_design = key_until.saturating_duration_since(trusted_until);
    println!(
        "watchdog {watchdog:?}: trust ended {by_design:?} before the key could; told {:?} before it \
         (timers were late by {late:?})",
        key_until.saturating_duration_since(told),
    );
    assert!(trusted_until < key_until, "trust outlives the key");
    assert!(told < key_until + late, "told {:?} late", told - key_until);

    eventually(watchdog + PATIENCE, "the end of the lease", || {
        (Instant::now() > key_until + Duration::from_millis(50)).then_some(())
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
    let trusted_until = || {
        let remaining = guard.remaining();
        Instant::now() + remaining
    };
    loop {
        let trusted = trusted_until();
        let asked = Instant::now();
        let ttl = stage.redis().pttl(LOCK).try_into().expect("a TTL");
        stage.server.pause();
        // A renewal may have slipped in: its answer would be here by now.
        tokio::time::sleep(Duration::from_millis(50)).await;
        if trusted_until() < trusted + Duration::from_millis(20) {
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
