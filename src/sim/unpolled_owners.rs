//! Futures of owners that are neither polled nor dropped, for locks that the owner holds already.

use std::{pin::pin, time::Duration};

use tokio::time::{sleep, timeout};

use super::{LOCK, Sim, World, ms};
use crate::{Error, Lock, Loss, MultiLock};

/// So long nobody waits for one who is not polled.
const SOON: Duration = Duration::from_secs(5);

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

/// The watchdog renews none of several locks for a caller that was not granted all of them.
#[tokio::test(start_paused = true)]
async fn a_part_of_several_locks_is_not_kept_when_nobody_polls() {
    let world = World::new();
    let others = || async {
        let other = Sim::new(&world).await;
        let mut held = Vec::new();
        for name in ["later", "last"] {
            held.push(other.client.lock(name).lock().await.unwrap());
        }
        (other, held)
    };
    for (how, several) in
        [("all", MultiLock::all as fn([Lock; 3]) -> MultiLock), ("majority", MultiLock::majority)]
    {
        for after in [1, 7, 20, 60, 200] {
            let ((_other, held), sim) = (others().await, Sim::new(&world).await);
            let locks = [LOCK, "later", "last"].map(|name| sim.client.lock(name));
            let several = several(locks);
            let mut waiting = Box::pin(several.lock().into_future());
            assert!(timeout(ms(after), &mut waiting).await.is_err());
            sleep(ms(100)).await;
            let calls = sim.network.calls();
            sleep(ms(120_000)).await;
            assert_eq!(sim.network.calls(), calls, "{how}: left alone after {after} ms");
            // TTLs do not run here.
            world.forget(LOCK);
            for guard in held {
                guard.unlock().await.unwrap();
            }
            // It goes on when it is polled again, and is renewed then. An answer that is too old counts
            // as one for a single lock.
            let guard = match timeout(SOON, waiting).await.expect("all are free") {
                Err(Error::NotHeld { why: Loss::Expired }) if after == 1 => continue,
                guard => guard.unwrap(),
            };
            sleep(ms(120_000)).await;
            assert!(guard.is_held());
            guard.unlock().await.unwrap();
            assert!(sim.left().await.is_empty());
        }
    }
}
