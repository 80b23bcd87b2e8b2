//! Local waiters: their order, and what they are told when their wait is over.

use std::{cell::RefCell, time::Duration};

use futures::{FutureExt, future::join_all};
use tokio::time::{Instant, sleep};

use super::{Fault, LOCK, ONE_WAY, Sim, World, ms};
use crate::{Error, LockGuard};

/// Far longer than a test takes.
const SILENT: Fault = Fault::Silent(Duration::from_secs(3));

#[tokio::test(start_paused = true)]
async fn waiters_that_are_polled_keep_their_order_however_long_they_wait() {
    let world = World::new();
    let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
    let lock = sim.client.lock(LOCK);
    let held = other.client.lock(LOCK).lock().await.unwrap();
    let served = RefCell::new(Vec::new());
    let waiters = join_all((0..5).map(|n| {
        let (lock, served) = (&lock, &served);
        async move {
            sleep(ms(n)).await;
            let guard = lock.lock().await.unwrap();
            served.borrow_mut().push(n);
            guard.unlock().await.unwrap();
        }
    }));
    let release = async {
        sleep(Duration::from_secs(600)).await;
        held.unlock().await.unwrap();
    };
    tokio::join!(waiters, release);
    assert_eq!(*served.borrow(), [0, 1, 2, 3, 4]);
    assert!(sim.left().await.is_empty());
}

