//! Requests that are sent more than once count once.

use std::time::Duration;

use futures::FutureExt;
use tokio::time::{Instant, sleep, timeout};

use harness::Access;

use super::{Fault, Sim, World};
use crate::{Config, Error, Loss};

const LOCK: &str = "once";

#[tokio::test(start_paused = true)]
async fn a_hundred_lost_replies_to_acquire_leave_one_hold() {
    let sim = Sim::new(&World::new()).await;
    let lock = sim.client.lock(LOCK);
    for round in 0..100 {
        sim.network.fail("acquire", [Fault::LoseReply]);
        let guard = lock.lock().await.unwrap();
        assert_eq!(sim.holder(LOCK).unwrap().count, 1, "round {round}");
        guard.unlock().await.unwrap();
    }
    assert!(sim.left().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_hundred_lost_replies_to_release_are_a_hundred_releases() {
    let sim = Sim::new(&World::new()).await;
    let lock = sim.client.lock(LOCK);
    for round in 0..100 {
        let guard = lock.lock().await.unwrap();
        sim.network.fail("release", [Fault::LoseReply]);
        let released = guard.unlock().await;
        assert!(released.is_ok(), "round {round}: {released:?}");
        assert!(sim.holder(LOCK).is_none(), "round {round}");
    }
    assert!(sim.left().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_to_a_re_entry_counts_once() {
    let sim = Sim::new(&World::new()).await;
    let lock = sim.client.lock(LOCK);
    let mut me = sim.client.owner();
    let outer = lock.lock().by(&mut me).await.unwrap();
    sim.network.fail("reenter", [Fault::LoseReply, Fault::LoseReply]);
    let inner = lock.lock().by(&mut me).await.unwrap();
    assert_eq!(sim.holder(LOCK).unwrap().count, 2);
    sim.network.fail("release", [Fault::LoseReply]);
    inner.unlock().await.unwrap();
    assert_eq!(sim.holder(LOCK).unwrap().count, 1);
    outer.unlock().await.unwrap();
    assert!(sim.left().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_lands_after_the_release_is_swept_away() {
    let sim = Sim::new(&World::new()).await;
    let late = Duration::from_millis(500);
    sim.network.fail("acquire", [Fault::Linger(late)]);
    let guard = sim.client.lock(LOCK).lock().await.unwrap();
    guard.unlock().await.unwrap();
    sleep(2 * late).await;
    assert!(sim.holder(LOCK).is_some(), "the late copy is what this test is about");
    assert!(sim.left().await.is_empty());
}

/// It stands behind another of its process, and does not ask.
#[tokio::test(start_paused = true)]
async fn a_copy_that_lands_while_its_sender_waits_in_line_is_swept_away() {
    let world = World::new();
    let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
    let (lock, ms) = (sim.client.lock(LOCK), |n| sleep(Duration::from_millis(n)));
    let held = other.client.lock(LOCK).lock().await.unwrap();
    let lease = Duration::from_secs(3_600);
    let first = async { lock.lock().await.unwrap().unlock().await.unwrap() };
    let second = async {
        ms(1).await;
        sim.network.fail("acquire", [Fault::Linger(Duration::from_millis(100))]);
        lock.lock().lease(lease).await.unwrap().unlock().await.unwrap();
    };
    let release = async {
        // The copy comes before anybody who is told of it.
        ms(100).await;
        held.unlock().await.unwrap();
    };
    let all = async { tokio::join!(first, second, release) };
    timeout(Duration::from_secs(10), all).await.expect("nobody holds the lock");
    assert!(sim.left().await.is_empty());
}

/// Another has had the lock since.
#[tokio::test(start_paused = true)]
async fn who_was_told_that_its_lease_ended_is_not_told_that_a_late_copy_was_released() {
    let world = World::new();
    let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
    let ms = Duration::from_millis;
    sim.network.fail("acquire", [Fault::Linger(ms(2_000))]);
    let guard = sim.client.lock(LOCK).lock().lease(ms(1_000)).await.unwrap();
    assert_eq!(guard.lost().await, Loss::Expired);
    world.forget(LOCK);
    other.client.lock(LOCK).lock().await.unwrap().unlock().await.unwrap();
    sleep(ms(1_300)).await;
    assert!(sim.holder(LOCK).is_some(), "the late copy is what this test is about");
    let released = guard.unlock().await;
    assert!(matches!(released, Err(Error::NotHeld { why: Loss::Expired })), "{released:?}");
    assert!(sim.left().await.is_empty());
}

/// Its owner asked for a longer lease, which was not granted.
#[tokio::test(start_paused = true)]
async fn a_lease_that_was_asked_for_in_vain_hides_no_late_copy() {
    let world = World::new();
    let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
    let (ms, mut me) = (Duration::from_millis, sim.client.owner());
    let lock = sim.client.lock(LOCK);
    sim.network.fail("acquire", [Fault::Linger(ms(2_000))]);
    let guard = lock.lock().by(&mut me).lease(ms(1_000)).await.unwrap();
    sim.network.fail("reenter", std::iter::repeat_n(Fault::LoseRequest, 1_000));
    let inner = lock.try_lock().wait(ms(500)).by(&mut me).lease(ms(32_000)).await;
    assert!(matches!(inner, Err(Error::Redis(_))), "{inner:?}");
    assert_eq!(guard.lost().await, Loss::Expired);
    world.forget(LOCK);
    other.client.lock(LOCK).lock().await.unwrap().unlock().await.unwrap();
    sleep(ms(1_300)).await;
    assert!(sim.holder(LOCK).is_some(), "the late copy is what this test is about");
    let released = guard.unlock().await;
    assert!(matches!(released, Err(Error::NotHeld { why: Loss::Expired })), "{released:?}");
    assert!(sim.left().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_lands_after_its_not_after_does_nothing() {
    let sim = Sim::new(&World::new()).await;
    let late = Duration::from_secs(20);
    sim.network.fail("acquire", [Fault::Linger(late)]);
    drop(sim.client.lock(LOCK).lock().await.unwrap());
    sleep(2 * late).await;
    assert!(sim.holder(LOCK).is_none());
    assert!(sim.left().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_was_set_forward_costs_one_more_try() {
    let sim = Sim::new(&World::new()).await;
    let engine = sim.client.engine();
    let clock = |now| engine.transport.time_at(b"", now);
    engine.transport.observe(b"", clock(Instant::now()) - 3_600_000);
    let before = sim.network.calls();
    let guard = sim.client.lock(LOCK).lock().await.unwrap();
    assert_eq!(sim.network.calls() - before, 2);
    guard.unlock().await.unwrap();
    assert!(sim.left().await.is_empty());
}

/// A key whose TTL is longer by that step.
#[tokio::test(start_paused = true)]
async fn a_copy_is_swept_away_though_the_clock_was_set_back() {
    let sim = Sim::new(&World::new()).await;
    let late = Duration::from_millis(500);
    sim.network.fail("acquire", [Fault::Linger(late)]);
    let guard = sim.client.lock(LOCK).lock().await.unwrap();
    guard.unlock().await.unwrap();
    sim.network.set_clock_back(Duration::from_secs(3_600));
    sleep(2 * late).await;
    assert!(sim.holder(LOCK).is_some(), "the late copy is what this test is about");
    assert!(sim.left().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_release_that_finds_nothing_at_its_first_try_says_so() {
    let sim = Sim::new(&World::new()).await;
    let lock = sim.client.lock(LOCK);
    let guard = lock.lock().await.unwrap();
    assert!(lock.force_unlock().await.unwrap());
    let released = guard.unlock().await;
    assert!(matches!(released, Err(Error::NotHeld { why: Loss::Removed })), "{released:?}");
}

/// A copy that leaves a share removes nothing: none of them has done it.
#[tokio::test(start_paused = true)]
async fn a_release_of_a_re_entry_that_finds_nothing_is_a_loss_though_a_reply_is_lost() {
    let world = World::new();
    for lease in [None, Some(Duration::from_secs(600))] {
        let sim = Sim::new(&world).await;
        let lock = sim.client.lock(LOCK);
        let mut me = sim.client.owner();
        let outer = match lease {
            None => lock.lock().by(&mut me).await.unwrap(),
            Some(lease) => lock.lock().by(&mut me).lease(lease).await.unwrap(),
        };
        let inner = match lease {
            None => lock.lock().by(&mut me).await.unwrap(),
            Some(lease) => lock.lock().by(&mut me).lease(lease).await.unwrap(),
        };
        world.forget(LOCK);
        sim.network.fail("release", [Fault::LoseReply]);
        let released = inner.unlock().await;
        assert!(matches!(released, Err(Error::NotHeld { why: Loss::Removed })), "{released:?}");
        assert_eq!(outer.lost().now_or_never(), Some(Loss::Removed), "{lease:?}");
        assert!(sim.left().await.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn unanswered_renewals_are_no_loss_until_trust_is_over() {
    let sim = Sim::new(&World::new()).await;
    let sent = Instant::now();
    let guard = sim.client.lock(LOCK).lock().await.unwrap();
    sim.network.fail("renew", [Fault::LoseReply; 5]);
    sleep(Duration::from_secs(25)).await;
    assert!(guard.is_held());
    sim.network.fail("renew", [Fault::LoseReply; 1000]);
    assert_eq!(guard.lost().await, Loss::Expired);
    assert!(sent.elapsed() > Duration::from_secs(25 + 4), "{:?}", sent.elapsed());
    assert!(sent.elapsed() < Duration::from_secs(25 + 30), "{:?}", sent.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_release_sent_in_time_is_one_though_only_a_late_copy_is_answered() {
    let watchdog = |config: Config| config.watchdog(Duration::from_millis(400));
    let sim = Sim::with(&World::new(), watchdog).await;
    sim.network.fail("renew", [Fault::LoseReply; 100]);
    let guard = sim.client.lock(LOCK).lock().await.unwrap();
    sleep(Duration::from_millis(150)).await;
    // Trust is over before the second one's reply comes.
    let slow = Fault::SlowReply(Duration::from_millis(250));
    sim.network.fail("release", [Fault::LoseReply, slow]);
    let begun = Instant::now();
    let released = guard.unlock().await;
    assert!(released.is_ok(), "{released:?}");
    assert!(begun.elapsed() > Duration::from_millis(250), "{:?}", begun.elapsed());
    assert!(sim.left().await.is_empty());
}

/// Whoever freed it, there was nobody to tell its holder.
#[tokio::test(start_paused = true)]
async fn a_release_whose_answer_is_lost_is_not_taken_for_one_unless_a_renewal_would_have_told() {
    let sim = Sim::new(&World::new()).await;
    let lock = sim.client.lock(LOCK);
    let long = Duration::from_secs(60);
    for removed in [false, true] {
        // Nobody renews the one, and the other was renewed too long ago.
        let leased = lock.lock().lease(long).await.unwrap();
        sim.network.fail("renew", [Fault::LoseReply; 1000]);
        let unseen = sim.client.lock("unseen").lock().await.unwrap();
        sleep(Duration::from_secs(20)).await;
        sim.network.heal();
        for (guard, name) in [(leased, LOCK), (unseen, "unseen")] {
            if removed {
                sim.world.forget(name);
            }
            sim.network.fail("release", [Fault::LoseReply]);
            let released = guard.unlock().await;
            assert!(
                matches!(released, Err(Error::NotHeld { why: Loss::Unknown })),
                "{name}, removed: {removed}: {released:?}"
            );
        }
        // With an answer it is known.
        let leased = lock.lock().lease(long).await.unwrap();
        if removed {
            sim.world.forget(LOCK);
        }
        let released = leased.unlock().await;
        let expected = match removed {
            true => matches!(released, Err(Error::NotHeld { why: Loss::Removed })),
            false => released.is_ok(),
        };
        assert!(expected, "removed: {removed}: {released:?}");
    }
    assert!(sim.left().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_impatient_waiter_that_has_no_answer_does_not_speak_for_those_behind() {
    let world = World::new();
    let (holder, sim) = (Sim::new(&world).await, Sim::new(&world).await);
    let held = holder.client.lock(LOCK).lock().await.unwrap();
    let lock = sim.client.lock(LOCK);
    let impatient = async { lock.try_lock().wait(Duration::from_millis(60)).await };
    let patient = async {
        sleep(Duration::from_millis(10)).await;
        sim.network.fail("acquire", [Fault::LoseReply; 20]);
        lock.lock().await
    };
    let release = async {
        sleep(Duration::from_millis(200)).await;
        held.unlock().await.unwrap();
    };
    let (impatient, patient, ()) = tokio::join!(impatient, patient, release);
    assert!(matches!(impatient, Err(Error::Redis(_))), "{impatient:?}");
    patient.unwrap().unlock().await.unwrap();
    assert!(sim.left().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_re_entry_that_is_granted_when_trust_is_over_is_none() {
    let sim = Sim::new(&World::new()).await;
    let lock = sim.client.lock(LOCK);
    let mut me = sim.client.owner();
    let outer = lock.lock().by(&mut me).lease(Duration::from_millis(50)).await.unwrap();
    // Sent in time, answered too late; the holder is told in between.
    sleep(Duration::from_millis(39)).await;
    let (told, inner) = tokio::join!(outer.lost(), lock.lock().by(&mut me).into_future());
    assert_eq!(told, Loss::Expired);
    assert!(matches!(inner, Err(Error::NotHeld { why: Loss::Expired })), "{inner:?}");
    drop(outer);
    assert!(sim.left().await.is_empty());
}

/// Until the write is gone from the key, nobody else may read.
#[tokio::test(start_paused = true)]
async fn a_write_is_given_back_for_as_long_as_a_read_under_it_keeps_the_key_alive() {
    let sim = Sim::new(&World::new()).await;
    let lock = sim.client.read_write_lock(LOCK);
    let mut me = sim.client.owner();
    let writing = lock.write().by(&mut me).lease(Duration::from_secs(1)).await.unwrap();
    let reading = lock.read().by(&mut me).await.unwrap();
    let begun = Instant::now();
    sim.network.fail("write/release", [Fault::LoseRequest; 40]);
    drop(writing);
    while sim.holders(LOCK).iter().any(|holder| holder.access == Access::Write) {
        sleep(Duration::from_millis(100)).await;
        assert!(begun.elapsed() < Duration::from_secs(120), "nobody gives the write back");
    }
    assert!(begun.elapsed() > Duration::from_secs(4), "{:?}", begun.elapsed());
    reading.unlock().await.unwrap();
    assert!(sim.left().await.is_empty());
}
