//! Futures of waiters that are neither polled nor dropped.

use std::{
    pin::{Pin, pin},
    time::Duration,
};

use futures::{FutureExt, future::join_all};
use tokio::{
    task::yield_now,
    time::{Instant, advance, sleep, timeout},
};

use super::{Fault, LOCK, SOON, Sim, World, ends::Ends, ms};
use crate::{Error, Lock, LockGuard, Owner, observer::HoldEnd};

type Waiting<'a> = Pin<Box<dyn Future<Output = Result<LockGuard, Error>> + Send + 'a>>;

/// Waits for the lock, and is left alone after so long.
async fn left_alone(lock: &Lock, after: Duration) -> Waiting<'_> {
    let mut waiting: Waiting = lock.lock().into_future();
    assert!(timeout(after, &mut waiting).await.is_err());
    waiting
}

/// The same, behind a holder that releases the lock then.
async fn left_alone_behind<'a>(other: &Sim, lock: &'a Lock, after: Duration) -> Waiting<'a> {
    let held = other.client.lock(LOCK).lock().await.unwrap();
    let waiting = left_alone(lock, after).await;
    held.unlock().await.unwrap();
    waiting
}

/// Waits for the lock, is left a hold that it never adopts, and is left alone then.
async fn left_alone_with_a_hold<'a>(sim: &Sim, lock: &'a Lock, me: &'a mut Owner) -> Waiting<'a> {
    let held = lock.lock().await.unwrap();
    let mut waiting: Waiting = lock.lock().by(me).into_future();
    assert!(timeout(ms(20), &mut waiting).await.is_err());
    // The swap never gets there.
    sim.network.fail("swap", [Fault::LoseRequest]);
    held.unlock().await.unwrap();
    assert!((&mut waiting).now_or_never().is_none());
    waiting
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_nobody_polls_keeps_nobody_waiting_behind_it() {
    let world = World::new();
    for after in (0..30).chain([200, 2_900, 3_050, 4_000]) {
        let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
        let lock = sim.client.lock(LOCK);
        let held = other.client.lock(LOCK).lock().await.unwrap();
        let alone = left_alone(&lock, ms(after) + Duration::from_micros(500)).await;
        let behind = join_all((0..3).map(|_| async {
            let guard = timeout(2 * SOON, lock.lock().into_future()).await;
            guard.expect("its turn").unwrap().unlock().await.unwrap();
        }));
        let release = async {
            sleep(ms(50)).await;
            held.unlock().await.unwrap();
        };
        let both = async { tokio::join!(behind, release) };
        assert!(timeout(SOON, both).await.is_ok(), "left alone after {after} ms");
        // It is none the worse for it.
        let late = timeout(SOON, alone).await.expect("its turn").unwrap();
        late.unlock().await.unwrap();
        let left = sim.left().await;
        assert!(left.is_empty(), "left alone after {after} ms, left {left:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn many_that_nobody_polls_cost_one_pause_and_a_hold_left_to_them_goes_to_the_next() {
    let world = World::new();
    let sim = Sim::new(&world).await;
    let lock = sim.client.lock(LOCK);
    let held = lock.lock().await.unwrap();
    let mut alone = Vec::new();
    for after in 0..20 {
        alone.push(left_alone(&lock, ms(after)).await);
    }
    let behind = async {
        let guard = lock.lock().await.unwrap();
        guard.unlock().await.unwrap();
    };
    let release = async {
        sleep(ms(50)).await;
        held.unlock().await.unwrap();
    };
    let both = async { tokio::join!(behind, release) };
    assert!(timeout(SOON, both).await.is_ok(), "one after the other is waited for");
    for waiting in alone {
        timeout(SOON, waiting).await.expect("its turn").unwrap().unlock().await.unwrap();
    }
    assert!(sim.left().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_lone_waiter_that_nobody_polls_does_not_keep_newcomers_out() {
    let world = World::new();
    let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
    let lock = sim.client.lock(LOCK);
    let alone = left_alone_behind(&other, &lock, ms(100)).await;
    sleep(Duration::from_secs(10)).await;
    let newcomer = timeout(SOON, lock.lock().into_future()).await.expect("its turn").unwrap();
    newcomer.unlock().await.unwrap();
    drop(alone);
    assert!(sim.left().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_nobody_polls_does_not_keep_out_those_who_wait_but_for_a_moment() {
    let world = World::new();
    for after in (0..20).chain([200, 3_001, 4_000]) {
        let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
        let lock = sim.client.lock(LOCK);
        let alone = left_alone_behind(&other, &lock, ms(after) + Duration::from_micros(500)).await;
        sleep(Duration::from_secs(20)).await;
        let newcomer = lock.try_lock().wait(ms(300)).await.unwrap();
        let newcomer = newcomer.unwrap_or_else(|| panic!("left alone after {after} ms: free"));
        // To the one that is not polled.
        newcomer.unlock().await.unwrap();
        for wait in [20, 300, 900].map(ms) {
            let tries = async {
                loop {
                    if let Some(guard) = lock.try_lock().wait(wait).await.unwrap() {
                        break guard;
                    }
                }
            };
            let guard = timeout(SOON, tries).await;
            let guard = guard.unwrap_or_else(|_| panic!("left alone after {after} ms: held"));
            guard.unlock().await.unwrap();
        }
        drop(alone);
        assert!(sim.left().await.is_empty());
    }
}

/// A process that stands still for two seconds, and again as soon as it runs.
#[tokio::test(start_paused = true)]
async fn a_process_that_stands_still_again_and_again_does_not_keep_a_head_that_nobody_polls() {
    let world = World::new();
    let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
    let lock = sim.client.lock(LOCK);
    let alone = left_alone_behind(&other, &lock, ms(200)).await;
    let waiting = lock.clone();
    let behind = tokio::spawn(async move { waiting.lock().await?.unlock().await });
    for _ in 0..20 {
        advance(Duration::from_secs(2)).await;
        // All that is ready runs, and the clock stands.
        for _ in 0..20 {
            yield_now().await;
        }
    }
    assert!(behind.is_finished(), "it is forgiven each time");
    behind.await.unwrap().unwrap();
    drop(alone);
    assert!(sim.left().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_a_waiter_swaps_is_not_renewed_when_nobody_polls_it() {
    let sim = Sim::new(&World::new()).await;
    let lock = sim.client.lock(LOCK);
    let mut me = sim.client.owner();
    let alone = left_alone_with_a_hold(&sim, &lock, &mut me).await;
    sleep(ms(100)).await;
    let calls = sim.network.calls();
    sleep(Duration::from_secs(29)).await;
    assert_eq!(sim.network.calls(), calls, "the lock would be kept for ever");
    drop(alone);
    assert!(sim.left().await.is_empty());
}

/// Its last caller has released it, and was told so.
#[tokio::test(start_paused = true)]
async fn a_hold_that_a_waiter_swaps_is_not_lost_when_nobody_polls_it() {
    let ends = Ends::default();
    let sim = Sim::with(&World::new(), |config| config.observer(ends.clone())).await;
    let lock = sim.client.lock(LOCK);
    let mut me = sim.client.owner();
    let alone = left_alone_with_a_hold(&sim, &lock, &mut me).await;
    sleep(Duration::from_secs(31)).await;
    assert_eq!(ends.so_far(), [HoldEnd::ReleaseGivenUp]);
    drop(alone);
    assert!(sim.left().await.is_empty());
    assert_eq!(ends.so_far().len(), 1, "a turn ends once");
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_one_is_to_swap_and_nobody_polls_is_reported_as_held() {
    let sim = Sim::new(&World::new()).await;
    let lock = sim.client.lock(LOCK);
    let mut me = sim.client.owner();
    let alone = left_alone_with_a_hold(&sim, &lock, &mut me).await;
    // After that it has lost its turn.
    assert!(timeout(SOON, lock.lock().into_future()).await.is_err());
    for wait in [20, 500, 2_000].map(ms) {
        let begun = Instant::now();
        let answer = lock.try_lock().wait(wait).await;
        assert!(matches!(answer, Ok(None)), "waited {wait:?}: {answer:?}");
        assert!(begun.elapsed() < wait + ms(20), "{:?} of {wait:?}", begun.elapsed());
    }
    drop(alone);
    assert!(sim.left().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn those_behind_one_that_nobody_polls_are_told_that_the_client_closes() {
    let world = World::new();
    for after in (0..20).chain([200, 3_001]) {
        let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
        let lock = sim.client.lock(LOCK);
        let held = other.client.lock(LOCK).lock().await.unwrap();
        let alone = left_alone(&lock, ms(after) + Duration::from_micros(500)).await;
        let close = async {
            sleep(ms(100)).await;
            // What nobody polls cannot be undone.
            let _ = sim.client.close().await;
        };
        // In a task of its own: it is polled when it is woken only.
        let waiter = lock.clone();
        let behind = tokio::spawn(async move {
            let _guard = waiter.lock().await?;
            Ok(())
        });
        let (behind, ()) = tokio::join!(timeout(SOON, behind), close);
        let behind = behind.unwrap_or_else(|_| panic!("left alone after {after} ms: it waits on"));
        let behind = behind.unwrap();
        assert!(matches!(behind, Err(Error::Closed)), "{behind:?}");
        drop(alone);
        held.unlock().await.unwrap();
        assert!(other.left().await.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn one_whose_wait_ends_behind_a_head_that_nobody_polls_is_not_told_that_a_free_lock_is_held()
{
    let world = World::new();
    let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
    let lock = sim.client.lock(LOCK);
    let alone = left_alone_behind(&other, &lock, ms(200)).await;
    sleep(ms(100)).await;
    assert!(sim.holder(LOCK).is_none(), "free, and heard of");
    let calls = sim.network.calls();
    let got = lock.try_lock().wait(ms(100)).await.unwrap();
    println!("asked {} times", sim.network.calls() - calls);
    assert!(got.is_some(), "the lock was free all the time");
    drop((got, alone));
}

#[tokio::test(start_paused = true)]
async fn a_release_is_no_word_that_the_lock_is_held() {
    let world = World::new();
    let sim = Sim::new(&world).await;
    let lock = sim.client.lock(LOCK);
    let held = lock.lock().await.unwrap();
    let alone = left_alone(&lock, ms(200)).await;
    let release = async {
        sleep(ms(20)).await;
        held.unlock().await.unwrap();
    };
    let behind = async { lock.try_lock().wait(ms(400)).await.unwrap() };
    let (got, ()) = tokio::join!(behind, release);
    assert!(got.is_some(), "nobody held it any more");
    drop((got, alone));
    assert!(sim.left().await.is_empty());
}

/// A release that is polled for a while, and then neither polled nor dropped.
#[tokio::test(start_paused = true)]
async fn a_release_that_nobody_polls_keeps_nobody_waiting() {
    let world = World::new();
    for (after, elsewhere) in (0..20).flat_map(|after| [(after, false), (after, true)]) {
        let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
        let lock = sim.client.lock(LOCK);
        let held = lock.lock().await.unwrap();
        let waiting = if elsewhere { other.client.lock(LOCK) } else { lock.clone() };
        let mut behind = left_alone(&waiting, ms(12)).await;
        // One waits here, so that the server is asked whether the hold may be handed off.
        let mut here = left_alone(&lock, ms(5)).await;
        let mut release = pin!(held.unlock());
        let released = timeout(ms(after) + Duration::from_micros(500), &mut release).await;
        for waiting in [&mut behind, &mut here] {
            let guard = timeout(SOON, waiting).await;
            let guard = guard.unwrap_or_else(|_| panic!("left alone after {after} ms"));
            guard.unwrap().unlock().await.unwrap();
        }
        match released {
            Ok(released) => released.unwrap(),
            Err(_) => release.await.unwrap(),
        }
        assert!(sim.left().await.is_empty());
    }
}

/// Another process has the lock by then, and the server says so.
#[tokio::test(start_paused = true)]
async fn an_unlock_that_nobody_polls_is_no_error_of_those_who_wait() {
    let world = World::new();
    let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
    let lock = sim.client.lock(LOCK);
    let guard = lock.lock().await.unwrap();
    let mut unlock = pin!(guard.unlock());
    assert!((&mut unlock).now_or_never().is_none(), "the server is asked");
    sleep(ms(10)).await;
    let held = other.client.lock(LOCK).try_lock().await.unwrap().expect("it is free");
    for _ in 0..3 {
        let tried = timeout(SOON, lock.try_lock().wait(ms(500)).into_future()).await;
        assert!(tried.expect("an answer").unwrap().is_none());
    }
    held.unlock().await.unwrap();
    unlock.await.unwrap();
    assert!(sim.left().await.is_empty());
}
