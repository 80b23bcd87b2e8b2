//! All of several locks whose servers are silent or slow: what is held meanwhile.

use std::{iter::repeat_n, pin::pin};

use futures::FutureExt;
use tokio::time::sleep;

use super::{
    Fault, LOCK, Sim,
    bounds::{COMMAND, RETRIES, ends_within, hangs},
    ms,
    multi::{left, locks, sims, worlds_in_order},
};
use crate::{Error, MultiLock};

/// Its answers to these calls come later by so many ms.
pub(super) fn is_slow(sim: &Sim, calls: &'static str, late: u64) {
    sim.network.fail(calls, repeat_n(Fault::SlowReply(ms(late)), 1_000));
}

/// It answers thrice that another holds the lock, and then no more.
pub(super) fn falls_silent(sim: &Sim) {
    let answers = repeat_n(Fault::SlowReply(ms(0)), 3);
    sim.network.fail("acquire", answers.chain(repeat_n(Fault::Silent(COMMAND), 1_000)));
}

/// As long as for one that is held by another, and then the others have the first lock.
#[tokio::test(start_paused = true)]
async fn a_part_is_held_for_a_moment_while_a_server_is_silent() {
    let worlds = worlds_in_order();
    let (other, sims) = (sims(&worlds).await, sims(&worlds).await);
    let multi = MultiLock::all(locks(&sims[..2]));
    for silent in [0, 1] {
        hangs(&sims[silent]);
        let granting = &sims[1 - silent];
        let mut waiting = pin!(multi.lock().into_future());
        let mut held = 0;
        for _ in 0..500 {
            assert!((&mut waiting).now_or_never().is_none());
            sleep(ms(1)).await;
            held += u64::from(granting.holder(LOCK).is_some());
        }
        assert!((190..=220).contains(&held), "for {held} ms");
        let lock = other[1 - silent].client.lock(LOCK);
        lock.try_lock().await.unwrap().expect("it is free").unlock().await.unwrap();
        sims[silent].network.heal();
        waiting.await.unwrap().unlock().await.unwrap();
        assert_eq!([left(&other).await, left(&sims).await].concat(), [""; 0]);
    }
    // It never answers: that is an error in time.
    hangs(&sims[1]);
    let failed = ends_within(RETRIES + COMMAND, "lock()", multi.lock().into_future()).await;
    assert!(matches!(failed, Err(Error::Redis(_))), "{failed:?}");
    sims[1].network.heal();
    assert_eq!(left(&sims).await, [""; 0]);
}

/// As for one that is silent from the start.
#[tokio::test(start_paused = true)]
async fn a_part_is_held_for_a_moment_while_a_server_falls_silent() {
    let worlds = worlds_in_order();
    let (others, sims) = (sims(&worlds).await, sims(&worlds).await);
    let blocker = others[1].client.lock(LOCK).lock().await.unwrap();
    let multi = MultiLock::all(locks(&sims[..2]));
    falls_silent(&sims[1]);
    let mut waiting = pin!(multi.lock().into_future());
    let mut held = 0;
    for _ in 0..4_000 {
        assert!((&mut waiting).now_or_never().is_none());
        sleep(ms(1)).await;
        held += u64::from(sims[0].holder(LOCK).is_some());
    }
    assert!((100..=260).contains(&held), "for {held} ms");
    sims[1].network.heal();
    blocker.unlock().await.unwrap();
    waiting.await.unwrap().unlock().await.unwrap();
    assert_eq!([left(&others).await, left(&sims).await].concat(), [""; 0]);
}

/// The servers need 0.6 s, which is more than a part is held for. What was asked for then is not thrown away.
#[tokio::test(start_paused = true)]
async fn a_lock_of_a_slow_server_is_taken_when_it_is_released() {
    let worlds = worlds_in_order();
    let (others, sims) = (sims(&worlds).await, sims(&worlds).await);
    let multi = MultiLock::all(locks(&sims[..2]));
    for free_after in (1_300..1_800).step_by(100) {
        let blocker = others[1].client.lock(LOCK).lock().await.unwrap();
        sims.iter().take(2).for_each(|sim| is_slow(sim, "", 600));
        let release = async {
            sleep(ms(free_after)).await;
            blocker.unlock().await.unwrap();
        };
        let asking = ends_within(ms(free_after + 1_500), "lock()", multi.lock().into_future());
        let (taken, ()) = tokio::join!(asking, release);
        let taken = taken.unwrap();
        sims.iter().take(2).for_each(|sim| sim.network.heal());
        taken.unlock().await.unwrap();
        sleep(2 * COMMAND).await;
    }
    assert_eq!([left(&others).await, left(&sims).await].concat(), [""; 0]);
}

/// It was granted by another copy of the request than the first.
#[tokio::test(start_paused = true)]
async fn a_lease_counts_from_the_lock_whose_server_answered_last() {
    let worlds = worlds_in_order();
    let sims = sims(&worlds).await;
    let multi = MultiLock::all(locks(&sims[..2]));
    for waits in [true, false] {
        sims[1].network.fail("acquire", [Fault::Silent(ms(1_500)), Fault::Silent(ms(500))]);
        let guard = match waits {
            true => multi.lock().lease(ms(10_000)).await.unwrap(),
            false => multi.try_lock().lease(ms(10_000)).await.unwrap().expect("it is free"),
        };
        assert!(guard.remaining() >= ms(9_800), "{waits}: {:?}", guard.remaining());
        guard.unlock().await.unwrap();
        sims[1].network.heal();
        assert_eq!(left(&sims).await, [""; 0]);
    }
}

