//! What an observer is told of a release that goes on in the background.

use std::time::Duration;

use futures::FutureExt;
use tokio::time::{sleep, timeout};

use super::{Fault, LOCK, Sim, World, ends::Ends, ms};
use crate::{Error, Loss, observer::HoldEnd};

/// Somebody frees the lock by force while the server is away for its holder.
#[tokio::test(start_paused = true)]
async fn one_that_finds_nothing_is_a_loss() {
    let (world, ends) = (World::new(), Ends::default());
    let sim = Sim::with(&world, |config| config.observer(ends.clone())).await;
    let other = Sim::new(&world).await;
    let guard = sim.client.lock(LOCK).lock().lease(Duration::from_secs(600)).await.unwrap();
    sim.network.cut_off(Some(LOCK.to_owned()));
    let released = guard.unlock().await;
    assert!(matches!(released, Err(Error::Redis(_))), "{released:?}");
    assert!(other.client.lock(LOCK).force_unlock().await.unwrap());
    assert!(ends.so_far().is_empty(), "nobody has heard yet");
    sim.network.cut_off(None);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(ends.so_far(), [HoldEnd::Lost(Loss::Unknown)]);
    assert!(sim.left().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn one_that_finds_the_hold_is_a_release() {
    let ends = Ends::default();
    let sim = Sim::with(&World::new(), |config| config.observer(ends.clone())).await;
    let guard = sim.client.lock(LOCK).lock().lease(Duration::from_secs(600)).await.unwrap();
    sim.network.cut_off(Some(LOCK.to_owned()));
    assert!(matches!(guard.unlock().await, Err(Error::Redis(_))));
    sim.network.cut_off(None);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(ends.so_far(), [HoldEnd::Released]);
    assert!(sim.holder(LOCK).is_none());
    assert!(sim.left().await.is_empty());
}

/// A waiter swaps the hold, and is dropped before it hears of that.
#[tokio::test(start_paused = true)]
async fn a_turn_ends_when_the_hold_that_replaced_its_own_is_gone() {
    let ends = Ends::default();
    let sim = Sim::with(&World::new(), |config| config.observer(ends.clone())).await;
    let lock = sim.client.lock(LOCK);
    let held = lock.lock().await.unwrap();
    let mut me = sim.client.owner();
    let mut waiting = Box::pin(lock.lock().by(&mut me).into_future());
    assert!(timeout(ms(20), &mut waiting).await.is_err());
    sim.network.fail("swap", [Fault::SlowReply(ms(50))]);
    held.unlock().await.unwrap();
    assert!((&mut waiting).now_or_never().is_none());
    sim.network.fail("release", [Fault::SlowRequest(ms(500))]);
    drop(waiting);
    sleep(ms(300)).await;
    assert_eq!((ends.so_far(), sim.holder(LOCK).is_some()), (vec![], true));
    sleep(ms(1_000)).await;
    assert_eq!((ends.so_far(), sim.holder(LOCK).is_some()), (vec![HoldEnd::Released], false));
    assert!(sim.left().await.is_empty());
}

/// It would adopt the hold. Its last caller has released it, and was told so.
#[tokio::test(start_paused = true)]
async fn one_that_a_waiter_was_left_is_no_loss_when_nobody_polls_that_waiter() {
    let (world, ends) = (World::new(), Ends::default());
    let sim = Sim::with(&world, |config| config.observer(ends.clone())).await;
    let lock = sim.client.lock(LOCK);
    let held = lock.lock().await.unwrap();
    let mut waiting = Box::pin(lock.lock().into_future());
    assert!(timeout(ms(20), &mut waiting).await.is_err());
    held.unlock().await.unwrap();
    world.forget(LOCK);
    sleep(ms(5_000)).await;
    assert_eq!(ends.so_far(), [HoldEnd::ReleaseGivenUp]);
    waiting.await.unwrap().unlock().await.unwrap();
    assert!(sim.left().await.is_empty());
}

/// A waiter that was to swap the hold is dropped while the server is away.
#[tokio::test(start_paused = true)]
async fn one_that_nobody_confirmed_is_none_though_another_hold_may_have_replaced_its_own() {
    // The last time the swap has run, and the server comes back when the call is over.
    for (swap, away) in [
        (Fault::Silent(ms(500)), None),
        (Fault::Silent(ms(500)), Some(ms(2_000))),
        (Fault::LoseReply, Some(ms(15_000))),
    ] {
        let ends = Ends::default();
        let sim = Sim::with(&World::new(), |config| config.observer(ends.clone())).await;
        let lock = sim.client.lock(LOCK);
        let held = lock.lock().await.unwrap();
        let mut me = sim.client.owner();
        let mut waiting = Box::pin(lock.lock().by(&mut me).into_future());
        assert!(timeout(ms(20), &mut waiting).await.is_err());
        held.unlock().await.unwrap();
        sim.network.fail("swap", [swap]);
        assert!((&mut waiting).now_or_never().is_none());
        // It is on its way, or done.
        sleep(ms(4)).await;
        sim.network.cut_off(Some(LOCK.to_owned()));
        drop(waiting);
        sleep(away.unwrap_or(ms(2_000))).await;
        assert!(ends.so_far().is_empty(), "nobody has heard yet");
        if away.is_some() {
            sim.network.cut_off(None);
        }
        sleep(Duration::from_secs(60)).await;
        let end = away.map_or(HoldEnd::ReleaseGivenUp, |_| HoldEnd::Released);
        assert_eq!(ends.so_far(), [end], "{swap:?} {away:?}");
        sim.network.cut_off(None);
    }
}

/// What its inner release did not reach is lowered by the next one.
#[tokio::test(start_paused = true)]
async fn one_of_an_inner_guard_that_nobody_answers_keeps_the_outer_guard() {
    let sim = Sim::new(&World::new()).await;
    let lock = sim.client.lock(LOCK);
    let mut me = sim.client.owner();
    let outer = lock.lock().by(&mut me).await.unwrap();
    let inner = lock.lock().by(&mut me).await.unwrap();
    sim.network.cut_off(Some(LOCK.to_owned()));
    let released = inner.unlock().await;
    assert!(matches!(released, Err(Error::Redis(_))), "{released:?}");
    sim.network.cut_off(None);
    sleep(Duration::from_secs(5)).await;
    assert!(sim.holder(LOCK).is_some(), "the lock was released");
    outer.check().await.unwrap();
    outer.unlock().await.unwrap();
    assert!(sim.left().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn one_that_is_answered_is_sent_once() {
    let sim = Sim::new(&World::new()).await;
    let lock = sim.client.lock(LOCK);
    let mut me = sim.client.owner();
    let outer = lock.lock().by(&mut me).await.unwrap();
    let inner = lock.lock().by(&mut me).await.unwrap();
    let calls = sim.network.calls();
    inner.unlock().await.unwrap();
    outer.unlock().await.unwrap();
    assert!(sim.left().await.is_empty());
    assert_eq!(sim.network.calls() - calls, 2);
}
