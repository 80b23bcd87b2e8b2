//! All of several locks: who loses one meanwhile, and whose servers fall silent.

use std::{iter::repeat_n, pin::pin, time::Duration};

use futures::FutureExt;
use tokio::time::{Instant, sleep, timeout};

use super::{
    Fault, KINDS, LOCK, Sim, World,
    bounds::{COMMAND, ends_within},
    ms,
    multi::{left, locks, sims, worlds_in_order},
};
use crate::{Error, Lock, Loss, MultiLock};

fn named(sim: &Sim, names: &[&str]) -> MultiLock {
    MultiLock::all(names.iter().map(|name| sim.client.lock(name)).collect::<Vec<Lock>>())
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_its_caller_slept_through_is_none() {
    let sim = Sim::new(&World::new()).await;
    for kind in KINDS {
        let lock = (kind.lock)(&sim.client);
        let mut asking = pin!(lock.try_lock().lease(ms(100)).into_future());
        assert!((&mut asking).now_or_never().is_none());
        sleep(ms(150)).await;
        let late = asking.await;
        let name = kind.name;
        assert!(matches!(late, Err(Error::NotHeld { why: Loss::Expired })), "{name}: {late:?}");
        assert_eq!(sim.left().await, [""; 0], "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_would_wait_for_the_first_lock_takes_no_other() {
    let sim = Sim::new(&World::new()).await;
    let multi = named(&sim, &["a", "b"]);
    let begun = Instant::now();
    let free = multi.lock().await.unwrap();
    assert_eq!(begun.elapsed(), ms(6), "both at once");
    free.unlock().await.unwrap();
    sleep(ms(100)).await;

    let first = sim.client.lock("a").lock().await.unwrap();
    assert!(multi.try_lock().await.unwrap().is_none());
    let mut waiting = pin!(multi.lock().into_future());
    for _ in 0..200 {
        assert!((&mut waiting).now_or_never().is_none());
        assert!(sim.holder("b").is_none());
        sleep(ms(1)).await;
    }
    first.unlock().await.unwrap();
    waiting.await.unwrap().unlock().await.unwrap();
    sleep(ms(100)).await;

    let mut me = sim.client.owner();
    let first = sim.client.lock("a").lock().by(&mut me).await.unwrap();
    let begun = Instant::now();
    let both = multi.lock().by(&mut me).await.unwrap();
    assert_eq!(begun.elapsed(), ms(6), "it is its own");
    both.unlock().await.unwrap();
    first.unlock().await.unwrap();
    assert_eq!(sim.left().await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_removed_while_another_is_waited_for_is_taken_anew() {
    let world = World::new();
    // Leases run by the server's real clock, and a slow machine may take long for the little that happens here.
    let sim = Sim::with(&world, |config| config.watchdog(ms(3_000))).await;
    let other = Sim::new(&world).await;
    // The watchdog notices it after a second. What is left of a lease is seen at the end only.
    for (lease, pause, taken) in [(None, 1_200, true), (Some(ms(10_000)), 60, false)] {
        let blocker = other.client.lock("b").lock().await.unwrap();
        let multi = named(&sim, &["a", "b"]);
        let wanted = async {
            match lease {
                None => multi.try_lock().wait(ms(5_000)).await,
                Some(lease) => multi.try_lock().wait(ms(5_000)).lease(lease).await,
            }
        };
        let meanwhile = async {
            sleep(ms(20)).await;
            assert!(other.client.lock("a").force_unlock().await.unwrap());
            sleep(ms(pause)).await;
            blocker.unlock().await.unwrap();
        };
        let (guard, ()) = tokio::join!(wanted, meanwhile);
        match taken {
            true => {
                let guard = guard.unwrap().unwrap();
                assert!(guard.is_held() && sim.holder("a").is_some());
                guard.unlock().await.unwrap();
            }
            false => assert!(matches!(guard, Err(Error::NotHeld { .. })), "{guard:?}"),
        }
        assert_eq!(sim.left().await, [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_silent_for_a_moment_ends_no_wait_and_one_that_stays_silent_does() {
    let worlds = worlds_in_order();
    let (others, sims) = (sims(&worlds).await, sims(&worlds).await);
    let multi = MultiLock::all(locks(&sims));
    let wait = async |wait: Option<Duration>| match wait {
        None => multi.lock().await.map(Some),
        Some(wait) => multi.try_lock().wait(wait).await,
    };
    for (most, heals) in [(None, true), (Some(ms(5_000)), true), (None, false)] {
        let blocker = others[2].client.lock(LOCK).lock().await.unwrap();
        let meanwhile = async {
            sleep(ms(20)).await;
            let silent = (0..200).map(|_| Fault::Silent(ms(1_000)));
            sims[2].network.fail("acquire", silent);
            blocker.unlock().await.unwrap();
            sleep(if heals { ms(500) } else { ms(60_000) }).await;
            sims[2].network.heal();
        };
        let (guard, ()) = tokio::join!(wait(most), meanwhile);
        match heals {
            true => guard.unwrap().unwrap().unlock().await.unwrap(),
            false => assert!(matches!(guard, Err(Error::Redis(_))), "{guard:?}"),
        }
        assert_eq!([left(&others).await, left(&sims).await].concat(), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_released_at_the_last_moment_is_still_taken() {
    let world = World::new();
    let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
    let blocker = other.client.lock("b").lock().await.unwrap();
    let multi = named(&sim, &["a", "b"]);
    let begun = Instant::now();
    let release = async {
        sleep(ms(96)).await;
        blocker.unlock().await.unwrap();
    };
    let (guard, ()) = tokio::join!(multi.try_lock().wait(ms(100)).into_future(), release);
    assert!(begun.elapsed() < ms(150));
    guard.unwrap().expect("it was free by then").unlock().await.unwrap();
    assert_eq!(sim.left().await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_plain_lock_taken_early_is_held_for_the_whole_lease_too() {
    let world = World::new();
    let (other, sim) = (Sim::new(&world).await, Sim::new(&world).await);
    let blocker = other.client.lock("b").lock().await.unwrap();
    let release = async {
        sleep(ms(250)).await;
        blocker.unlock().await.unwrap();
    };
    let multi = MultiLock::all([sim.client.plain_lock("a"), sim.client.lock("b")]);
    let (guard, ()) = tokio::join!(multi.lock().lease(ms(1_000)).into_future(), release);
    let guard = guard.unwrap();
    assert!(guard.remaining() >= ms(988 - 2 * 6), "{:?}", guard.remaining());
    guard.unlock().await.unwrap();
    assert!(sim.left().await.is_empty());
}

/// Neither the locks that are tried again nor the last look at a lock take more time than the call has.
#[tokio::test(start_paused = true)]
async fn a_slow_server_that_refuses_is_asked_within_one_bound() {
    let worlds = worlds_in_order();
    let (others, sims) = (sims(&worlds).await, sims(&worlds).await);
    let multi = MultiLock::all(locks(&sims));
    let blocker = others[1].client.lock(LOCK).lock().await.unwrap();
    for slow in [800, 1_600, 2_900] {
        for wait in [0, 1, 500, 5_000].map(ms) {
            sims[1].network.fail("acquire", repeat_n(Fault::SlowReply(ms(slow)), 100));
            let what = format!("a wait of {wait:?}, answers after {slow} ms");
            let asking = multi.try_lock().wait(wait).into_future();
            let answer = ends_within(wait + COMMAND, &what, asking).await;
            assert!(matches!(answer, Ok(None)), "{what}: {answer:?}");
            sims[1].network.heal();
            sleep(2 * COMMAND).await;
        }
    }
    blocker.unlock().await.unwrap();
    // What is granted when the wait is over is not worth much more time.
    let first = others[0].client.lock(LOCK).lock().await.unwrap();
    for sim in &sims {
        sim.network.fail("acquire", repeat_n(Fault::SlowReply(ms(2_900)), 100));
    }
    let asking = async {
        let asking = multi.try_lock().wait(ms(500)).lease(ms(60_000)).into_future();
        let granted = ends_within(ms(500) + COMMAND, "a late grant", asking).await;
        assert!(matches!(granted, Ok(None) | Err(Error::Redis(_))), "{granted:?}");
    };
    let release = async {
        sleep(ms(400)).await;
        first.unlock().await.unwrap();
    };
    tokio::join!(asking, release);
    for sim in &sims {
        sim.network.heal();
    }
    sleep(2 * COMMAND).await;
    assert_eq!([left(&others).await, left(&sims).await].concat(), [""; 0]);
}

/// For 100 ms a lock at most, and at least for half of that.
#[tokio::test(start_paused = true)]
async fn a_part_is_held_for_a_moment_while_another_is_waited_for() {
    let world = World::new();
    for _ in 0..10 {
        let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
        let blocker = other.client.lock("c").lock().await.unwrap();
        let multi = named(&sim, &["a", "b", "c"]);
        let mut waiting = pin!(multi.lock().into_future());
        let mut held = 0;
        for _ in 0..500 {
            assert!((&mut waiting).now_or_never().is_none());
            sleep(ms(1)).await;
            held += u64::from(sim.holder("a").is_some());
        }
        // It is given back with one way over the network.
        assert!((140..=310).contains(&held), "for {held} ms");
        blocker.unlock().await.unwrap();
        waiting.await.unwrap().unlock().await.unwrap();
        assert!(sim.left().await.is_empty());
    }
}

/// The tries take longer than the wait, and the lock is released while the last of them is under way.
#[tokio::test(start_paused = true)]
async fn a_lock_that_is_released_after_the_wait_is_taken_by_the_last_look() {
    let world = World::new();
    let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
    let blocker = other.client.lock("b").lock().await.unwrap();
    let multi = named(&sim, &["a", "b"]);
    let release = async {
        // It is looked at three times, and then once more.
        sleep(ms(16)).await;
        blocker.unlock().await.unwrap();
    };
    let (guard, ()) = tokio::join!(multi.try_lock().wait(ms(15)).into_future(), release);
    guard.unwrap().expect("it was free by then").unlock().await.unwrap();
    assert!(sim.left().await.is_empty());
}

/// Nor when its wait is over.
#[tokio::test(start_paused = true)]
async fn who_has_waited_for_the_first_lock_in_vain_takes_no_other() {
    let sim = Sim::new(&World::new()).await;
    let first = sim.client.lock("a").lock().await.unwrap();
    let multi = named(&sim, &["a", "b"]);
    let mut waiting = tokio::spawn(async move { multi.try_lock().wait(ms(20)).await });
    for _ in 0..60 {
        sleep(ms(1)).await;
        assert!(sim.holder("b").is_none());
    }
    assert!((&mut waiting).await.unwrap().unwrap().is_none());
    first.unlock().await.unwrap();
    assert!(sim.left().await.is_empty());
}

/// Another server is slow to answer, which does not matter any more.
#[tokio::test(start_paused = true)]
async fn who_is_refused_the_first_lock_waits_for_it_and_for_no_slow_server() {
    let worlds = worlds_in_order();
    let (others, sims) = (sims(&worlds).await, sims(&worlds).await);
    let first = others[0].client.lock(LOCK).lock().await.unwrap();
    sims[2].network.fail("acquire", [Fault::SlowReply(ms(500))]);
    let multi = MultiLock::all(locks(&sims));
    let mut waiting = pin!(multi.lock().into_future());
    assert!(timeout(ms(50), &mut waiting).await.is_err());
    assert_eq!(worlds[0].listeners().len(), 1, "it waits for the first");
    first.unlock().await.unwrap();
    waiting.await.unwrap().unlock().await.unwrap();
    assert_eq!([left(&others).await, left(&sims).await].concat(), [""; 0]);
}
