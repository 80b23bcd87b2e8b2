//! A majority: who is asked and awaited, because the answer decides.

use std::{iter::repeat_n, pin::pin, sync::Arc};

use futures::FutureExt;
use tokio::time::{Instant, sleep};

use super::{
    Fault, LOCK, Sim,
    bounds::{COMMAND, ends_within, hangs},
    ms,
    multi::{left, locks, sims, worlds},
};
use crate::{
    Client, Error, Lock, MultiLock, RedisErrorKind,
    engine::scripted::{Scripted, engine},
    wire::{Reply, WireError},
};

/// From now on this server is left alone by those who need only a majority, for half a second.
async fn is_left_alone(sims: &[Sim], which: usize) {
    hangs(&sims[which]);
    MultiLock::majority(locks(sims)).lock().await.unwrap().unlock().await.unwrap();
    sleep(ms(100)).await;
    sims[which].network.heal();
}

/// A lock whose server answers so, one request after the other.
fn answering(name: &str, answers: impl IntoIterator<Item = Result<Reply, WireError>>) -> Lock {
    Client::on(engine(&Arc::new(Scripted::new(answers)))).lock(name)
}

fn held(name: &str) -> Lock {
    answering(name, repeat_n((), 99).map(|()| Ok(Reply::Int(60_000))))
}

fn refusing(name: &str) -> Lock {
    let refuses = || Err(WireError::from_server("NOPERM no permission to run 'evalsha'"));
    answering(name, repeat_n((), 99).map(|()| refuses()))
}

/// One of the others is held by another, and the third grants it.
#[tokio::test(start_paused = true)]
async fn a_server_that_is_left_alone_is_asked_where_a_refusal_makes_it_decide() {
    let worlds = worlds();
    let (others, sims) = (sims(&worlds).await, sims(&worlds).await);
    let multi = MultiLock::majority(locks(&sims));
    for wait in [Some(0), Some(30), Some(300), None] {
        for slow in [0, 40, 200] {
            is_left_alone(&sims, 2).await;
            let blocker = others[0].client.lock(LOCK).lock().await.unwrap();
            sims[1].network.fail("acquire", [Fault::SlowReply(ms(slow))]);
            let asking = async {
                match wait {
                    Some(wait) => multi.try_lock().wait(ms(wait)).await,
                    None => multi.lock().await.map(Some),
                }
            };
            let guard = ends_within(ms(250), "try_lock()", asking).await.unwrap();
            let guard = guard.unwrap_or_else(|| panic!("{wait:?}, {slow}: two of three are free"));
            guard.unlock().await.unwrap();
            blocker.unlock().await.unwrap();
            sleep(COMMAND).await;
        }
    }
    assert_eq!([left(&others).await, left(&sims).await].concat(), [""; 0]);
}

/// One is held by another, the one that is left alone grants it, and the third takes two seconds.
#[tokio::test(start_paused = true)]
async fn a_slow_server_is_awaited_beside_one_that_was_left_alone() {
    let worlds = worlds();
    let (others, sims) = (sims(&worlds).await, sims(&worlds).await);
    let multi = MultiLock::majority(locks(&sims));
    for wait in [0, 30].map(ms) {
        is_left_alone(&sims, 2).await;
        let blocker = others[0].client.lock(LOCK).lock().await.unwrap();
        sims[1].network.fail("acquire", [Fault::SlowReply(ms(2_000))]);
        let asking = multi.try_lock().wait(wait).into_future();
        let guard = ends_within(COMMAND, "try_lock()", asking).await.unwrap();
        guard.expect("two of three are free").unlock().await.unwrap();
        blocker.unlock().await.unwrap();
        sleep(COMMAND).await;
    }
    assert_eq!([left(&others).await, left(&sims).await].concat(), [""; 0]);
}

