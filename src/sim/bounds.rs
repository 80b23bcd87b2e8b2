//! How long a call takes whose parts need an answer of the server one after another: one bound, that of
//! the call.

use std::{fmt::Debug, iter::repeat_n, time::Duration};

use futures::future::join;
use tokio::time::{Instant, sleep, timeout};

use super::{Fault, KINDS, Kind, LOCK, Sim, World, ms};
use crate::{Error, Owner};

/// The default of `Config::command_timeout`.
pub(super) const COMMAND: Duration = Duration::from_secs(3);

/// The default of `Config::retry_timeout`.
pub(super) const RETRIES: Duration = Duration::from_secs(10);

/// What the ways over the network may add.
const WAYS: Duration = Duration::from_millis(50);

/// From now on the server answers nothing.
pub(super) fn outage(sim: &Sim) {
    sim.network.fail("", repeat_n(Fault::Silent(COMMAND), 500));
}

/// From now on this server answers nobody who wants the lock.
pub(super) fn hangs(sim: &Sim) {
    sim.network.fail("acquire", repeat_n(Fault::Silent(COMMAND), 1_000));
}

/// The answer of a call that must end within this time, and does so by itself.
pub(super) async fn ends_within<T: Debug>(
    bound: Duration,
    what: &str,
    call: impl Future<Output = T>,
) -> T {
    let begun = Instant::now();
    let answer = timeout(10 * RETRIES, call).await.unwrap_or_else(|_| panic!("{what}: no end"));
    let took = begun.elapsed();
    assert!(took <= bound + WAYS, "{what}: took {took:?} of {bound:?}: {answer:?}");
    answer
}

pub(super) fn assert_timed_out<T: Debug>(answer: Result<T, Error>) {
    assert!(matches!(answer, Err(Error::Redis(_))), "{answer:?}");
}

