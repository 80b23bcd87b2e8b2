//! What goes on while no call is under way: renewals and losses.

use std::{
    thread,
    time::{Duration, Instant},
};

use harness::PATIENCE;
use redisson_lock::{Asked, Loss, blocking::MultiLock};

use crate::stage::{LEASE, LOCK, Stage, connect, why_not_held};

/// The machine may stand still for 1.5 s.
const WATCHDOG: Duration = Duration::from_secs(3);

/// How many watchdog periods a thread sleeps: `WATCHDOG_PERIODS=3` takes fewer than the default.
fn periods() -> u32 {
    std::env::var("WATCHDOG_PERIODS").map_or(10, |periods| periods.parse().expect("a number"))
}

#[test]
fn a_hold_survives_ten_watchdog_periods_while_its_thread_sleeps() {
    let stage = Stage::new();
    let client = connect(&stage.config().watchdog(WATCHDOG));
    let other = stage.client();
    let guard = client.lock(LOCK).lock().run().unwrap();
    let holder = guard.holder().to_owned();
    let sleep = WATCHDOG * periods();
    thread::scope(|scope| {
        // Would get the lock in any gap.
        let rival =
            scope.spawn(|| other.lock(LOCK).try_lock().wait(sleep).run().unwrap().is_some());
        thread::sleep(sleep);
        assert!(!rival.join().unwrap(), "the lock was free meanwhile");
    });
    assert!(guard.is_held());
    guard.check().unwrap();
    let seen = stage.redis.holder(LOCK).unwrap();
    assert_eq!((seen.id(), seen.count), (holder, 1));
    guard.unlock().unwrap();
    stage.end([client, other]);
}

#[test]
fn the_end_of_a_lease_is_told() {
    let stage = Stage::new();
    let client = stage.client();
    let lock = client.lock(LOCK);
    let guard = lock.lock().lease(WATCHDOG).run().unwrap();
    assert_eq!(guard.lost_within(PATIENCE).unwrap(), Some(Loss::Expired));
    assert_eq!(guard.loss(), Some(Loss::Expired));
    assert!(!guard.is_held() && guard.remaining().is_zero());
    let mut ran = false;
    assert_eq!(why_not_held(guard.while_held(|| ran = true)), Loss::Expired);
    assert!(!ran, "work under a lost lock");
    // The server frees it a little later than its holder is told.
    stage.free(LOCK);
    assert_eq!(why_not_held(guard.unlock()), Loss::Expired);
    lock.lock().run().unwrap().unlock().unwrap();
    stage.end([client]);
}

#[test]
fn a_loss_during_the_work_is_told_after_it() {
    let stage = Stage::new();
    let client = connect(&stage.config().watchdog(WATCHDOG));
    let lock = client.lock(LOCK);
    let guard = lock.lock().run().unwrap();
    let outcome = guard.while_held(|| {
        assert!(lock.force_unlock().unwrap());
        // The next renewal tells.
        guard.lost_within(PATIENCE).unwrap()
    });
    assert_eq!(why_not_held(outcome), Loss::Removed);
    assert_eq!(why_not_held(guard.unlock()), Loss::Removed);
    let guard = lock.lock().run().unwrap();
    assert_eq!(guard.while_held(|| 42).unwrap(), 42);
    guard.unlock().unwrap();
    stage.end([client]);
}

#[test]
fn waiting_for_a_loss_is_bounded() {
    const MOST: Duration = Duration::from_millis(300);
    let stage = Stage::new();
    let client = stage.client();
    let guard = client.lock(LOCK).lock().lease(LEASE).run().unwrap();
    let begun = Instant::now();
    assert_eq!(guard.lost_within(MOST).unwrap(), None);
    assert!(begun.elapsed() >= MOST);
    assert_eq!(guard.loss(), None);
    // A guard may be looked at, and waited for, from other threads.
    thread::scope(|scope| {
        let seen = scope.spawn(|| (guard.is_held(), guard.lost_within(MOST).unwrap()));
        assert_eq!(seen.join().unwrap(), (true, None));
    });
    guard.unlock().unwrap();
    stage.end([client]);
}

/// A thread that works asks between its steps, or sleeps until it is asked.
#[test]
fn a_thread_hears_that_its_hold_is_asked_for() {
    let stage = Stage::new();
    let (client, other) = (stage.client(), stage.client());
    let (lock, theirs) = (client.lock(LOCK), other.lock(LOCK));
    assert_eq!(theirs.ask_to_release().unwrap(), Asked::Free);
    let guard = lock.lock().run().unwrap();
    assert!(!guard.asked_to_release_within(Duration::from_millis(200)).unwrap());
    assert!(theirs.ask_to_release().unwrap().is_heard());
    assert!(guard.asked_to_release_within(PATIENCE).unwrap());
    assert!(guard.is_asked_to_release());
    guard.unlock().unwrap();

    let guard = lock.lock().run().unwrap();
    let begun = Instant::now();
    let mut asked = false;
    while !guard.is_asked_to_release() {
        assert!(begun.elapsed() < PATIENCE, "not asked");
        if !asked {
            asked = theirs.ask_to_release().unwrap().is_heard();
        }
        thread::sleep(Duration::from_millis(5));
    }
    guard.unlock().unwrap();

    // A loss is no question.
    let guard = lock.lock().lease(Duration::from_millis(500)).run().unwrap();
    assert!(!guard.asked_to_release_within(PATIENCE).unwrap());
    assert!(guard.loss().is_some());
    drop(guard);
    let sides = client.read_write_lock(LOCK);
    stage.free(LOCK);
    let guards = [sides.read().run().unwrap(), sides.read().run().unwrap()];
    other.read_write_lock(LOCK).ask_to_release().unwrap();
    assert!(guards.iter().all(|guard| guard.asked_to_release_within(PATIENCE).unwrap()));
    drop(guards);
    stage.free(LOCK);
    let both = MultiLock::all([client.lock(LOCK), client.lock("other")]).lock().run().unwrap();
    assert!(!both.asked_to_release_within(Duration::from_millis(200)).unwrap());
    other.lock("other").ask_to_release().unwrap();
    assert!(both.asked_to_release_within(PATIENCE).unwrap());
    both.unlock().unwrap();
    stage.end([client, other]);
}
