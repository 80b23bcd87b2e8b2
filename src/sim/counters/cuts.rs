//! Futures that are dropped at any moment.

use std::{pin::pin, sync::Arc, time::Duration};

use harness::redis::cmd;
use tokio::time::{sleep, timeout};

use super::{CHANNEL, NAME, ms};
use crate::{
    Error,
    sim::{Fault, ONE_WAY, Sim, World},
};

/// Runs the future for so many virtual ms, then drops it. Says whether it was done by then.
pub(super) async fn cut(after: u64, future: impl Future<Output = ()>) -> bool {
    // A ms is cut in its middle: every timer of the network fires at whole ones.
    timeout(ms(after) + Duration::from_micros(500), future).await.is_ok()
}

/// Cuts at every ms until the future is done by itself in 5 cuts in a row. The value at rest after
/// each cut is checked.
pub(super) async fn cut_everywhere<F: AsyncFn(&Sim)>(
    world: &Arc<World>,
    what: &str,
    begin: &str,
    is_right: fn(Option<i64>) -> bool,
    future: F,
) {
    let (mut done, mut cuts) = (0, 0);
    while done < 5 {
        world.write(NAME, begin);
        let sim = Sim::new(world).await;
        done = if cut(cuts, future(&sim)).await { done + 1 } else { 0 };
        sim.network.heal();
        let value = sim.at_rest().await;
        assert!(is_right(value), "{what}, cut after {cuts} ms: {value:?}");
        cuts += 1;
        assert!(cuts < 5_000, "{what} does not end");
    }
    println!("{what}: {cuts} cuts");
}

