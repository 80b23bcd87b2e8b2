//! Futures of owners that are neither polled nor dropped, for locks that the owner holds already.

use std::{pin::pin, time::Duration};

use tokio::time::{sleep, timeout};

use super::{LOCK, SOON, Sim, World, ms};
use crate::{Error, Loss, MultiLock};

/// A release of one of several times, that is polled for a while, and then neither polled nor dropped.
#[tokio::test(start_paused = true)]
async fn an_inner_release_that_nobody_polls_keeps_no_lock_from_being_released() {
    let world = World::new();
    for after in 0..8 {
        let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
        let lock = sim.client.lock(LOCK);
        let mut me = sim.client.owner();
        let outer = lock.lock().by(&mut me).await.unwrap();
        let inner = lock.lock().by(&mut me).await.unwrap();
        let mut release = pin!(inner.unlock());
        let released = timeout(ms(after) + Duration::from_micros(500), &mut release).await;
        drop(outer);
        let elsewhere = other.client.lock(LOCK);
        let guard = timeout(SOON, elsewhere.lock().into_future()).await;
        let guard = guard.unwrap_or_else(|_| panic!("left alone after {after} ms"));
        guard.unwrap().unlock().await.unwrap();
        match released {
            Ok(released) => released.unwrap(),
            Err(_) => release.await.unwrap(),
        }
        assert!(sim.left().await.is_empty());
    }
}

/// A re-entry that is polled for a while, and then neither polled nor dropped.
#[tokio::test(start_paused = true)]
async fn a_re_entry_that_nobody_polls_keeps_no_release_waiting_and_no_lock_for_ever() {
    let world = World::new();
    for after in 0..8 {
        let sim = Sim::new(&world).await;
        let lock = sim.client.lock(LOCK);
        let mut me = sim.client.owner();
        let outer = lock.lock().by(&mut me).await.unwrap();
        let mut again = lock.lock().by(&mut me).into_future();
        let entered = timeout(ms(after) + Duration::from_micros(500), &mut again).await;
        let released = timeout(SOON, outer.unlock()).await;
        released.unwrap_or_else(|_| panic!("left alone after {after} ms")).unwrap();
        if let Ok(guard) = entered {
            guard.unwrap().unlock().await.unwrap();
        } else {
            let calls = sim.network.calls();
            sleep(Duration::from_secs(31)).await;
            assert_eq!(sim.network.calls(), calls, "renewed after {after} ms");
            let lost = again.await;
            assert!(matches!(lost, Err(Error::NotHeld { why: Loss::Expired })), "{lost:?}");
        }
        assert!(sim.left().await.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_re_entry_that_is_polled_late_is_renewed_from_then_on() {
    let world = World::new();
    for (after, late) in (0..8).flat_map(|after| [1, 5, 15, 29].map(|late| (after, late))) {
        let sim = Sim::new(&world).await;
        let lock = sim.client.lock(LOCK);
        let mut me = sim.client.owner();
        // It is not renewed for this one.
        let outer = lock.lock().by(&mut me).lease(Duration::from_secs(30)).await.unwrap();
        let mut again = lock.lock().by(&mut me).into_future();
        let entered = timeout(ms(after) + Duration::from_micros(500), &mut again).await;
        sleep(Duration::from_secs(late)).await;
        let inner = match entered {
            Ok(guard) => guard,
            Err(_) => again.await,
        };
        let inner = inner.unwrap_or_else(|error| panic!("{after} ms, {late} s: {error}"));
        sleep(Duration::from_secs(60)).await;
        assert!(inner.is_held(), "left alone after {after} ms for {late} s");
        assert_eq!(inner.hold_count(), 2);
        inner.unlock().await.unwrap();
        outer.unlock().await.unwrap();
        assert!(sim.left().await.is_empty());
    }
}

/// An acquisition of several locks, one of which its owner holds, that is polled for a while.
#[tokio::test(start_paused = true)]
async fn several_locks_that_nobody_polls_keep_no_release_waiting() {
    let world = World::new();
    for after in 0..40 {
        let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
        let (first, second) = (sim.client.lock(LOCK), sim.client.lock("later"));
        let mut me = sim.client.owner();
        let outer = first.lock().by(&mut me).await.unwrap();
        let held = other.client.lock("later").lock().await.unwrap();
        let both = MultiLock::all([first, second]);
        let mut waiting = pin!(both.lock().by(&mut me).lease(SOON).into_future());
        assert!(timeout(ms(20), &mut waiting).await.is_err());
        held.unlock().await.unwrap();
        let taken = timeout(ms(after) + Duration::from_micros(500), &mut waiting).await;
        let released = timeout(SOON, outer.unlock()).await;
        released.unwrap_or_else(|_| panic!("left alone after {after} ms")).unwrap();
        match taken {
            Ok(guards) => guards.unwrap().unlock().await.unwrap(),
            Err(_) => waiting.await.unwrap().unlock().await.unwrap(),
        }
        assert!(sim.left().await.is_empty());
    }
}