/// A hold of the owner that is being released while the server does not answer.
async fn being_released(sim: &Sim, me: &mut Owner) {
    let held = sim.client.lock(LOCK).lock().by(me).await.unwrap();
    outage(sim);
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn an_owner_waits_for_its_failing_release_and_for_its_own_request_within_one_bound() {
    let world = World::new();
    for lead in [0, 1, 100, 2_999, 3_001, 9_000, 9_990, 9_999].map(ms) {
        let sim = Sim::new(&world).await;
        let lock = sim.client.lock(LOCK);
        let mut me = sim.client.owner();
        being_released(&sim, &mut me).await;
        sleep(lead).await;
        let what = format!("lock(), {lead:?} after the drop");
        assert_timed_out(ends_within(RETRIES, &what, lock.lock().by(&mut me).into_future()).await);
        sim.network.heal();
        assert!(sim.left().await.is_empty());
    }
    for (lead, wait) in
        [0, 2_999, 9_000, 9_990].into_iter().flat_map(|lead| [(lead, 0), (lead, 500)])
    {
        let sim = Sim::new(&world).await;
        let lock = sim.client.lock(LOCK);
        let mut me = sim.client.owner();
        being_released(&sim, &mut me).await;
        sleep(ms(lead)).await;
        let what = format!("try_lock() of {wait} ms, {lead} ms after the drop");
        let asking = lock.try_lock().wait(ms(wait)).by(&mut me).into_future();
        assert_timed_out(ends_within(ms(wait) + COMMAND, &what, asking).await);
        sim.network.heal();
        assert!(sim.left().await.is_empty());
    }
}

/// The side of the reader has requests of its own, which may overtake the release of the writer.
#[tokio::test(start_paused = true)]
async fn an_owner_that_waits_little_reads_after_a_slow_release_of_its_own_write() {
    let world = World::new();
    for (wait, slow) in [(0, 500), (1, 500), (1, 2_500), (700, 1_500)] {
        let sim = Sim::new(&world).await;
        let files = sim.client.read_write_lock(LOCK);
        let mut me = sim.client.owner();
        let writes = files.write().by(&mut me).await.unwrap();
        sim.network.fail("write/release", [Fault::SlowRequest(ms(slow))]);
        drop(writes);
        let what = format!("try_read() of {wait} ms, the release takes {slow} ms");
        let reading = files.try_read().wait(ms(wait)).by(&mut me).into_future();
        let reads = ends_within(ms(wait) + COMMAND, &what, reading).await.unwrap();
        reads.unwrap_or_else(|| panic!("{what}: busy")).unlock().await.unwrap();
        assert!(sim.left().await.is_empty());
    }
}

/// The owner's hold is gone, which only the server knows.
#[tokio::test(start_paused = true)]
async fn an_owner_that_has_to_ask_for_its_hold_before_it_asks_for_the_lock_has_one_bound() {
    let world = World::new();
    for wait in [0, 1, 500] {
        let sim = Sim::new(&world).await;
        let lock = sim.client.non_reentrant_lock(LOCK);
        let mut me = sim.client.owner();
        let lost = lock.lock().by(&mut me).await.unwrap();
        world.forget(LOCK);
        let slow = Fault::SlowReply(COMMAND - ms(20));
        sim.network.fail("inspect", [slow]);
        sim.network.fail("acquire", [slow]);
        let what = format!("try_lock() of {wait} ms");
        let asking = lock.try_lock().wait(ms(wait)).by(&mut me).into_future();
        assert_timed_out(ends_within(ms(wait) + COMMAND, &what, asking).await);
        assert!(lost.unlock().await.is_err());
        assert!(sim.left().await.is_empty());
    }
}

/// Its write hold is being released, and it still reads.
#[tokio::test(start_paused = true)]
async fn an_owner_that_waits_for_one_hold_and_asks_for_another_has_one_bound() {
    let world = World::new();
    for wait in [0, 1, 500] {
        let sim = Sim::new(&world).await;
        let both = sim.client.read_write_lock(LOCK);
        let mut me = sim.client.owner();
        let writes = both.write().by(&mut me).await.unwrap();
        let reads = both.read().by(&mut me).await.unwrap();
        let slow = Fault::SlowReply(COMMAND - ms(20));
        sim.network.fail("write/release", [slow]);
        sim.network.fail("inspect", [Fault::SlowReply(2 * COMMAND)]);
        drop(writes);
        let what = format!("try_write() of {wait} ms");
        let lock = both.write_lock();
        let asking = lock.try_lock().wait(ms(wait)).by(&mut me).into_future();
        let answer = ends_within(ms(wait) + COMMAND, &what, asking).await;
        assert!(matches!(answer, Err(Error::Redis(_))), "{answer:?}");
        reads.unlock().await.unwrap();
        assert!(sim.left().await.is_empty());
    }
}

/// The head has no answer, and is dropped when the time of the one behind it is nearly over.
#[tokio::test(start_paused = true)]
async fn one_whose_wait_is_over_asks_within_the_time_that_is_left() {
    let world = World::new();
    let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
    let lock = sim.client.lock(LOCK);
    let held = other.client.lock(LOCK).lock().await.unwrap();
    let mut head = lock.lock().into_future();
    assert!(timeout(ms(500), &mut head).await.is_err());
    // It has to ask when the message comes, and hears nothing.
    sim.network.fail("acquire", repeat_n(Fault::Silent(3 * COMMAND), 2));
    let wait = ms(500);
    let behind = lock.clone();
    let behind = tokio::spawn(async move {
        let asking = behind.try_lock().wait(wait).into_future();
        ends_within(wait + COMMAND, "try_lock()", asking).await
    });
    sleep(ms(10)).await;
    held.unlock().await.unwrap();
    assert!(timeout(wait + COMMAND - ms(100), &mut head).await.is_err());
    drop(head);
    assert_timed_out(behind.await.unwrap());
    sim.network.heal();
    assert!(sim.left().await.is_empty());
}

/// A request that is under way when the wait ends decides, though there is news meanwhile.
#[tokio::test(start_paused = true)]
async fn one_that_is_answered_after_its_wait_does_not_ask_again() {
    let world = World::new();
    let wait = ms(500);
    for Kind { name, lock, blocker } in KINDS {
        for asks_once in [false, true] {
            let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
            let held = blocker(&other.client).lock().await.unwrap();
            let slow = repeat_n(Fault::SlowReply(COMMAND - ms(20)), 10);
            if asks_once {
                sim.network.fail("acquire", slow);
            } else {
                let network = sim.network.clone();
                tokio::spawn(async move {
                    sleep(wait - ms(20)).await;
                    network.fail("acquire", slow);
                    for _ in 0..5 {
                        network.miss();
                        sleep(ms(500)).await;
                    }
                });
            }
            let asking = lock(&sim.client).try_lock().wait(wait).into_future();
            let answer = ends_within(wait + COMMAND, name, asking).await;
            assert!(matches!(answer, Ok(None)), "{name}: {answer:?}");
            held.unlock().await.unwrap();
            sim.network.heal();
            assert!(sim.left().await.is_empty(), "{name}");
        }
    }
}

/// The hold that a local caller leaves is gone, which it is told after its wait.
#[tokio::test(start_paused = true)]
async fn one_whose_offer_was_gone_asks_within_the_time_that_is_left() {
    let world = World::new();
    // One that is held for longer is not left to local callers.
    let wait = ms(30);
    let sim = Sim::new(&world).await;
    let lock = sim.client.lock(LOCK);
    let mut me = sim.client.owner();
    let held = lock.lock().await.unwrap();
    // An owner's hold has an id of its own, so it has to be swapped.
    let asking = lock.try_lock().wait(wait).by(&mut me).into_future();
    let leaves = async {
        sleep(wait - ms(10)).await;
        sim.network.fail("swap", [Fault::SlowRequest(COMMAND - ms(20))]);
        sim.network.fail("acquire", [Fault::SlowReply(COMMAND - ms(20))]);
        held.unlock().await.unwrap();
        sleep(ms(20)).await;
        world.forget(LOCK);
    };
    let (answer, ()) = join(ends_within(wait + COMMAND, "try_lock()", asking), leaves).await;
    assert_timed_out(answer);
    sim.network.heal();
    assert!(sim.left().await.is_empty());
}
