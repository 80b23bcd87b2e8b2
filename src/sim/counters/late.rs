//! Copies that run after another copy of the same request was answered.

use std::time::Duration;

use futures::future::join_all;
use tokio::time::{Instant, sleep, timeout};

use super::{NAME, REQUESTS, ms};
use crate::{
    Config,
    sim::{Fault, ONE_WAY, Sim, World},
};

/// Longer than the sender waits before it sends the next copy, shorter than a copy is of use.
const LATE: Duration = Duration::from_secs(2);

/// The caller was told that 6 permits were taken. Those that came later are not its own.
#[tokio::test(start_paused = true)]
async fn a_drain_takes_nothing_after_its_answer() {
    let world = World::new();
    let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
    assert!(other.pool().try_set(5).await.unwrap());
    sim.network.fail("semaphore/drain", [Fault::Linger(LATE)]);
    let (pool, others) = (sim.pool(), other.pool());
    let release = async {
        // After the number was read, before the second copy.
        sleep(ms(8)).await;
        others.release(1).await.unwrap();
    };
    let (drained, ()) = tokio::join!(pool.drain(), release);
    assert_eq!(drained.unwrap(), 6);
    others.release(5).await.unwrap();
    sleep(2 * LATE).await;
    assert_eq!(sim.value(), Some(5), "permits are lost");
}

/// The count-down met no latch, and its caller knows. A latch that is set later is another one.
#[tokio::test(start_paused = true)]
async fn a_count_down_counts_nothing_after_its_answer() {
    let world = World::new();
    let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
    sim.network.fail("latch/count_down", [Fault::Linger(LATE)]);
    sim.gate().count_down().await.unwrap();
    assert!(other.gate().try_set(2).await.unwrap());
    sleep(2 * LATE).await;
    assert_eq!(sim.value(), Some(2), "counted down after it had returned");
}

/// The permit was released to no semaphore. One that is created later is another one.
#[tokio::test(start_paused = true)]
async fn a_release_adds_nothing_after_its_answer() {
    let world = World::new();
    let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
    assert!(other.pool().try_set(3).await.unwrap());
    let permit = sim.pool().acquire(1).await.unwrap();
    world.forget(NAME);
    sim.network.fail("semaphore/release", [Fault::Linger(LATE)]);
    permit.release().await.unwrap();
    assert!(other.pool().try_set(3).await.unwrap());
    sleep(2 * LATE).await;
    assert_eq!(sim.value(), Some(3), "more permits than there were");
}

/// The caller was told that it did not create the semaphore.
#[tokio::test(start_paused = true)]
async fn a_try_set_creates_nothing_after_its_answer() {
    let world = World::new();
    let sim = Sim::new(&world).await;
    world.write(NAME, "1");
    sim.network.fail("counter/try_set", [Fault::Linger(LATE)]);
    assert!(!sim.pool().try_set(3).await.unwrap());
    world.forget(NAME);
    sleep(2 * LATE).await;
    assert_eq!(sim.value(), None, "created after it had returned false");
    sim.network.fail("counter/try_set", [Fault::Linger(LATE)]);
    world.write(NAME, "1");
    assert!(!sim.gate().try_set(3).await.unwrap());
    world.forget(NAME);
    sleep(2 * LATE).await;
    assert_eq!(sim.value(), None, "set after it had returned false");
}

