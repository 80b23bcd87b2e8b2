//! A future dropped at any moment leaves nothing behind, and nobody waiting for it.

use std::{pin::pin, sync::Arc, time::Duration};

use tokio::time::{sleep, timeout};

use super::{Fault, ONE_WAY, Sim, World};
use crate::{Error, Owner};

const LOCK: &str = "cut";

/// Runs the future for so many virtual ms, then drops it. Says whether it was done by then.
async fn cut(after: u64, future: impl Future<Output = ()>) -> bool {
    // A ms is cut in its middle: every timer of the network fires at whole ones.
    let cut = Duration::from_millis(after) + Duration::from_micros(500);
    timeout(cut, future).await.is_ok()
}

/// Cuts at every ms until the future is done by itself in 5 cuts in a row. After each cut all comes
/// to rest and nothing may be left. Says how many cuts there were.
async fn cut_everywhere<F: AsyncFn(&Sim)>(world: &Arc<World>, what: &str, future: F) -> u64 {
    let mut done = 0;
    let mut cuts = 0;
    while done < 5 {
        let sim = Sim::new(world).await;
        done = if cut(cuts, future(&sim)).await { done + 1 } else { 0 };
        let left = sim.left().await;
        assert!(left.is_empty(), "{what}, cut after {cuts} ms, left {left:?}");
        cuts += 1;
        assert!(cuts < 5_000, "{what} does not end");
    }
    println!("{what}: {cuts} cuts, nothing left");
    cuts
}

#[tokio::test(start_paused = true)]
async fn an_acquisition_cut_at_any_ms_leaves_nothing() {
    let world = World::new();
    let mut cuts = 0;
    cuts += cut_everywhere(&world, "lock", async |sim| {
        let guard = sim.client.lock(LOCK).lock().await.unwrap();
        sleep(Duration::from_millis(2)).await;
        drop(guard);
    })
    .await;
    cuts += cut_everywhere(&world, "lock, two lost replies", async |sim| {
        sim.network.fail("acquire", [Fault::LoseReply, Fault::LoseReply]);
        drop(sim.client.lock(LOCK).lock().await.unwrap());
    })
    .await;
    cuts += cut_everywhere(&world, "lock, a copy that lingers", async |sim| {
        sim.network.fail("acquire", [Fault::Linger(Duration::from_millis(40))]);
        drop(sim.client.lock(LOCK).lock().await.unwrap());
        sleep(Duration::from_millis(50)).await;
    })
    .await;
    cuts += cut_everywhere(&world, "try_lock and unlock", async |sim| {
        let guard = sim.client.lock(LOCK).try_lock().await.unwrap().unwrap();
        guard.unlock().await.unwrap();
    })
    .await;
    cuts += cut_everywhere(&world, "unlock, a lost reply", async |sim| {
        sim.network.fail("release", [Fault::LoseReply]);
        sim.client.lock(LOCK).lock().await.unwrap().unlock().await.unwrap();
    })
    .await;
    println!("cut points: {cuts}");
}

#[tokio::test(start_paused = true)]
async fn a_re_entry_cut_at_any_ms_leaves_nothing_and_the_outer_hold_alone() {
    let world = World::new();
    cut_everywhere(&world, "re-entry", async |sim| {
        let lock = sim.client.lock(LOCK);
        let mut me: Owner = sim.client.owner();
        let outer = lock.lock().by(&mut me).await.unwrap();
        let inner = lock.lock().by(&mut me).await.unwrap();
        inner.unlock().await.unwrap();
        outer.check().await.unwrap();
        outer.unlock().await.unwrap();
    })
    .await;
    for after in 0..20 {
        let sim = Sim::new(&world).await;
        let lock = sim.client.lock(LOCK);
        let mut me = sim.client.owner();
        let outer = lock.lock().by(&mut me).await.unwrap();
        cut(after, async { drop(lock.lock().by(&mut me).await.unwrap()) }).await;
        sim.client.settled().await;
        assert_eq!(sim.holder(LOCK).unwrap().count, 1, "cut after {after} ms");
        assert_eq!(outer.hold_count(), 1);
        outer.unlock().await.unwrap();
        assert!(sim.left().await.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_cut_at_any_ms_leaves_nothing_and_the_next_one_is_woken() {
    let world = World::new();
    let mut cuts = 0;
    for after in 0..90 {
        let (holder, sim) = (Sim::new(&world).await, Sim::new(&world).await);
        let held = holder.client.lock(LOCK).lock().await.unwrap();
        let lock = sim.client.lock(LOCK);

        let waiters = async {
            let mut first = pin!(cut(after, async { drop(lock.lock().await.unwrap()) }));
            let second = async {
                sleep(Duration::from_millis(1)).await;
                let guard = lock.lock().await.unwrap();
                guard.unlock().await.unwrap();
            };
            let release = async {
                sleep(Duration::from_millis(50)).await;
                held.unlock().await.unwrap();
            };
            tokio::join!(&mut first, second, release);
        };
        // By a message, that is: far sooner than a waiter looks again by itself.
        let in_time = timeout(Duration::from_millis(50) + 30 * ONE_WAY, waiters).await;
        assert!(in_time.is_ok(), "cut after {after} ms: the other waiter was not woken");
        let left = sim.left().await;
        assert!(left.is_empty(), "cut after {after} ms, left {left:?}");
        cuts += 1;
    }
    println!("cut points: {cuts}");
}

#[tokio::test(start_paused = true)]
async fn a_timed_waiter_that_gives_up_leaves_nothing() {
    let world = World::new();
    for wait in (1..60).step_by(3) {
        let (holder, sim) = (Sim::new(&world).await, Sim::new(&world).await);
        let held = holder.client.lock(LOCK).lock().await.unwrap();
        let lock = sim.client.lock(LOCK);
        let refused = lock.try_lock().wait(Duration::from_millis(wait)).await.unwrap();
        assert!(refused.is_none());
        held.unlock().await.unwrap();
        assert!(holder.left().await.is_empty());
        assert!(sim.left().await.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn close_at_any_ms_ends_waiters_and_releases_what_was_dropped() {
    let world = World::new();
    for after in 0..40 {
        let (holder, sim) = (Sim::new(&world).await, Sim::new(&world).await);
        let held = holder.client.lock(LOCK).lock().await.unwrap();
        let other = sim.client.lock("other");
        let lock = sim.client.lock(LOCK);
        let waiter = async {
            drop(other.lock().await);
            lock.lock().await.map(drop)
        };
        let close = async {
            sleep(Duration::from_millis(after)).await;
            sim.client.close().await.unwrap();
        };
        let (waited, ()) = tokio::join!(waiter, close);
        assert!(matches!(waited, Err(Error::Closed)), "closed after {after} ms: {waited:?}");
        held.unlock().await.unwrap();
        let left = holder.left().await;
        assert!(left.is_empty(), "closed after {after} ms, left {left:?}");
    }
}