/// Of five, one grants it, one is held by another, and two were left alone, of which one is down.
#[tokio::test(start_paused = true)]
async fn a_slow_server_is_awaited_beside_one_that_is_down() {
    let sims = sims(&worlds()).await;
    let granting = answering("granting", [Ok(Reply::Nil), Ok(Reply::Int(1))]);
    let multi = MultiLock::majority([granting, held("held")].into_iter().chain(locks(&sims)));
    sims[0].network.fail("acquire", [Fault::SlowReply(ms(2_000))]);
    for lock in &locks(&sims)[1..] {
        lock.state().unwrap().target.engine.breaker.open();
    }
    hangs(&sims[2]);
    let guard = ends_within(COMMAND, "try_lock()", multi.try_lock().into_future()).await.unwrap();
    guard.expect("three of five are free").unlock().await.unwrap();
    sims[2].network.heal();
    sleep(COMMAND).await;
    assert_eq!(left(&sims).await, [""; 0]);
}

/// It is slower than the wait is long.
#[tokio::test(start_paused = true)]
async fn a_server_that_decides_is_awaited_at_the_end_of_a_wait() {
    let worlds = worlds();
    let (others, sims) = (sims(&worlds).await, sims(&worlds).await);
    let multi = MultiLock::majority(locks(&sims));
    let blocker = others[0].client.lock(LOCK).lock().await.unwrap();
    for late in [10, 60, 300, 1_000, 2_500] {
        for wait in (0..60).step_by(9) {
            sims[2].network.fail("acquire", [Fault::SlowReply(ms(late))]);
            let asking = multi.try_lock().wait(ms(wait)).into_future();
            let guard = ends_within(ms(wait) + COMMAND, "try_lock()", asking).await.unwrap();
            let guard = guard.unwrap_or_else(|| panic!("{late}, {wait}: two of three are free"));
            guard.unlock().await.unwrap();
            sims[2].network.heal();
            sleep(COMMAND).await;
        }
    }
    blocker.unlock().await.unwrap();
    assert_eq!([left(&others).await, left(&sims).await].concat(), [""; 0]);
}

/// A right is missing on one, and the two others are held by another. No server is silent.
#[tokio::test(start_paused = true)]
async fn a_server_that_is_left_alone_is_asked_where_it_can_say_that_the_lock_is_held() {
    let worlds = worlds();
    let (others, sims) = (sims(&worlds).await, sims(&worlds).await);
    let mine = [0, 2].map(|i| sims[i].client.lock(LOCK));
    let multi = MultiLock::majority(mine.into_iter().chain([refusing("refusing")]));
    for wait in [0, 30].map(ms) {
        is_left_alone(&sims, 2).await;
        let other = MultiLock::majority(locks(&others)).lock().await.unwrap();
        let asking = multi.try_lock().wait(wait).into_future();
        let answer = ends_within(ms(150), "try_lock()", asking).await;
        assert!(matches!(answer, Ok(None)), "{wait:?}: {answer:?}");
        other.unlock().await.unwrap();
        sleep(COMMAND).await;
    }
    assert_eq!([left(&others).await, left(&sims).await].concat(), [""; 0]);
}

/// Of four, two are held by another and one is silent.
#[tokio::test(start_paused = true)]
async fn the_last_that_can_say_that_the_lock_is_held_is_asked() {
    let worlds = worlds();
    let (others, sims) = (sims(&worlds).await, sims(&worlds).await);
    let multi = ["one", "two"].map(held).into_iter().chain(locks(&sims[..2]));
    let multi = MultiLock::majority(multi);
    is_left_alone(&sims, 1).await;
    hangs(&sims[0]);
    let other = others[1].client.lock(LOCK).lock().await.unwrap();
    let answer = ends_within(COMMAND / 3, "try_lock()", multi.try_lock().into_future()).await;
    assert!(matches!(answer, Ok(None)), "{answer:?}");
    other.unlock().await.unwrap();
    sims[0].network.heal();
    sleep(COMMAND).await;
    assert_eq!([left(&others).await, left(&sims).await].concat(), [""; 0]);
}