/// Fifty at once try to get the lock, which another process holds, for so long.
async fn fifty_try(sim: &Sim, wait: Duration) -> Vec<Result<Option<LockGuard>, Error>> {
    let lock = sim.client.lock(LOCK);
    join_all((0..50).map(|n| {
        let lock = &lock;
        async move {
            sleep(ms(n)).await;
            lock.try_lock().wait(wait).await
        }
    }))
    .await
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_silent_is_not_reported_as_a_lock_that_is_held() {
    let world = World::new();
    // With one who waits longer at the head of the line, and without.
    for (wait, patient) in [1, 30, 400, 2_000, 5_000]
        .into_iter()
        .flat_map(|wait| [(ms(wait), false), (ms(wait), true)])
    {
        let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
        let lock = sim.client.lock(LOCK);
        let held = other.client.lock(LOCK).lock().await.unwrap();
        let silence = async {
            sleep(ms(100)).await;
            for script in ["acquire", "combine"] {
                sim.network.fail(script, vec![SILENT; 1_000]);
            }
            // The head looks again, and hears nothing.
            sleep(ms(3_500)).await;
            for answer in fifty_try(&sim, wait).await {
                assert!(matches!(answer, Err(Error::Redis(_))), "waited {wait:?}: {answer:?}");
            }
        };
        let head = async { if patient { Some(lock.lock().await) } else { None } };
        let (head, ()) = tokio::join!(head, silence);
        assert!(head.is_none_or(|head| head.is_err()));
        sim.network.heal();
        held.unlock().await.unwrap();
        assert!(sim.left().await.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_its_own_process_could_not_give_back_is_not_reported_as_held() {
    let world = World::new();
    for wait in [ms(30), ms(400), ms(2_000)] {
        let sim = Sim::new(&world).await;
        let lock = sim.client.lock(LOCK);
        let held = lock.lock().await.unwrap();
        for script in ["acquire", "combine", "release", "extend"] {
            sim.network.fail(script, vec![SILENT; 1_000]);
        }
        let unlock = async {
            sleep(ms(5)).await;
            let _ = held.unlock().await;
        };
        let tries = async {
            sleep(ms(10)).await;
            fifty_try(&sim, wait).await
        };
        let (answers, ()) = tokio::join!(tries, unlock);
        for answer in answers {
            assert!(matches!(answer, Err(Error::Redis(_))), "waited {wait:?}: {answer:?}");
        }
        sim.network.heal();
        sim.left().await;
        world.forget(LOCK);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_seen_held_is_reported_so_however_short_the_wait() {
    let world = World::new();
    for wait in (1..30).chain([400, 2_000, 5_000]).map(ms) {
        // Held by another process, and by this one.
        for own in [false, true] {
            let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
            let holder = if own { &sim } else { &other };
            let held = holder.client.lock(LOCK).lock().await.unwrap();
            for answer in fifty_try(&sim, wait).await {
                assert!(matches!(answer, Ok(None)), "waited {wait:?}: {answer:?}");
            }
            held.unlock().await.unwrap();
            assert!(sim.left().await.is_empty());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn those_whose_wait_ends_in_a_busy_crowd_are_told_that_the_lock_is_held() {
    let world = World::new();
    let sim = Sim::new(&world).await;
    let lock = sim.client.lock(LOCK);
    let crowd = join_all((0..8).map(|_| async {
        for _ in 0..300 {
            let guard = lock.lock().await.unwrap();
            sleep(ms(1)).await;
            guard.unlock().await.unwrap();
        }
    }));
    let tries = join_all((0..200).map(|n| {
        let lock = &lock;
        async move {
            sleep(ms(7 * n)).await;
            let guard = lock.try_lock().wait(ONE_WAY * (n as u32 % 5 + 1) / 2).await.unwrap();
            if let Some(guard) = guard {
                guard.unlock().await.unwrap();
            }
        }
    }));
    tokio::join!(crowd, tries);
    assert!(sim.left().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_waiter_dropped_while_it_asks_leaves_no_doubt_about_the_server() {
    let world = World::new();
    for cut in 0..20 {
        let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
        let lock = sim.client.lock(LOCK);
        let held = other.client.lock(LOCK).lock().await.unwrap();
        let mut dropped = Box::pin(lock.lock().into_future());
        assert!((&mut dropped).now_or_never().is_none());
        let tries = join_all((0..3).map(|_| lock.try_lock().wait(ms(1_500)).into_future()));
        let cut = async {
            sleep(ms(cut)).await;
            drop(dropped);
        };
        let (answers, ()) = tokio::join!(tries, cut);
        assert!(answers.iter().all(|answer| matches!(answer, Ok(None))), "{answers:?}");
        held.unlock().await.unwrap();
        assert!(sim.left().await.is_empty());
    }
}

/// Messages are missed while a waiter goes, at each moment of that: its subscription goes all the same.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_goes_while_messages_are_missed_leaves_no_subscription() {
    let world = World::new();
    let (one, other) = (Sim::new(&world).await, Sim::new(&world).await);
    let held = [one.client.lock("a").lock().await, one.client.lock("b").lock().await];
    for moment in 0..30 {
        let wait = |name: &'static str| {
            let lock = other.client.lock(name);
            tokio::spawn(async move { lock.lock().await.map(drop) })
        };
        let first = wait("a");
        sleep(Duration::from_millis(moment)).await;
        // Keeps whoever sees to subscriptions busy.
        let second = wait("b");
        sleep(Duration::from_millis(8)).await;
        first.abort();
        sleep(Duration::from_millis(1)).await;
        other.network.miss();
        sleep(Duration::from_millis(100)).await;
        second.abort();
        sleep(Duration::from_secs(10)).await;
        let left: Vec<_> = world.listeners().iter().map(|left| left.channel.clone()).collect();
        assert!(left.is_empty(), "{moment} ms: {left:?}");
    }
    drop(held);
}

/// A reader that waits for a moment, between one whose request is under way and one that waits on.
#[tokio::test(start_paused = true)]
async fn a_reader_whose_wait_ends_is_not_told_that_a_lock_is_held_that_a_reader_was_granted() {
    let world = World::new();
    for wait in 1..45 {
        let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
        let lock = sim.client.read_write_lock(LOCK).read_lock().clone();
        let writes = other.client.read_write_lock(LOCK).write().await.unwrap();
        let head = lock.clone();
        let head = tokio::spawn(async move { head.lock().await.unwrap() });
        sleep(ms(500)).await;
        sim.network.fail("read/acquire", [Fault::SlowReply(ms(40))]);
        writes.unlock().await.unwrap();
        // The head has heard of it, and its request is granted.
        sleep(4 * ONE_WAY).await;
        assert!(!head.is_finished(), "its answer is slow");
        let patient = lock.clone();
        let patient = tokio::spawn(async move { patient.lock().await.unwrap() });
        let got = lock.try_lock().wait(ms(wait)).await.unwrap();
        assert!(got.is_some(), "waited {wait} ms, and nobody wrote");
        for reads in [got.unwrap(), head.await.unwrap(), patient.await.unwrap()] {
            reads.unlock().await.unwrap();
        }
        assert!(sim.left().await.is_empty());
    }
}

/// Whoever deletes the key of a plain lock sends no message.
#[tokio::test(start_paused = true)]
async fn a_waiter_behind_a_local_holder_of_a_plain_lock_polls_too() {
    let world = World::new();
    let sim = Sim::new(&world).await;
    let lock = sim.client.plain_lock(LOCK);
    let held = lock.lock().await.unwrap();
    let wait = || {
        let lock = lock.clone();
        tokio::spawn(async move { lock.lock().await.unwrap() })
    };
    let (first, second) = (wait(), wait());
    sleep(Duration::from_millis(500)).await;
    held.unlock().await.unwrap();
    let deleted = first.await.unwrap();
    sleep(Duration::from_millis(20)).await;
    world.forget(LOCK);
    let begun = Instant::now();
    drop(second.await.unwrap());
    let longest = Duration::from_millis(100);
    assert!(begun.elapsed() < longest + 4 * ONE_WAY, "beside a free key: {:?}", begun.elapsed());
    drop(deleted);
    assert!(sim.left().await.is_empty());
}

/// Waits behind another for a lock that is free. Who is told that it is held is told so while somebody
/// holds it.
async fn is_told_the_truth(sim: &Sim, wait: Duration, what: &str) {
    let answer = sim.client.lock(LOCK).try_lock().wait(wait).await;
    match answer {
        Ok(Some(guard)) => guard.unlock().await.unwrap(),
        Ok(None) => assert!(sim.holder(LOCK).is_some(), "{what}: held, but by nobody"),
        Err(error) => panic!("{what}: {error:?}"),
    }
}

/// The head had no message. It asks, and its request comes too late, because the server's clock was set
/// forward. That is said only of a lock that is free.
#[tokio::test(start_paused = true)]
async fn a_request_of_the_head_that_came_too_late_does_not_say_that_the_lock_is_held() {
    let world = World::new();
    let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
    let held = other.client.lock(LOCK).lock().await.unwrap();
    let head = async { sim.client.lock(LOCK).lock().await.unwrap().unlock().await.unwrap() };
    let behind = async {
        sleep(ms(500)).await;
        sim.network.lose_messages();
        held.unlock().await.unwrap();
        let transport = &sim.client.engine().transport;
        transport.observe(b"", transport.time_at(b"", Instant::now()) - 3_600_000);
        sim.network.fail("acquire", [Fault::SlowReply(ms(200))]);
        sim.network.miss();
        is_told_the_truth(&sim, ms(100), "too late").await;
    };
    tokio::join!(head, behind);
    assert!(sim.left().await.is_empty());
}

/// A hold is gone, which its process finds out when it is to go to the next caller.
#[tokio::test(start_paused = true)]
async fn a_hold_that_is_gone_when_it_is_handed_off_is_not_a_lock_that_is_held() {
    let world = World::new();
    for script in ["extend", "swap"] {
        let sim = Sim::new(&world).await;
        let lock = sim.client.lock(LOCK);
        let held = lock.lock().await.unwrap();
        // An owner's hold has an id of its own, so it has to be swapped.
        let mut me = sim.client.owner();
        let head = async { lock.lock().by(&mut me).await.unwrap().unlock().await.unwrap() };
        let behind = async {
            // One that is held for longer is not left to local callers.
            sleep(ms(20)).await;
            sim.network.fail(script, [Fault::SlowRequest(ms(200))]);
            drop(held);
            if script == "swap" {
                sleep(ms(20)).await;
            }
            world.forget(LOCK);
            is_told_the_truth(&sim, ms(100), script).await;
        };
        tokio::join!(head, behind);
        assert!(sim.left().await.is_empty());
    }
}
