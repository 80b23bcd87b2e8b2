//! Owners, and their own holds: those that they enter again, give back, or have lost.

use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::{KINDS, LOCK, ONE_WAY, Sim, World};
use crate::Error;

#[tokio::test(start_paused = true)]
async fn an_owner_that_would_wait_for_itself_is_told_and_one_that_gives_back_is_not() {
    let sim = Sim::new(&World::new()).await;
    let mut me = sim.client.owner();
    let calls = || sim.network.calls();
    for lock in [sim.client.non_reentrant_lock(LOCK), sim.client.non_reentrant_fair_lock(LOCK)] {
        let guard = lock.lock().by(&mut me).await.unwrap();
        let before = calls();
        let again = lock.try_lock().by(&mut me).await;
        assert!(matches!(again, Err(Error::WouldDeadlock { .. })), "{again:?}");
        assert_eq!(calls(), before + 1, "the server was asked for that hold");
        // By another kind of lock it is the same hold.
        let twice = sim.client.lock(LOCK).lock().by(&mut me).await.unwrap();
        assert_eq!(guard.hold_count(), 2);
        drop(twice);
        drop(guard);
        // Its release may not even have been sent.
        lock.lock().by(&mut me).await.unwrap().unlock().await.unwrap();
    }
    let lock = sim.client.read_write_lock(LOCK);
    let reading = lock.read().by(&mut me).await.unwrap();
    let before = calls();
    let write = lock.write().by(&mut me).await;
    assert!(matches!(write, Err(Error::WouldDeadlock { .. })), "{write:?}");
    assert_eq!(calls(), before + 1, "the server was asked for that hold");
    drop(reading);
    lock.write().by(&mut me).await.unwrap().unlock().await.unwrap();
    assert!(sim.left().await.is_empty());
}

/// It gives up its own hold while the server is asked whether it has that hold still.
#[tokio::test(start_paused = true)]
async fn an_owner_that_gives_back_while_it_is_asked_about_is_not_told_of_itself() {
    let sim = Sim::new(&World::new()).await;
    let mut me = sim.client.owner();
    let lock = sim.client.read_write_lock(LOCK);
    for after in 0..2 * ONE_WAY.as_millis() as u64 {
        let reading = lock.read().by(&mut me).await.unwrap();
        let give_back = async {
            sleep(Duration::from_millis(after)).await;
            drop(reading);
        };
        let (write, ()) = tokio::join!(lock.write().by(&mut me), give_back);
        let write = write.unwrap_or_else(|error| panic!("given back after {after} ms: {error}"));
        write.unlock().await.unwrap();
    }
    assert!(sim.left().await.is_empty());
}

/// What it gave back is on its way, and nothing to it any more.
#[tokio::test(start_paused = true)]
async fn an_owner_takes_anew_what_it_gave_back_lost() {
    let world = World::new();
    for (kind, told) in KINDS.iter().flat_map(|kind| [true, false].map(|told| (kind, told))) {
        for after in 0..15 {
            let sim = Sim::new(&world).await;
            let what = format!("{}, told: {told}, dropped {after} ms before", kind.name);
            let lock = (kind.lock)(&sim.client);
            let mut me = sim.client.owner();
            let guard = lock.lock().by(&mut me).await.unwrap();
            assert!(lock.force_unlock().await.unwrap(), "{what}");
            if told {
                guard.check().await.unwrap_err();
            }
            drop(guard);
            sleep(Duration::from_millis(after)).await;
            let again = timeout(30 * ONE_WAY, lock.lock().by(&mut me).into_future()).await;
            let again = again.unwrap_or_else(|_| panic!("{what}: waits for nothing"));
            let again = again.unwrap_or_else(|error| panic!("{what}: {error}"));
            again.check().await.unwrap();
            again.unlock().await.unwrap();
            let left = sim.left().await;
            assert!(left.is_empty(), "{what}: left {left:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_owner_takes_by_another_kind_what_it_gave_back_by_one() {
    let world = World::new();
    for after in 0..15 {
        let sim = Sim::new(&world).await;
        let mut me = sim.client.owner();
        let plain = sim.client.lock(LOCK).lock().by(&mut me).await.unwrap();
        drop(plain);
        sleep(Duration::from_millis(after)).await;
        let fenced = sim.client.fenced_lock(LOCK);
        let fenced = timeout(30 * ONE_WAY, fenced.lock().by(&mut me).into_future()).await;
        let fenced = fenced.unwrap_or_else(|_| panic!("after {after} ms: waits for nothing"));
        let fenced = fenced.unwrap_or_else(|error| panic!("after {after} ms: {error}"));
        fenced.unlock().await.unwrap();
        // One that it holds is in the way.
        let plain = sim.client.lock(LOCK).lock().by(&mut me).await.unwrap();
        let fenced = sim.client.fenced_lock(LOCK).lock().by(&mut me).await;
        assert!(matches!(fenced, Err(Error::Invalid(_))), "{fenced:?}");
        plain.unlock().await.unwrap();
        assert!(sim.left().await.is_empty(), "after {after} ms");
    }
}