/// One is silent, and one is held by another until then.
#[tokio::test(start_paused = true)]
async fn a_lock_that_is_freed_during_a_wait_is_taken_beside_a_silent_server() {
    let worlds = worlds();
    let others = sims(&worlds).await;
    for command in [500, 3_000] {
        let mut sims = Vec::new();
        for world in &worlds {
            sims.push(Sim::with(world, |config| config.command_timeout(ms(command))).await);
        }
        let multi = MultiLock::majority(locks(&sims));
        for (wait, freed) in [(100, 20), (150, 60), (1_000, 300), (2_000, 1_200), (5_000, 3_000)] {
            let blocker = others[1].client.lock(LOCK).lock().await.unwrap();
            sims[2].network.fail("acquire", repeat_n(Fault::Silent(ms(command)), 1_000));
            let release = async {
                sleep(ms(freed)).await;
                blocker.unlock().await.unwrap();
            };
            let asking = multi.try_lock().wait(ms(wait)).into_future();
            let asking = ends_within(ms(wait), "try_lock()", asking);
            let (guard, ()) = tokio::join!(asking, release);
            let guard = guard.unwrap();
            guard.unwrap_or_else(|| panic!("{command}, {wait}, {freed}")).unlock().await.unwrap();
            sims[2].network.heal();
            sleep(COMMAND).await;
        }
        assert_eq!([left(&others).await, left(&sims).await].concat(), [""; 0]);
    }
}

/// The third is down, which is known, and the two others are split.
#[tokio::test(start_paused = true)]
async fn a_split_beside_a_server_that_is_down_does_not_last() {
    let worlds = worlds();
    let (others, sims) = (sims(&worlds).await, sims(&worlds).await);
    let multi = MultiLock::majority(locks(&sims));
    is_left_alone(&sims, 2).await;
    hangs(&sims[2]);
    let blocker = others[1].client.lock(LOCK).lock().await.unwrap();
    let answer = ends_within(COMMAND / 3, "try_lock()", multi.try_lock().into_future()).await;
    assert!(matches!(answer, Ok(None)), "{answer:?}");
    blocker.unlock().await.unwrap();
    sims[2].network.heal();
    sleep(COMMAND).await;
    assert_eq!([left(&others).await, left(&sims).await].concat(), [""; 0]);
}

/// A right is missing on two, and the third does not answer.
#[tokio::test(start_paused = true)]
async fn a_majority_that_fails_for_good_awaits_no_silent_server() {
    let sims = sims(&worlds()).await;
    hangs(&sims[0]);
    let refusing = ["one", "two"].map(refusing).into_iter();
    let multi = MultiLock::majority(refusing.chain(locks(&sims[..1])));
    let failed = ends_within(ms(100), "lock()", multi.lock().into_future()).await;
    let Err(Error::Redis(error)) = failed else { panic!("{failed:?}") };
    assert_eq!(error.kind(), RedisErrorKind::NoPermission);
    sims[0].network.heal();
    assert_eq!(left(&sims).await, [""; 0]);
}

/// Its client is closed after it has granted, and before the second has.
#[tokio::test(start_paused = true)]
async fn a_majority_that_was_lost_by_a_closed_client_is_asked_for_again() {
    let worlds = worlds();
    let sims = sims(&worlds).await;
    let multi = MultiLock::majority(locks(&sims));
    sims[1].network.fail("acquire", [Fault::SlowReply(ms(30))]);
    sims[2].network.fail("acquire", [Fault::Silent(COMMAND)]);
    let begun = Instant::now();
    let mut asking = pin!(multi.lock().lease(ms(60_000)).into_future());
    assert!((&mut asking).now_or_never().is_none());
    sleep(ms(15)).await;
    assert!((&mut asking).now_or_never().is_none());
    sims[0].client.close().await.unwrap();
    let guard = asking.await.unwrap();
    assert!(begun.elapsed() < 2 * COMMAND && guard.is_held());
    guard.unlock().await.unwrap();
    assert_eq!(left(&sims[1..]).await, [""; 0]);
}
