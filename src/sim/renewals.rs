//! The watchdog, over minutes and over many holds.

use std::{iter::repeat_n, pin::pin, time::Duration};

use futures::{FutureExt, future::join_all};
use tokio::time::{Instant, sleep};

use super::{Fault, LOCK, Sim, World, ends::Ends};
use crate::{
    error::{Error, Loss},
    observer::HoldEnd,
};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn many_holds_are_renewed_in_time_and_many_in_a_call() {
    let sim = Sim::new(&World::new()).await;
    let mut guards = Vec::new();
    for i in 0..600 {
        guards.push(sim.client.lock(format!("many:{i}")).lock().await.unwrap());
        sleep(SECOND / 30).await;
    }
    let calls = sim.network.calls();
    for _ in 0..300 {
        assert!(guards.iter().all(|guard| guard.is_held()));
        sleep(SECOND).await;
    }
    // Each hold every 9 to 10 s, 0.25 s later at most, or in company up to 2 s sooner: 17 600 to 25 700
    // renewals.
    let calls = sim.network.calls() - calls;
    assert!((170..=400).contains(&calls), "{calls}");
    drop(guards);
    assert!(sim.left().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_nobody_renewed_is_renewed_from_when_somebody_wants_it() {
    let sim = Sim::new(&World::new()).await;
    let lock = sim.client.lock(LOCK);
    let mut me = sim.client.owner();
    let outer = lock.lock().by(&mut me).lease(32 * SECOND).await.unwrap();
    // It is known by now to the watchdog, as one that is not renewed.
    sleep(5 * SECOND).await;
    let calls = sim.network.calls();
    let inner = lock.lock().by(&mut me).await.unwrap();
    // A third of the watchdog's 30 s later, and not at once.
    sleep(5 * SECOND).await;
    assert_eq!(sim.network.calls(), calls + 1, "the re-entry alone");
    sleep(195 * SECOND).await;
    assert!(outer.is_held() && inner.is_held());
    inner.unlock().await.unwrap();
    sleep(60 * SECOND).await;
    assert_eq!(outer.lost().await, Loss::Expired);
}

/// Also where a renewal is due every 200 s only.
#[tokio::test(start_paused = true)]
async fn a_renewal_without_an_answer_is_sent_again_within_2_s() {
    let sim = Sim::with(&World::new(), |config| config.watchdog(600 * SECOND)).await;
    let guard = sim.client.lock(LOCK).lock().await.unwrap();
    sim.network.fail("renew", repeat_n(Fault::LoseReply, 5));
    let calls = sim.network.calls();
    while sim.network.calls() == calls {
        sleep(SECOND / 10).await;
    }
    // With the watchdog's ticks of 0.25 s.
    sleep(12 * SECOND).await;
    assert!(sim.network.calls() >= calls + 6, "{} calls", sim.network.calls() - calls);
    guard.unlock().await.unwrap();
    assert!(sim.left().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_goes_to_one_who_wants_it_renewed_is_renewed_in_time() {
    let sim = Sim::new(&World::new()).await;
    let lock = sim.client.lock(LOCK);
    let first = lock.lock().lease(30 * SECOND).await.unwrap();
    // It is looked at every 10 s.
    sleep(11 * SECOND).await;
    let second = lock.lock().into_future();
    let (second, released) = tokio::join!(second, first.unlock());
    released.unwrap();
    let second = second.unwrap();
    for _ in 0..60 {
        assert!(second.remaining() > 18 * SECOND, "{:?}", second.remaining());
        sleep(SECOND).await;
    }
    second.unlock().await.unwrap();
    assert!(sim.left().await.is_empty());
}

/// The hold itself goes on: the server is asked, and nothing is released.
#[tokio::test(start_paused = true)]
async fn a_hold_that_is_adopted_by_one_who_wants_it_renewed_is_renewed_in_time() {
    let sim = Sim::new(&World::new()).await;
    let lock = sim.client.lock(LOCK);
    // Granted shortly before a tick of the watchdog, which then knows it.
    sleep(SECOND / 4 - SECOND / 100).await;
    let first = lock.lock().lease(16 * SECOND).await.unwrap();
    let (id, granted) = (first.holder().to_owned(), Instant::now());
    sleep(SECOND / 50).await;
    assert_eq!(sim.client.engine().watchdog.held_long().len(), 1);
    let (second, released) = tokio::join!(lock.lock().into_future(), first.unlock());
    released.unwrap();
    let second = second.unwrap();
    assert_eq!(second.holder(), id, "after {:?} it is adopted", granted.elapsed());
    for _ in 0..60 {
        sleep(SECOND).await;
        assert!(second.remaining() > 18 * SECOND, "{:?}", second.remaining());
    }
    second.unlock().await.unwrap();
    assert!(sim.left().await.is_empty());
}

/// Its caller was told that it is released, and the next one has it.
#[tokio::test(start_paused = true)]
async fn a_renewal_that_a_swap_overtakes_tells_of_no_loss() {
    let ends = Ends::default();
    let ms = Duration::from_millis;
    let sim = Sim::with(&World::new(), |config| config.observer(ends.clone())).await;
    let lock = sim.client.lock(LOCK);
    // The second caller wants it renewed: the next tick of the watchdog does so.
    sleep(SECOND / 4 - ms(18)).await;
    let first = lock.lock().lease(16 * SECOND).await.unwrap();
    let (second, released) = tokio::join!(lock.lock().into_future(), first.unlock());
    released.unwrap();
    let second = second.unwrap();
    sim.network.fail("renew", [Fault::SlowRequest(ms(20))]);
    sim.network.fail("swap", [Fault::SlowReply(ms(60))]);
    let calls = sim.network.calls();
    while sim.network.calls() == calls {
        sleep(ms(1)).await;
    }
    let mut me = sim.client.owner();
    let (third, released) = tokio::join!(lock.lock().by(&mut me).into_future(), second.unlock());
    released.unwrap();
    let third = third.unwrap();
    assert_eq!(ends.so_far(), [HoldEnd::HandedOff, HoldEnd::HandedOff]);
    third.unlock().await.unwrap();
    assert!(sim.left().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_closed_tells_those_whose_renewal_is_under_way_too() {
    let world = World::new();
    let before = Duration::from_millis(9_900);
    for after in (0..500).step_by(7) {
        let sim = Sim::new(&world).await;
        sim.network.fail("renew", [Fault::SlowReply(SECOND / 10); 100]);
        let take = async |i| sim.client.lock(format!("many:{i}")).lock().await.unwrap();
        let guards = join_all((0..10).map(take)).await;
        sleep(before + Duration::from_millis(after)).await;
        sim.client.close().await.unwrap();
        for guard in &guards {
            assert_eq!(guard.lost().await, Loss::Closed, "after {after} ms");
        }
        drop(guards);
        (0..10).for_each(|i| world.forget(&format!("many:{i}")));
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_released_is_forgotten_long_before_its_lease_would_have_ended() {
    let sim = Sim::new(&World::new()).await;
    let take = async |i| {
        sim.client.lock(format!("many:{i}")).lock().lease(100_000 * SECOND).await.unwrap()
    };
    let guards = join_all((0..100).map(take)).await;
    sleep(SECOND).await;
    assert_eq!(sim.client.engine().watchdog.known(), 100);
    drop(guards);
    sleep(11 * SECOND).await;
    assert_eq!(sim.client.engine().watchdog.known(), 0);
    assert!(sim.left().await.is_empty());
}

/// Behind others, whose answers come late or not at all.
#[tokio::test(start_paused = true)]
async fn no_renewal_is_sent_for_holds_that_were_lost_while_it_waited() {
    for answers_after in [600 * SECOND, 12 * SECOND / 5] {
        let sim = Sim::new(&World::new()).await;
        let take = async |i| sim.client.lock(format!("many:{i}")).lock().await.unwrap();
        let guards = join_all((0..4_000).map(take)).await;
        sim.network.fail("renew", repeat_n(Fault::LoseRequest, 10_000));
        sleep(28 * SECOND).await;
        sim.network.heal();
        sim.network.fail("renew", repeat_n(Fault::SlowReply(answers_after), 10_000));
        sleep(2 * SECOND).await;
        assert!(guards.iter().all(|guard| !guard.is_held()));
        let calls = sim.network.calls();
        sleep(120 * SECOND).await;
        assert_eq!(sim.network.calls(), calls);
        drop(guards);
        assert!(sim.left().await.is_empty());
    }
}

/// It was under way when the lease ended. Nobody polled it.
#[tokio::test(start_paused = true)]
async fn an_answer_from_before_the_end_of_the_lease_says_nothing_after_it() {
    let sim = Sim::new(&World::new()).await;
    let guard = sim.client.lock(LOCK).lock().lease(SECOND).await.unwrap();
    let mut check = pin!(guard.check());
    assert!((&mut check).now_or_never().is_none());
    sleep(2 * SECOND).await;
    let checked = check.now_or_never().expect("an answer");
    assert!(matches!(checked, Err(Error::NotHeld { why: Loss::Expired })), "{checked:?}");
}

/// Its pipe is closed, for example.
struct Panics;

impl tracing::Subscriber for Panics {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn event(&self, _: &tracing::Event<'_>) {
        panic!("nobody reads the log");
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {
        panic!("nobody reads the log");
    }

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[tokio::test(start_paused = true)]
async fn a_log_that_panics_costs_no_hold() {
    let _here = tracing::subscriber::set_default(Panics);
    tracing::callsite::rebuild_interest_cache();
    let sim = Sim::new(&World::new()).await;
    let held = sim.client.lock("held").lock().await.unwrap();
    let short = sim.client.lock(LOCK).lock().lease(SECOND).await.unwrap();
    sim.network.fail("renew", [Fault::LoseRequest]);
    sleep(100 * SECOND).await;
    assert!(held.is_held() && !short.is_held());
    held.unlock().await.unwrap();
}