/// Nobody else has them: what is given back meanwhile is taken again.
#[tokio::test(start_paused = true)]
async fn slow_servers_are_waited_for_once() {
    let sims = sims(&worlds_in_order()).await;
    let multi = MultiLock::all(locks(&sims[..2]));
    is_slow(&sims[1], "", 250);
    let asking = multi.try_lock().wait(ms(300)).into_future();
    let both = ends_within(ms(270), "one of two", asking).await.unwrap().expect("both are free");
    both.unlock().await.unwrap();
    sleep(ms(500)).await;
    sims[1].network.heal();
    let multi = MultiLock::all(locks(&sims));
    for sim in &sims[1..] {
        is_slow(sim, "", 1_000);
    }
    for waits in [true, false] {
        let all = match waits {
            true => {
                ends_within(ms(1_030), "two of three", multi.lock().into_future()).await.unwrap()
            }
            false => {
                let asking = multi.try_lock().wait(ms(5_000)).into_future();
                ends_within(ms(1_030), "two of three", asking).await.unwrap().expect("all are free")
            }
        };
        all.unlock().await.unwrap();
        sleep(ms(2_000)).await;
    }
    for sim in &sims {
        sim.network.heal();
    }
    assert_eq!(left(&sims).await, [""; 0]);
}

/// One answers after 1 s and the other after 2.8 s: each time one of them is held while the other is silent.
#[tokio::test(start_paused = true)]
async fn servers_that_are_not_equally_slow_are_of_use() {
    let sims = sims(&worlds_in_order()).await;
    let multi = MultiLock::all(locks(&sims));
    for (sim, late) in [(&sims[0], 2_000), (&sims[1], 1_000), (&sims[2], 2_800)] {
        is_slow(sim, "", late);
    }
    let asking = multi.lock().into_future();
    ends_within(ms(30_000), "lock()", asking).await.unwrap().unlock().await.unwrap();
    for sim in &sims {
        sim.network.heal();
    }
    assert_eq!(left(&sims).await, [""; 0]);
}

/// They hold a part for longer than a third of their lease, or nobody would ever get all.
#[tokio::test(start_paused = true)]
async fn servers_that_are_slow_for_the_lease_are_of_use() {
    let sims = sims(&worlds_in_order()).await;
    let multi = MultiLock::all(locks(&sims));
    for sim in &sims[1..] {
        is_slow(sim, "", 600);
    }
    for lease in [1_500, 2_000, 2_500] {
        let asking = multi.lock().lease(ms(lease)).into_future();
        let guard = ends_within(ms(3_000), "lock()", asking).await.unwrap();
        guard.unlock().await.unwrap();
        sleep(ms(1_000)).await;
    }
    for sim in &sims {
        sim.network.heal();
    }
    assert_eq!(left(&sims).await, [""; 0]);
}

/// The first answers late, the second at once, and the third is held by another at first.
#[tokio::test(start_paused = true)]
async fn a_slow_server_beside_a_lock_that_is_held_is_waited_for_once() {
    let worlds = worlds_in_order();
    let (others, sims) = (sims(&worlds).await, sims(&worlds).await);
    let multi = MultiLock::all(locks(&sims));
    for (wait, held) in [(600, 200), (600, 350), (1_500, 200), (1_500, 900)] {
        let blocker = others[2].client.lock(LOCK).lock().await.unwrap();
        is_slow(&sims[0], "acquire", 400);
        let release = async {
            sleep(ms(held)).await;
            blocker.unlock().await.unwrap();
        };
        let asking = multi.try_lock().wait(ms(wait)).into_future();
        let (all, ()) = tokio::join!(asking, release);
        let all = all.unwrap().unwrap_or_else(|| panic!("{wait}, {held}: all are free"));
        sims[0].network.heal();
        all.unlock().await.unwrap();
        sleep(ms(500)).await;
    }
    assert_eq!([left(&others).await, left(&sims).await].concat(), [""; 0]);
}

/// What an owner has given back is not released yet when it is asked for again.
#[tokio::test(start_paused = true)]
async fn an_owner_waits_for_what_it_has_given_back_itself() {
    let sims = sims(&worlds_in_order()).await;
    let multi = MultiLock::all(locks(&sims[..2]));
    is_slow(&sims[0], "", 150);
    is_slow(&sims[1], "", 400);
    let mut me = sims[0].client.owner();
    for wait in (350..700).step_by(30) {
        let both = multi.try_lock().wait(ms(wait)).by(&mut me).await;
        let both = both.unwrap_or_else(|error| panic!("{wait}: {error}"));
        both.unwrap_or_else(|| panic!("{wait}: both are free")).unlock().await.unwrap();
        sleep(ms(1_000)).await;
    }
    sims.iter().for_each(|sim| sim.network.heal());
    assert_eq!(left(&sims).await, [""; 0]);
}

/// A lease that is shorter than two ways to the slowest server.
#[tokio::test(start_paused = true)]
async fn a_lease_that_ends_before_it_can_be_extended_is_asked_for_again() {
    let sims = sims(&worlds_in_order()).await;
    let multi = MultiLock::all(locks(&sims[..2]));
    is_slow(&sims[1], "", 2_000);
    let guard = multi.lock().lease(ms(3_000)).await.unwrap();
    guard.unlock().await.unwrap();
    sims[1].network.heal();
    sleep(ms(3_000)).await;
    assert_eq!(left(&sims).await, [""; 0]);
}