/// A waiter may get permits by a copy that runs after its refusal. If it stands behind others, nobody
/// asks for it, and they wait for the permits.
#[tokio::test(start_paused = true)]
async fn a_late_copy_keeps_no_permit_from_the_waiters() {
    let world = World::new();
    let mut longest = (ms(0), 0);
    for release_at in 2_000..2_040 {
        world.write(NAME, "0");
        let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
        let wait = || {
            let pool = sim.pool();
            tokio::spawn(async move { pool.acquire(1).await.unwrap().release().await.unwrap() })
        };
        let mut waiters: Vec<_> = (0..3).map(|_| wait()).collect();
        sleep(ms(30)).await;
        sim.network.fail("semaphore/acquire", [Fault::Linger(LATE)]);
        waiters.push(wait());
        sleep(ms(release_at - 30)).await;
        other.pool().release(1).await.unwrap();
        let released = Instant::now();
        let all = timeout(100 * LATE, join_all(waiters)).await;
        let all = all.unwrap_or_else(|_| panic!("released after {release_at} ms: no end"));
        all.into_iter().for_each(Result::unwrap);
        longest = longest.max((released.elapsed(), release_at));
        assert_eq!(sim.at_rest().await, Some(1), "released after {release_at} ms");
    }
    assert!(longest.0 < 60 * ONE_WAY, "beside a free permit: {longest:?}");
}

/// The late copy may run right after the answer.
#[tokio::test(start_paused = true)]
async fn no_copy_runs_between_the_answer_and_the_end_of_the_call() {
    let world = World::new();
    for late in 0..60 {
        let sim = Sim::new(&world).await;
        for script in ["counter/try_set", "counter/try_set", "latch/count_down"] {
            sim.network.fail(script, [Fault::Linger(ms(late))]);
        }
        world.write(NAME, "1");
        assert!(!sim.pool().try_set(3).await.unwrap());
        world.forget(NAME);
        sleep(LATE).await;
        assert_eq!(sim.value(), None, "semaphore, a copy late by {late} ms");
        world.write(NAME, "1");
        assert!(!sim.gate().try_set(3).await.unwrap());
        world.forget(NAME);
        sleep(LATE).await;
        assert_eq!(sim.value(), None, "latch, a copy late by {late} ms");
        sim.gate().count_down().await.unwrap();
        world.write(NAME, "2");
        sleep(LATE).await;
        assert_eq!(sim.value(), Some(2), "count-down, a copy late by {late} ms");
        world.forget(NAME);
    }
}

/// Requests that are refused change nothing, and remove no id. They must not use up the ids that
/// are to be removed.
#[tokio::test(start_paused = true)]
async fn the_server_forgets_requests_although_others_are_refused() {
    let world = World::new();
    let sim = Sim::new(&world).await;
    let pool = sim.pool();
    assert!(pool.try_set(1).await.unwrap());
    for _ in 0..100 {
        let permit = pool.acquire(1).await.unwrap();
        assert!(pool.try_acquire(1).await.unwrap().is_none());
        permit.release().await.unwrap();
    }
    let kept = sim.requests();
    assert!((1..=10).contains(&kept), "{kept} ids stay");
}

/// The server has forgotten the ids by then. In a test its clock does not follow the virtual one.
async fn after_an_outage(
    configure: fn(Config) -> Config,
    outage: impl Fn() -> Vec<Fault>,
) -> (Option<i64>, Option<i64>) {
    let world = World::new();
    let sim = Sim::with(&world, configure).await;
    let pool = sim.pool();
    assert!(pool.try_set(3).await.unwrap());
    let forget = async || {
        sleep(ms(601_000)).await;
        world.forget(REQUESTS);
    };
    sim.network.fail("semaphore/release", outage());
    let _ = tokio::join!(pool.release(1), forget());
    sleep(ms(3_600_000)).await;
    let released = sim.value();
    world.write(NAME, "3");
    sim.network.fail("semaphore/acquire", outage());
    let (acquired, ()) = tokio::join!(pool.acquire(1).into_future(), forget());
    if let Ok(permit) = acquired {
        permit.forget();
    }
    sleep(ms(3_600_000)).await;
    (released, sim.value())
}

