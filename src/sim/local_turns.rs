//! What those of one client who wait for each other spare the server, and when they stop.

use std::{pin::pin, time::Duration};

use futures::{FutureExt, future::join_all};
use tokio::time::{Instant, sleep, timeout};

use super::{Fault, KINDS, LOCK, ONE_WAY, Sim, World, ms};
use crate::{Error, SpinBackoff};

/// Half a ms: every timer of the network fires at whole ones.
const BETWEEN: Duration = Duration::from_micros(500);

/// The hold is left to it before it would have subscribed.
#[tokio::test(start_paused = true)]
async fn one_who_waits_for_a_moment_behind_a_local_caller_asks_nothing_and_subscribes_to_nothing() {
    let world = World::new();
    let sim = Sim::new(&world).await;
    let lock = sim.client.lock(LOCK);
    let first = lock.lock().await.unwrap();
    let calls = sim.network.calls();
    let second = async {
        let guard = lock.lock().await.unwrap();
        for _ in 0..20 {
            sleep(ms(1)).await;
            assert!(world.listeners().is_empty(), "it has subscribed");
        }
        assert_eq!(sim.network.calls(), calls);
        guard.unlock().await.unwrap();
    };
    let release = async {
        sleep(ms(1)).await;
        first.unlock().await.unwrap();
    };
    tokio::join!(second, release);
    assert!(sim.left().await.is_empty());
}

/// No local caller will leave it anything.
#[tokio::test(start_paused = true)]
async fn one_who_waits_for_another_process_subscribes_at_once() {
    let world = World::new();
    for kind in KINDS.iter().filter(|kind| !["fair", "spin"].contains(&kind.name)) {
        let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
        let held = (kind.blocker)(&other.client).lock().await.unwrap();
        let lock = (kind.lock)(&sim.client);
        let mut waiting = pin!(lock.lock().into_future());
        // It looks, and subscribes.
        assert!(timeout(3 * ONE_WAY + BETWEEN, &mut waiting).await.is_err());
        assert_eq!(world.listeners().len(), 1, "{}", kind.name);
        held.unlock().await.unwrap();
        waiting.await.unwrap().unlock().await.unwrap();
        assert!(sim.left().await.is_empty(), "{}", kind.name);
    }
}

/// The lock was left to other processes, of which none came.
#[tokio::test(start_paused = true)]
async fn one_who_comes_long_after_many_turns_has_one_round_trip() {
    let sim = Sim::new(&World::new()).await;
    let lock = sim.client.lock(LOCK);
    let first = lock.lock().await.unwrap();
    let mut second = pin!(lock.lock().into_future());
    assert!((&mut second).now_or_never().is_none());
    first.unlock().await.unwrap();
    let second = second.await.unwrap();
    sleep(ms(10)).await;
    second.unlock().await.unwrap();
    sleep(ms(100)).await;
    let begun = Instant::now();
    let third = lock.lock().await.unwrap();
    assert_eq!(begun.elapsed(), 2 * ONE_WAY);
    third.unlock().await.unwrap();
    assert!(sim.left().await.is_empty());
}

/// They have the message later than the local ones have the answer.
#[tokio::test(start_paused = true)]
async fn after_a_long_turn_one_of_another_process_comes_before_a_local_one() {
    let world = World::new();
    for kind in KINDS.iter().filter(|kind| ["lock", "write"].contains(&kind.name)) {
        let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
        let first = (kind.lock)(&sim.client).lock().await.unwrap();
        other.network.delay_messages(ms(2));
        let turn = async |sim: &Sim| {
            let guard = (kind.lock)(&sim.client).lock().await.unwrap();
            let granted = Instant::now();
            guard.unlock().await.unwrap();
            granted
        };
        let release = async {
            sleep(ms(50)).await;
            first.unlock().await.unwrap();
        };
        let (here, there, ()) = tokio::join!(turn(&sim), turn(&other), release);
        assert!(there < here, "{}: {:?} later", kind.name, there - here);
        assert!(sim.left().await.is_empty(), "{}", kind.name);
    }
}

