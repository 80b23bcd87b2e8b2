//! Questions to a holder: futures, guards and messages that are cut off at each ms.

use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::{Fault, KINDS, LOCK, Sim, World, ms};
use crate::LockGuard;

/// The key of the questions, and their channel.
const QUESTIONS: &str = "redisson_lock_asked:{cut}";

/// Longer than subscribing and reading takes.
const MOMENTS: u64 = 25;

/// When a question is heard for certain: at the second look.
const HEARD: Duration = Duration::from_secs(15);

async fn hears(guard: &LockGuard, what: &str) {
    let heard = timeout(HEARD, guard.asked_to_release()).await;
    assert!(heard.is_ok(), "{what}: not heard");
    assert!(guard.is_asked_to_release());
}

/// Ends the hold. Nothing is left, but for the question.
async fn end(sim: &Sim, guard: LockGuard) {
    guard.unlock().await.unwrap();
    sim.world.forget(QUESTIONS);
    assert_eq!(sim.left().await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_question_at_any_ms_is_heard_by_a_holder_that_begins_to_listen() {
    let world = World::new();
    for kind in KINDS {
        for moment in 0..MOMENTS {
            let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
            let guard = (kind.lock)(&sim.client).lock().await.unwrap();
            let ask = async {
                sleep(ms(moment)).await;
                (kind.lock)(&other.client).ask_to_release().await.unwrap();
            };
            let what = format!("{} at {moment} ms", kind.name);
            let at_once = timeout(ms(200), guard.asked_to_release());
            let (heard, ()) = tokio::join!(at_once, ask);
            // The subscription is there before the key is read, so no second look is needed.
            assert!(heard.is_ok(), "{what}: not heard at once");
            end(&sim, guard).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_future_that_is_dropped_at_any_ms_takes_no_question_with_it() {
    let world = World::new();
    for moment in 0..MOMENTS {
        for asked_at in [0, 6, 12] {
            let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
            let guard = sim.client.lock(LOCK).lock().await.unwrap();
            let ask = async {
                sleep(ms(asked_at)).await;
                other.client.lock(LOCK).ask_to_release().await.unwrap();
            };
            let dropped = timeout(ms(moment), guard.asked_to_release());
            let _ = tokio::join!(dropped, ask);
            hears(&guard, &format!("asked at {asked_at} ms, dropped at {moment} ms")).await;
            end(&sim, guard).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_guard_that_ends_at_any_ms_of_its_listening_leaves_nothing() {
    let world = World::new();
    for moment in 0..MOMENTS {
        for asked in [false, true] {
            let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
            let guard = sim.client.lock(LOCK).lock().await.unwrap();
            assert!(!guard.is_asked_to_release());
            if asked {
                other.client.lock(LOCK).ask_to_release().await.unwrap();
            }
            sleep(ms(moment)).await;
            end(&sim, guard).await;
        }
    }
}

/// The message is lost with the subscription. The client notices a while later, or never.
#[tokio::test(start_paused = true)]
async fn a_question_whose_message_is_lost_is_heard_after_the_gap_or_at_the_second_look() {
    let world = World::new();
    for gap in (0..MOMENTS).map(Some).chain([None]) {
        let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
        let guard = sim.client.lock(LOCK).lock().await.unwrap();
        assert!(timeout(ms(100), guard.asked_to_release()).await.is_err());
        sim.network.lose_messages();
        let cut = async {
            let Some(gap) = gap else { return };
            sleep(ms(gap)).await;
            sim.network.miss();
        };
        let lock = other.client.lock(LOCK);
        let heard = async {
            let within = if gap.is_some() { ms(500) } else { HEARD };
            timeout(within, guard.asked_to_release()).await
        };
        let (heard, asked, ()) = tokio::join!(heard, lock.ask_to_release(), cut);
        assert!(heard.is_ok(), "gap at {gap:?} ms: not heard, {asked:?}");
        end(&sim, guard).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_lost_on_the_way_is_asked_for_again() {
    let world = World::new();
    let faults = [
        vec![Fault::LoseReply; 3],
        vec![Fault::LoseRequest; 3],
        vec![Fault::Silent(ms(2_000)); 2],
        vec![Fault::SlowReply(ms(700))],
    ];
    for faults in faults {
        for before in [false, true] {
            let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
            let guard = sim.client.lock(LOCK).lock().await.unwrap();
            let lock = other.client.lock(LOCK);
            if before {
                lock.ask_to_release().await.unwrap();
            }
            sim.network.fail("asking/asked", faults.clone());
            assert!(!guard.is_asked_to_release());
            if !before {
                sleep(ms(20)).await;
                lock.ask_to_release().await.unwrap();
            }
            hears(&guard, "faults").await;
            sim.network.heal();
            end(&sim, guard).await;
        }
    }
}

/// The question is asked or it is not. In both cases it can be asked again.
#[tokio::test(start_paused = true)]
async fn who_asks_may_stop_at_any_ms() {
    let world = World::new();
    for moment in 0..MOMENTS {
        let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
        let guard = sim.client.lock(LOCK).lock().await.unwrap();
        let lock = other.client.lock(LOCK);
        let asked = timeout(ms(moment), lock.ask_to_release()).await;
        sleep(ms(20)).await;
        let asked_before = timeout(HEARD, guard.asked_to_release()).await.is_ok();
        assert!(asked_before || asked.is_err(), "{moment} ms: {asked:?}");
        lock.ask_to_release().await.unwrap();
        hears(&guard, &format!("{moment} ms")).await;
        end(&sim, guard).await;
        assert_eq!(other.left().await, [""; 0]);
    }
}