#[tokio::test(start_paused = true)]
async fn an_acquisition_cut_at_any_ms_returns_its_permits_once() {
    let world = World::new();
    let returned: fn(Option<i64>) -> bool = |value| value == Some(3);
    cut_everywhere(&world, "acquire and drop", "3", returned, async |sim| {
        let permit = sim.pool().acquire(2).await.unwrap();
        sleep(ms(2)).await;
        drop(permit);
    })
    .await;
    cut_everywhere(&world, "acquire and release", "3", returned, async |sim| {
        sim.pool().try_acquire(2).await.unwrap().unwrap().release().await.unwrap();
    })
    .await;
    cut_everywhere(&world, "two lost replies", "3", returned, async |sim| {
        sim.network.fail("semaphore/acquire", [Fault::LoseReply, Fault::LoseReply]);
        drop(sim.pool().acquire(2).await.unwrap());
    })
    .await;
    cut_everywhere(&world, "a copy that lingers", "3", returned, async |sim| {
        sim.network.fail("semaphore/acquire", [Fault::Linger(ms(40))]);
        drop(sim.pool().acquire(2).await.unwrap());
        sleep(ms(50)).await;
    })
    .await;
    cut_everywhere(&world, "a copy that runs very late", "3", returned, async |sim| {
        sim.network.fail("semaphore/acquire", [Fault::Linger(Duration::from_secs(20))]);
        drop(sim.pool().acquire(2).await.unwrap());
        sleep(ms(50)).await;
    })
    .await;
    cut_everywhere(&world, "release, a lost reply", "3", returned, async |sim| {
        sim.network.fail("semaphore/release", [Fault::LoseReply]);
        sim.pool().acquire(2).await.unwrap().release().await.unwrap();
    })
    .await;
    cut_everywhere(&world, "release, lost requests", "3", returned, async |sim| {
        sim.network.fail("semaphore/release", [Fault::LoseRequest, Fault::Linger(ms(40))]);
        sim.pool().acquire(2).await.unwrap().release().await.unwrap();
    })
    .await;
    cut_everywhere(&world, "the withdrawal is lost, too", "3", returned, async |sim| {
        sim.network.fail("semaphore/acquire", [Fault::LoseReply]);
        sim.network.fail("semaphore/withdraw", [Fault::LoseReply, Fault::LoseRequest]);
        drop(sim.pool().acquire(2).await.unwrap());
    })
    .await;
    cut_everywhere(
        &world,
        "a waiter",
        "0",
        |value| value == Some(2),
        async |sim| {
            let pool = sim.pool();
            // It goes on when the waiter is cut.
            let world = sim.world.clone();
            tokio::spawn(async move {
                sleep(ms(20)).await;
                let inspector = world.inspector.lock().unwrap();
                inspector.query::<()>(cmd("INCRBY").arg(NAME).arg(2));
                inspector.query::<()>(cmd("PUBLISH").arg(CHANNEL).arg(2));
            });
            // What was published is delivered when a script runs.
            let look = async {
                sleep(ms(22)).await;
                sim.client.semaphore("other").available().await.unwrap();
            };
            let wait = async { drop(pool.acquire(2).await.unwrap()) };
            tokio::join!(wait, look);
        },
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn other_changes_cut_at_any_ms_are_done_once_or_not_at_all() {
    let world = World::new();
    cut_everywhere(
        &world,
        "add",
        "3",
        |value| matches!(value, Some(3 | 7)),
        async |sim| {
            sim.network.fail("semaphore/release", [Fault::LoseReply]);
            sim.pool().add(4).await.unwrap();
        },
    )
    .await;
    cut_everywhere(
        &world,
        "drain",
        "3",
        |value| matches!(value, Some(0 | 3)),
        async |sim| {
            sim.network.fail("semaphore/drain", [Fault::LoseReply]);
            assert_eq!(sim.pool().drain().await.unwrap(), 3);
        },
    )
    .await;
    cut_everywhere(
        &world,
        "count down",
        "3",
        |value| matches!(value, Some(2 | 3)),
        async |sim| {
            sim.network.fail("latch/count_down", [Fault::LoseReply, Fault::LoseReply]);
            sim.gate().count_down().await.unwrap();
            assert_eq!(sim.gate().count().await.unwrap(), 2);
        },
    )
    .await;
    cut_everywhere(
        &world,
        "wait for a latch",
        "1",
        |value| matches!(value, None | Some(1)),
        async |sim| {
            let other = sim.client.count_down_latch(NAME);
            let count = async {
                sleep(ms(20)).await;
                other.count_down().await.unwrap();
            };
            tokio::join!(async { sim.gate().wait().await.unwrap() }, count);
        },
    )
    .await;
}

/// Whoever is dropped with a wake-up in hand passes it on.
#[tokio::test(start_paused = true)]
async fn a_waiter_cut_at_any_ms_leaves_its_wake_up_to_the_next() {
    let world = World::new();
    for after in 0..90 {
        world.write(NAME, "0");
        let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
        let pool = sim.pool();
        let waiters = async {
            let mut first = pin!(cut(after, async { drop(pool.acquire(1).await.unwrap()) }));
            let second = async {
                sleep(ms(1)).await;
                pool.acquire(1).await.unwrap().release().await.unwrap();
            };
            let release = async {
                sleep(ms(50)).await;
                other.pool().release(1).await.unwrap();
            };
            tokio::join!(&mut first, second, release);
        };
        // By a message, that is: far sooner than a waiter looks again by itself.
        let in_time = timeout(ms(50) + 30 * ONE_WAY, waiters).await;
        assert!(in_time.is_ok(), "cut after {after} ms: the other waiter was not woken");
        assert_eq!(sim.at_rest().await, Some(1), "cut after {after} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn close_ends_waiters_and_returns_what_was_dropped() {
    let world = World::new();
    for after in 0..40 {
        world.write(NAME, "1");
        let sim = Sim::new(&world).await;
        world.write("gate", "1");
        let (pool, gate) = (sim.pool(), sim.client.count_down_latch("gate"));
        let waiter = async {
            drop(pool.acquire(1).await);
            let (permits, open) = tokio::join!(pool.acquire(9).into_future(), gate.wait());
            for error in [permits.map(drop), open] {
                assert!(matches!(error, Err(Error::Closed)), "after {after} ms: {error:?}");
            }
        };
        let close = async {
            sleep(ms(after)).await;
            sim.client.close().await.unwrap();
        };
        tokio::join!(waiter, close);
        assert_eq!(sim.value(), Some(1), "after {after} ms");
    }
}
