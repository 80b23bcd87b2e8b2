//! The state that a hold takes along in a local hand-off, and what it leaves behind.

use std::{
    pin::pin,
    sync::{Arc, mpsc},
    time::Duration,
};

use futures::{FutureExt, future::join_all};
use tokio::time::{Instant, sleep, timeout};

use super::{Fault, LOCK, ONE_WAY, Sim, World};
use crate::Error;

#[tokio::test(start_paused = true)]
async fn a_watched_hold_does_not_inherit_a_longer_lease() {
    let world = World::new();
    let sim = Sim::new(&world).await;
    let lock = sim.client.lock(LOCK);
    let first = lock.lock().lease(Duration::from_secs(3_600)).await.unwrap();
    let mut second = pin!(lock.lock().into_future());
    assert!((&mut second).now_or_never().is_none());
    first.unlock().await.unwrap();
    let second = second.await.unwrap();
    // So long the lock would be blocked if this process died now.
    let blocked = world.pttl(LOCK);
    assert!(blocked <= 30_000, "{blocked} ms");
    second.unlock().await.unwrap();
    assert!(sim.left().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_free_lock_is_not_left_alone_for_long_after_a_slow_release() {
    const SLOW: Duration = Duration::from_secs(3);
    // How long the lock may be left to those who listen elsewhere, but do not come.
    for (fault, times, most) in [
        (Fault::SlowReply(SLOW), 1, Duration::from_millis(200)),
        (Fault::LoseRequest, 5, Duration::from_millis(75)),
    ] {
        let world = World::new();
        let sim = Sim::new(&world).await;
        let lock = sim.client.lock(LOCK);
        let first = lock.lock().await.unwrap();
        let others = [Sim::new(&world).await, Sim::new(&world).await, Sim::new(&world).await];
        let elsewhere = others.each_ref().map(|other| other.client.lock(LOCK));
        let mut listeners = join_all(elsewhere.iter().map(|lock| lock.lock().into_future()));
        assert!(timeout(Duration::from_millis(50), &mut listeners).await.is_err());
        sim.network.fail("release", vec![fault; times]);
        first.unlock().await.unwrap();
        let begun = Instant::now();
        let second = lock.lock().await.unwrap();
        assert!(begun.elapsed() < most, "{:?}", begun.elapsed());
        second.unlock().await.unwrap();
    }
}

/// Runs a test that may block its thread, in one that can be left behind then.
fn without_blocking<T: Send + 'static>(test: impl AsyncFnOnce() -> T + Send + 'static) -> T {
    let (done, finished) = mpsc::channel();
    std::thread::spawn(move || {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().start_paused(true).build().unwrap();
        done.send(runtime.block_on(test())).unwrap();
    });
    finished.recv_timeout(Duration::from_secs(60)).expect("the thread is not blocked")
}

/// A newcomer takes the free lock while the waiter's question is under way, and leaves it to the waiter. Its key is
/// deleted, so the question is granted, too.
#[test]
fn a_waiter_that_is_left_a_hold_and_is_granted_the_lock_blocks_no_thread() {
    without_blocking(async || {
        let world = World::new();
        let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
        let (lock, elsewhere) = (sim.client.lock(LOCK), other.client.lock(LOCK));
        let ms = |n| sleep(Duration::from_millis(n));
        let held = elsewhere.lock().await.unwrap();
        let waiter = async {
            let granted = lock.lock().await.unwrap();
            granted.check().await.unwrap();
            granted.unlock().await.unwrap();
        };
        let meanwhile = async {
            // The waiter listens. Its next question is late.
            ms(100).await;
            sim.network.fail("acquire", [Fault::SlowRequest(Duration::from_millis(30))]);
            held.unlock().await.unwrap();
            ms(5).await;
            let newcomer = lock.try_lock().await.unwrap().unwrap();
            newcomer.unlock().await.unwrap();
            assert!(world.pttl(LOCK) > 0, "it is left to the waiter, not released");
            world.forget(LOCK);
        };
        tokio::join!(waiter, meanwhile);
        assert!(sim.left().await.is_empty());
    });
}

#[test]
fn a_late_swap_and_a_newer_hold_left_to_the_same_waiters_block_no_thread() {
    let lost = without_blocking(async || {
        let world = World::new();
        let mut lost = 0;
        // The swap is heard of about 100 ms after it was asked for.
        for taken in 90..125 {
            lost += u32::from(swapped_late(&world, taken).await);
        }
        lost
    });
    // The server has a clock of its own: where the machine stands still, a swap comes too late.
    assert!(lost > 20, "of 35 holds that were swapped late, {lost} were lost");
}

/// A hold is swapped for an owner's, which is told of it 100 ms later. Meanwhile the key is deleted, and
/// somebody takes the free lock at `taken` ms and leaves it to those who wait. Returns whether the owner's
/// hold was lost.
async fn swapped_late(world: &Arc<World>, taken: u64) -> bool {
    let sim = Sim::new(world).await;
    let lock = sim.client.lock(LOCK);
    let ms = |n| sleep(Duration::from_millis(n));
    let first = lock.lock().await.unwrap();
    sim.network.fail("swap", [Fault::SlowReply(Duration::from_millis(100))]);
    let swapper = async {
        let mut me = sim.client.owner();
        let guard = lock.lock().by(&mut me).await.unwrap();
        match guard.unlock().await {
            Ok(()) => false,
            Err(Error::NotHeld { .. }) => true,
            Err(error) => panic!("{error}"),
        }
    };
    let waiter = async {
        ms(5).await;
        // If the swap came too late, the waiter is left the hold whose key was deleted.
        let unlocked = lock.lock().await.unwrap().unlock().await;
        assert!(matches!(unlocked, Ok(()) | Err(Error::NotHeld { .. })), "{unlocked:?}");
    };
    let meanwhile = async {
        ms(10).await;
        first.unlock().await.unwrap();
        ms(40).await;
        world.forget(LOCK);
        ms(taken - 50).await;
        if let Some(newer) = lock.try_lock().await.unwrap() {
            newer.unlock().await.unwrap();
        }
    };
    let (lost, ..) = tokio::join!(swapper, waiter, meanwhile);
    assert!(sim.left().await.is_empty());
    lost
}

/// Its caller is not polled when the grant comes, and the lock is then removed.
#[tokio::test(start_paused = true)]
async fn a_hold_whose_grant_is_seen_late_is_not_handed_off_without_asking() {
    let world = World::new();
    let sim = Sim::new(&world).await;
    let lock = sim.client.lock(LOCK);
    let ms = |n| sleep(Duration::from_millis(n));
    let mut first = pin!(lock.lock().lease(Duration::from_secs(5)).into_future());
    assert!((&mut first).now_or_never().is_none());
    ms(20).await;
    world.forget(LOCK);
    ms(600).await;
    let guard = first.await.unwrap();
    let second = async { lock.lock().await.unwrap().unlock().await.unwrap() };
    let unlock = async {
        let lost = guard.unlock().await;
        assert!(matches!(lost, Err(Error::NotHeld { .. })), "{lost:?}");
    };
    tokio::join!(second, unlock);
    assert!(sim.left().await.is_empty());
}

/// The server answers that the hold is there, and the answer takes so long that another has the lock meanwhile.
#[tokio::test(start_paused = true)]
async fn a_confirmation_that_took_long_is_not_enough_for_a_hand_off() {
    let ms = Duration::from_millis;
    for slow in [500, 2_000] {
        let world = World::new();
        let (sim, elsewhere) = (Sim::new(&world).await, Sim::new(&world).await);
        let lock = sim.client.lock(LOCK);
        let guard = lock.lock().await.unwrap();
        let mut waits = pin!(lock.try_lock().wait(ms(3_500)).into_future());
        assert!(timeout(ms(18), &mut waits).await.is_err());
        sim.network.fail("extend", [Fault::SlowReply(ms(slow))]);
        let removed = async {
            sleep(ms(20)).await;
            world.forget(LOCK);
            elsewhere.client.lock(LOCK).try_lock().await.unwrap().expect("a free lock")
        };
        let (unlocked, other, second) = tokio::join!(guard.unlock(), removed, waits);
        assert!(matches!(unlocked, Err(Error::NotHeld { .. })), "{slow}: {unlocked:?}");
        assert!(second.unwrap().is_none() && other.is_held(), "{slow}: one holds it");
    }
}

/// How far the server is costs a hand-off nothing.
#[tokio::test(start_paused = true)]
async fn a_hold_of_a_far_server_is_handed_off_without_asking() {
    let ms = Duration::from_millis;
    for far in [80, 300] {
        let world = World::new();
        let sim = Sim::new(&world).await;
        sim.network.fail("", (0..1_000).map(|_| Fault::SlowReply(ms(far))));
        let lock = sim.client.lock(LOCK);
        let first = lock.lock().await.unwrap();
        let mut waits = pin!(lock.lock().into_future());
        assert!((&mut waits).now_or_never().is_none());
        let calls = sim.network.calls();
        first.unlock().await.unwrap();
        assert_eq!(sim.network.calls(), calls, "{far}");
        waits.await.unwrap().unlock().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_is_left_to_a_slow_waiter_is_given_back_when_a_late_grant_comes_between() {
    let world = World::new();
    let sim = Sim::new(&world).await;
    let lock = sim.client.lock(LOCK);
    let ms = |n| sleep(Duration::from_millis(n));
    sim.network.fail("acquire", [Fault::SlowReply(Duration::from_millis(100))]);
    let late = async {
        let guard = lock.try_lock().await.unwrap().expect("granted, and then deleted");
        ms(50).await;
        let lost = guard.unlock().await;
        assert!(matches!(lost, Err(Error::NotHeld { .. })), "{lost:?}");
    };
    let meanwhile = async {
        ms(10).await;
        world.forget(LOCK);
        ms(75).await;
        let newer = lock.try_lock().await.unwrap().expect("a free lock");
        let mut waiter = pin!(lock.lock().into_future());
        assert!((&mut waiter).now_or_never().is_none());
        // It is left to the waiter, which is not polled.
        newer.unlock().await.unwrap();
        ms(30).await;
    };
    tokio::join!(late, meanwhile);
    assert!(sim.left().await.is_empty());
}

/// Whoever swaps a hold has its answer, and does not look at it before another server is master that has
/// not heard of that.
#[tokio::test(start_paused = true)]
async fn a_hold_that_was_swapped_is_released_once_more_where_a_new_master_has_not_heard_of_the_swap()
 {
    let world = World::new();
    let lease = Duration::from_secs(60);
    for is_dropped in [true, false] {
        let sim = Sim::that_follows(&world).await;
        let (lock, mut me) = (sim.client.lock(LOCK), sim.client.owner());
        let first = lock.lock().lease(lease).await.unwrap();
        let holder = first.holder().to_owned();
        let mut second = Box::pin(lock.lock().by(&mut me).lease(lease).into_future());
        assert!(timeout(Duration::from_millis(20), &mut second).await.is_err());
        first.unlock().await.unwrap();
        assert!((&mut second).now_or_never().is_none(), "asks for the swap");
        sleep(Duration::from_millis(20)).await;
        let swapped = sim.holder(LOCK).expect("a holder").id();
        assert_ne!(swapped, holder, "the swap is done");
        world.forget_since(LOCK, &holder);
        sim.network.fail_over();
        sleep(Duration::from_millis(20)).await;
        match is_dropped {
            true => drop(second),
            false => drop(second.await.unwrap()),
        }
        let left = sim.left().await;
        assert!(left.is_empty(), "dropped {is_dropped}: {left:?}");
    }
}

/// A later hold of this client may be missing on a new master, too. The earlier one keeps others out there.
#[tokio::test(start_paused = true)]
async fn a_release_is_not_repeated_beside_a_later_hold_of_another_kind() {
    let world = World::new();
    let sim = Sim::that_follows(&world).await;
    let lease = Duration::from_secs(60);
    let lock = sim.client.lock(LOCK);
    let first = lock.lock().lease(lease).await.unwrap();
    let holder = first.holder().to_owned();
    first.unlock().await.unwrap();
    let second = sim.client.fenced_lock(LOCK).lock().lease(lease).await.unwrap();
    world.forget_since(LOCK, &holder);
    sim.network.fail_over();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(sim.holder(LOCK).map(|holder| holder.id()), Some(holder));
    assert!(second.unlock().await.is_err(), "the new master does not know of it");
    assert!(sim.left().await.is_empty());
}

/// A new master may know the read under the write, which keeps their key, or may not: then only the write keeps
/// other writers out, until its lease is over.
#[tokio::test(start_paused = true)]
async fn the_release_of_a_write_is_repeated_beside_the_read_under_it_when_its_lease_is_over() {
    let world = World::new();
    let (sim, other) = (Sim::that_follows(&world).await, Sim::new(&world).await);
    let (lock, mut me, lease) =
        (sim.client.read_write_lock(LOCK), sim.client.owner(), Duration::from_secs(60));
    let write = lock.write().by(&mut me).lease(lease).await.unwrap();
    let writer = write.holder().to_owned();
    let read = lock.read().by(&mut me).lease(lease).await.unwrap();
    write.unlock().await.unwrap();
    world.put_back(LOCK, &writer);
    sim.network.fail_over();
    let reads = other.client.read_write_lock(LOCK);
    assert!(timeout(Duration::from_secs(5), reads.read()).await.is_err(), "the write is undone");
    let another = timeout(lease, reads.read()).await.expect("a read").unwrap();
    another.unlock().await.unwrap();
    read.unlock().await.unwrap();
    assert!(sim.left().await.is_empty());
}

/// An owner's hold is one, whatever kinds of lock it was taken by. It ends where it was granted.
#[tokio::test(start_paused = true)]
async fn a_hold_that_was_taken_again_by_another_kind_ends_where_it_was_granted() {
    let world = World::new();
    let sim = Sim::new(&world).await;
    let (lock, other) = (sim.client.lock(LOCK), sim.client.spin_lock(LOCK));
    let mut me = sim.client.owner();
    let first = lock.lock().by(&mut me).await.unwrap();
    let second = other.lock().by(&mut me).await.unwrap();
    first.unlock().await.unwrap();
    second.unlock().await.unwrap();
    // Nobody waits, and nobody here holds it: one who comes asks at once, and does not subscribe.
    let begun = Instant::now();
    lock.lock().await.unwrap().unlock().await.unwrap();
    assert_eq!(begun.elapsed(), ONE_WAY * 4);
    assert!(sim.left().await.is_empty());
}
