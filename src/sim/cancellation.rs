//! A future that is dropped at any moment leaves nothing behind, and no waiter waits for it.

use std::{pin::pin, sync::Arc, time::Duration};

use tokio::time::{Instant, sleep, timeout};

use super::{Fault, KINDS, Kind, LOCK, ONE_WAY, Sim, World};
use crate::{Error, Owner, SpinBackoff};

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
    for kind in KINDS {
        let name = kind.name;
        let lock = |sim: &Sim| (kind.lock)(&sim.client);
        cuts += cut_everywhere(&world, name, async |sim| {
            let guard = lock(sim).lock().await.unwrap();
            sleep(Duration::from_millis(2)).await;
            drop(guard);
        })
        .await;
        cuts += cut_everywhere(&world, &format!("{name}, two lost replies"), async |sim| {
            sim.network.fail("acquire", [Fault::LoseReply, Fault::LoseReply]);
            drop(lock(sim).lock().await.unwrap());
        })
        .await;
        cuts += cut_everywhere(&world, &format!("{name}, a copy that lingers"), async |sim| {
            sim.network.fail("acquire", [Fault::Linger(Duration::from_millis(40))]);
            drop(lock(sim).lock().await.unwrap());
            sleep(Duration::from_millis(50)).await;
        })
        .await;
        cuts += cut_everywhere(&world, &format!("{name}, try_lock and unlock"), async |sim| {
            let guard = lock(sim).try_lock().await.unwrap().unwrap();
            guard.unlock().await.unwrap();
        })
        .await;
        cuts += cut_everywhere(&world, &format!("{name}, unlock, a lost reply"), async |sim| {
            sim.network.fail("release", [Fault::LoseReply]);
            lock(sim).lock().await.unwrap().unlock().await.unwrap();
        })
        .await;
    }
    cuts += cut_everywhere(&world, "fenced, two lost replies", async |sim| {
        sim.network.fail("acquire", [Fault::LoseReply, Fault::LoseReply]);
        drop(sim.client.fenced_lock(LOCK).lock().await.unwrap());
    })
    .await;
    cuts += cut_everywhere(&world, "write to read", async |sim| {
        let lock = sim.client.read_write_lock(LOCK);
        let mut me = sim.client.owner();
        let writing = lock.write().by(&mut me).await.unwrap();
        let reading = lock.read().by(&mut me).await.unwrap();
        writing.unlock().await.unwrap();
        reading.unlock().await.unwrap();
    })
    .await;
    println!("cut points: {cuts}");
}

#[tokio::test(start_paused = true)]
async fn a_re_entry_cut_at_any_ms_leaves_nothing_and_the_outer_hold_alone() {
    let world = World::new();
    for kind in KINDS.iter().filter(|kind| kind.name != "plain") {
        re_enter_and_cut(&world, kind).await;
    }
}