/// Nobody sees it wait. One who is seen to wait did not come when the lock was left to it.
#[tokio::test(start_paused = true)]
async fn one_who_polls_has_its_turn_among_many_local_ones() {
    let world = World::new();
    let [sim, parked, polls] =
        [Sim::new(&world).await, Sim::new(&world).await, Sim::new(&world).await];
    let lock = sim.client.lock(LOCK);
    let first = lock.lock().await.unwrap();
    let elsewhere = parked.client.lock(LOCK);
    let mut listens = Box::pin(elsewhere.lock().into_future());
    assert!(timeout(ms(50), &mut listens).await.is_err());
    assert_eq!(world.listeners().len(), 1);
    first.unlock().await.unwrap();
    let contend = async || loop {
        let guard = lock.lock().await.unwrap();
        sleep(Duration::from_micros(100)).await;
        guard.unlock().await.unwrap();
    };
    let poll = async {
        sleep(ms(500)).await;
        drop(listens);
        sleep(ms(50)).await;
        let begun = Instant::now();
        let pauses = SpinBackoff::constant(ms(1));
        let spins = polls.client.spin_lock_with(LOCK, pauses);
        let turn = timeout(Duration::from_secs(10), spins.lock().into_future()).await;
        turn.expect("it starves").unwrap().unlock().await.unwrap();
        begun.elapsed()
    };
    let waited = tokio::select! {
        waited = poll => waited,
        never = contend() => never,
        never = contend() => never,
    };
    assert!(waited < ms(1_000), "it has waited for {waited:?}");
    assert!(sim.left().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_hold_left_to_one_who_goes_away_is_released_at_once() {
    let sim = Sim::new(&World::new()).await;
    let lock = sim.client.lock(LOCK);
    let first = lock.lock().await.unwrap();
    let mut second = Box::pin(lock.lock().into_future());
    assert!((&mut second).now_or_never().is_none());
    first.unlock().await.unwrap();
    sleep(ms(1)).await;
    assert!(sim.holder(LOCK).is_some(), "it is left to the second");
    drop(second);
    sleep(ONE_WAY + BETWEEN).await;
    assert!(sim.holder(LOCK).is_none());
    assert!(sim.left().await.is_empty());
}

/// The server is asked whether others wait, and the answer comes to a client where nobody waits any more.
#[tokio::test(start_paused = true)]
async fn a_hold_that_nobody_waits_for_any_more_is_released_before_its_caller_is_told_so() {
    let sim = Sim::new(&World::new()).await;
    let lock = sim.client.lock(LOCK);
    let first = lock.lock().await.unwrap();
    let mut second = Box::pin(lock.lock().into_future());
    assert!(timeout(ms(18), &mut second).await.is_err());
    let leave = async {
        sleep(ONE_WAY).await;
        drop(second);
    };
    let (unlocked, ()) = tokio::join!(first.unlock(), leave);
    unlocked.unwrap();
    assert!(sim.holder(LOCK).is_none());
    assert!(sim.left().await.is_empty());
}

/// The server has confirmed the hold, which is gone when the answer comes: another has the lock.
#[tokio::test(start_paused = true)]
async fn a_hold_is_not_handed_off_when_a_newer_one_is_known() {
    let world = World::new();
    let sim = Sim::new(&world).await;
    let lock = sim.client.lock(LOCK);
    let first = lock.lock().await.unwrap();
    let mut second = pin!(lock.lock().into_future());
    assert!(timeout(ms(18), &mut second).await.is_err());
    sim.network.fail("extend", [Fault::SlowReply(ms(100))]);
    let newer = async {
        sleep(ms(10)).await;
        world.forget(LOCK);
        let newer = lock.try_lock().await.unwrap().expect("a free lock");
        sleep(ms(200)).await;
        let begun = Instant::now();
        newer.unlock().await.unwrap();
        begun
    };
    let second = async {
        let guard = second.await.unwrap();
        let granted = Instant::now();
        guard.unlock().await.unwrap();
        granted
    };
    let (unlocked, released, granted) = tokio::join!(first.unlock(), newer, second);
    assert!(matches!(unlocked, Err(Error::NotHeld { .. })), "{unlocked:?}");
    assert!(granted >= released, "two hold it");
    assert!(sim.left().await.is_empty());
}

/// Redisson's waiters stand in the same line, and drop those that do not ask.
#[tokio::test(start_paused = true)]
async fn each_of_those_who_wait_for_a_fair_lock_keeps_its_place_on_the_server() {
    let world = World::new();
    let mut asked = Vec::new();
    for waiters in [1, 3] {
        let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
        let held = other.client.fair_lock(LOCK).lock().await.unwrap();
        let lock = sim.client.fair_lock(LOCK);
        let waiting = join_all((0..waiters).map(|_| async {
            lock.lock().await.unwrap().unlock().await.unwrap();
        }));
        let release = async {
            sleep(ms(500)).await;
            let calls = sim.network.calls();
            sleep(Duration::from_secs(60)).await;
            asked.push(sim.network.calls() - calls);
            held.unlock().await.unwrap();
        };
        tokio::join!(waiting, release);
        assert!(sim.left().await.is_empty());
    }
    assert!(asked[0] > 0 && asked[1] == 3 * asked[0], "{asked:?}");
}