/// The time for retries may be longer than the server keeps an id.
#[tokio::test(start_paused = true)]
async fn no_copy_is_sent_when_the_server_has_forgotten_the_request() {
    let outage = || vec![Fault::LoseReply, Fault::Silent(ms(650_000))];
    let (released, left) = after_an_outage(|it| it.retry_timeout(ms(1_800_000)), outage).await;
    assert_eq!(released, Some(4), "one release is counted twice");
    assert!(left >= Some(2), "one acquisition is counted twice: {left:?}");
}

/// The time for retries is over, and the release goes on in the background.
#[tokio::test(start_paused = true)]
async fn nor_in_the_background() {
    let outage = || vec![Fault::LoseReply, Fault::Silent(ms(650_000)), Fault::Silent(ms(290_000))];
    let (released, _) = after_an_outage(|it| it.retry_timeout(ms(350_000)), outage).await;
    assert_eq!(released, Some(4), "one release is counted twice");
}

/// As in a process that is stopped for so long. Nor when its future is dropped then.
#[tokio::test(start_paused = true)]
async fn nor_for_a_caller_that_was_not_polled_for_so_long() {
    for is_dropped in [false, true] {
        let world = World::new();
        let sim = Sim::new(&world).await;
        let pool = sim.pool();
        assert!(pool.try_set(3).await.unwrap());
        // The second: it stands in the pause before the next copy.
        for stops_after in [0, 4, 8, 12] {
            world.write(NAME, "3");
            sim.network.fail("semaphore/release", [Fault::LoseReply]);
            let mut release = Box::pin(pool.release(1));
            assert!(timeout(ms(stops_after), &mut release).await.is_err());
            sleep(ms(700_000)).await;
            world.forget(REQUESTS);
            match is_dropped {
                true => drop(release),
                false => drop(release.await),
            }
            sleep(ms(60_000)).await;
            assert_eq!(sim.value(), Some(4), "stopped after {stops_after} ms, {is_dropped}");
        }
    }
}

/// The clock of this process stood still while its machine was suspended.
#[tokio::test(start_paused = true)]
async fn nor_when_only_the_server_knows_that_it_is_so_late() {
    const SUSPENDED: Duration = Duration::from_secs(700);
    let world = World::new();
    // The first copy has run, and the second is not sent yet.
    for stops_after in 4..=5 {
        let sim = Sim::new(&world).await;
        let pool = sim.pool();
        world.write(NAME, "3");
        let engine = sim.client.engine();
        sim.network.set_clock_back(SUSPENDED);
        let then = Instant::now() - SUSPENDED;
        engine.transport.observe(b"", engine.transport.time_at(b"", then));
        sim.network.fail("semaphore/release", [Fault::LoseReply]);
        let mut release = Box::pin(pool.release(1));
        assert!(timeout(ms(stops_after), &mut release).await.is_err());
        sim.network.set_clock_forward(SUSPENDED);
        world.forget(REQUESTS);
        drop(release.await);
        sleep(ms(3_600_000)).await;
        assert_eq!(sim.value(), Some(4), "stopped after {stops_after} ms");
        world.forget(REQUESTS);
    }
}

/// It was granted, and nobody polled it for so long that the server has forgotten the request.
#[tokio::test(start_paused = true)]
async fn permits_of_an_acquisition_that_is_dropped_long_after_its_grant_are_returned() {
    let world = World::new();
    let sim = Sim::new(&world).await;
    assert!(sim.pool().try_set(1).await.unwrap());
    let mut granted = 0;
    for cut in 0..12 {
        let pool = sim.pool();
        let mut acquiring = Box::pin(pool.acquire(1).into_future());
        if timeout(ms(cut), &mut acquiring).await.is_ok() {
            sleep(ms(100)).await;
            continue;
        }
        sleep(ms(700_000)).await;
        granted += usize::from(sim.value() == Some(0));
        world.forget(REQUESTS);
        drop(acquiring);
        sleep(Duration::from_secs(60)).await;
        assert_eq!(sim.value(), Some(1), "cut after {cut} ms");
    }
    assert!(granted > 0);
}