async fn re_enter_and_cut(world: &Arc<World>, kind: &Kind) {
    cut_everywhere(world, &format!("{}, re-entry", kind.name), async |sim| {
        let lock = (kind.lock)(&sim.client);
        let mut me: Owner = sim.client.owner();
        let outer = lock.lock().by(&mut me).await.unwrap();
        let inner = lock.lock().by(&mut me).await.unwrap();
        inner.unlock().await.unwrap();
        outer.check().await.unwrap();
        outer.unlock().await.unwrap();
    })
    .await;
    for after in 0..20 {
        let sim = Sim::new(world).await;
        let lock = (kind.lock)(&sim.client);
        let mut me = sim.client.owner();
        let outer = lock.lock().by(&mut me).await.unwrap();
        cut(after, async { drop(lock.lock().by(&mut me).await.unwrap()) }).await;
        sim.client.settled().await;
        let holders = lock.inspect().await.unwrap().holders;
        assert_eq!(holders.len(), 1, "cut after {after} ms");
        assert_eq!(holders[0].count, 1, "cut after {after} ms");
        assert_eq!(outer.hold_count(), 1);
        outer.unlock().await.unwrap();
        assert!(sim.left().await.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_cut_at_any_ms_leaves_nothing_and_the_next_one_is_woken() {
    let world = World::new();
    // Nobody tells those who wait for a spin lock.
    for kind in KINDS.iter().filter(|kind| kind.name != "spin") {
        for after in 0..90 {
            cut_a_waiter(&world, kind, after).await;
        }
    }
}

async fn cut_a_waiter(world: &Arc<World>, kind: &Kind, after: u64) {
    let name = kind.name;
    let (holder, sim) = (Sim::new(world).await, Sim::new(world).await);
    let held = (kind.blocker)(&holder.client).lock().await.unwrap();
    let lock = (kind.lock)(&sim.client);

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
    assert!(in_time.is_ok(), "{name}, cut after {after} ms: the other waiter was not woken");
    let left = sim.left().await;
    assert!(left.is_empty(), "{name}, cut after {after} ms, left {left:?}");
}

#[tokio::test(start_paused = true)]
async fn a_timed_waiter_that_gives_up_leaves_nothing() {
    let world = World::new();
    for (kind, wait) in
        KINDS.iter().flat_map(|kind| (1..60).step_by(3).map(move |wait| (kind, wait)))
    {
        let (holder, sim) = (Sim::new(&world).await, Sim::new(&world).await);
        let held = (kind.blocker)(&holder.client).lock().await.unwrap();
        let lock = (kind.lock)(&sim.client);
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
    for (kind, after) in KINDS.iter().flat_map(|kind| (0..40).map(move |after| (kind, after))) {
        let (holder, sim) = (Sim::new(&world).await, Sim::new(&world).await);
        let held = (kind.blocker)(&holder.client).lock().await.unwrap();
        let other = sim.client.lock("other");
        let lock = (kind.lock)(&sim.client);
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

#[tokio::test(start_paused = true)]
async fn readers_who_waited_for_a_writer_get_in_together() {
    let world = World::new();
    let (writer, sim) = (Sim::new(&world).await, Sim::new(&world).await);
    let writing = writer.client.read_write_lock(LOCK).write().await.unwrap();
    let lock = sim.client.read_write_lock(LOCK);
    let readers = futures::future::join_all((0..20).map(|_| async { lock.read().await.unwrap() }));
    let release = async {
        sleep(Duration::from_millis(50)).await;
        let calls = sim.network.calls();
        writing.unlock().await.unwrap();
        calls
    };
    // Each holds what it got until all have it.
    let begun = Instant::now();
    let (holding, calls) = tokio::join!(readers, release);
    assert!(begun.elapsed() < Duration::from_millis(50) + 8 * ONE_WAY, "{:?}", begun.elapsed());
    // One asks when the message comes, and all others share what it got.
    assert_eq!(sim.network.calls() - calls, 1);
    drop(holding);
    assert!(sim.left().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_goes_over_to_reading_does_not_stand_behind_those_who_wait_for_it() {
    let sim = Sim::new(&World::new()).await;
    let lock = sim.client.read_write_lock(LOCK);
    let mut me = sim.client.owner();
    let writing = lock.write().by(&mut me).await.unwrap();
    let others = futures::future::join_all((0..3).map(|_| async { lock.read().await.unwrap() }));
    let downgrade = async {
        sleep(Duration::from_millis(50)).await;
        let reading = timeout(10 * ONE_WAY, lock.read().by(&mut me).into_future()).await;
        writing.unlock().await.unwrap();
        reading.expect("at once").unwrap()
    };
    drop(tokio::join!(others, downgrade));
    assert!(sim.left().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn waiters_of_a_spin_lock_keep_to_its_pauses_behind_each_other_too() {
    const PAUSE: Duration = Duration::from_millis(10);
    let sim = Sim::new(&World::new()).await;
    let lock = sim.client.spin_lock_with(LOCK, SpinBackoff::constant(PAUSE));
    let turns = (0..10).map(|_| async {
        let guard = lock.lock().await.unwrap();
        sleep(PAUSE).await;
        guard.unlock().await.unwrap();
    });
    let begun = Instant::now();
    futures::future::join_all(turns).await;
    // A turn, two round trips, and a pause before and after.
    assert!(begun.elapsed() < 10 * (3 * PAUSE + 4 * ONE_WAY), "{:?}", begun.elapsed());
    assert!(sim.left().await.is_empty());
}

/// Its copy took the lock, and the reply was lost.
#[tokio::test(start_paused = true)]
async fn one_that_is_dropped_before_its_second_copy_leaves_the_lock_free_at_once() {
    for kind in KINDS {
        let world = World::new();
        let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
        sim.network.fail("acquire", [Fault::LoseReply]);
        let lock = (kind.lock)(&sim.client);
        assert!(timeout(ONE_WAY * 2 + Duration::from_micros(50), lock.try_lock()).await.is_err());
        let soon = timeout(Duration::from_millis(500), (kind.lock)(&other.client).lock()).await;
        soon.expect(kind.name).unwrap().unlock().await.unwrap();
        assert!(sim.left().await.is_empty());
    }
}
