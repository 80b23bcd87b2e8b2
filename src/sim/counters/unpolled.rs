//! Waiters that nobody polls: they keep no wake-up from the others.

use std::{pin::pin, time::Duration};

use tokio::time::{Instant, sleep, timeout};

use super::{NAME, ms};
use crate::sim::{ONE_WAY, Sim, World};

#[tokio::test(start_paused = true)]
async fn a_latch_waiter_that_nobody_polls_keeps_no_wake_up_from_the_others() {
    let world = World::new();
    for left in 1..=5 {
        world.write(NAME, "1");
        let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
        let gate = sim.gate();
        let mut unpolled: Vec<_> = (0..left).map(|_| Box::pin(gate.wait())).collect();
        for wait in &mut unpolled {
            assert!(timeout(ms(50), wait).await.is_err());
        }
        let gate = sim.gate();
        let polled = tokio::spawn(async move { gate.wait().await });
        sleep(ms(200)).await;
        other.gate().count_down().await.unwrap();
        let opened = Instant::now();
        polled.await.unwrap().unwrap();
        let took = opened.elapsed();
        assert!(took < (20 * left + 40) * ms(1), "{left} are not polled: {took:?}");
        // They are let through when somebody polls them again.
        for wait in unpolled {
            timeout(20 * ONE_WAY, wait).await.expect("the latch is open").unwrap();
        }
        assert_eq!(sim.at_rest().await, None);
    }
}

#[tokio::test(start_paused = true)]
async fn semaphore_waiters_that_nobody_polls_keep_no_wake_up_from_the_others() {
    let world = World::new();
    world.write(NAME, "0");
    let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
    let pool = sim.pool();
    let mut unpolled: Vec<_> = (0..5).map(|_| Box::pin(pool.acquire(1).into_future())).collect();
    for acquire in &mut unpolled {
        assert!(timeout(ms(50), acquire).await.is_err());
    }
    let mut waited = Duration::ZERO;
    for _ in 0..8 {
        let mut polled = pin!(pool.acquire(1).into_future());
        assert!(timeout(ms(200), &mut polled).await.is_err(), "none is free");
        other.pool().release(1).await.unwrap();
        let released = Instant::now();
        polled.await.unwrap().forget();
        waited += released.elapsed();
    }
    assert!(waited < ms(300), "{waited:?}");
    // One is polled again.
    other.pool().release(1).await.unwrap();
    let granted = timeout(20 * ONE_WAY, unpolled.remove(0)).await.expect("a free permit");
    granted.unwrap().forget();
    drop(unpolled);
    assert_eq!(sim.at_rest().await, Some(0));
}

/// One wake-up that nobody took makes no other waiter ask again and again.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_nobody_polls_costs_the_server_no_polls() {
    let world = World::new();
    world.write(NAME, "0");
    let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
    let pool = sim.pool();
    let mut unpolled = Box::pin(pool.acquire(2).into_future());
    assert!(timeout(ms(50), &mut unpolled).await.is_err());
    let polled = tokio::spawn(sim.pool().acquire(2).into_future());
    sleep(ms(200)).await;
    other.pool().release(1).await.unwrap();
    let calls = sim.network.calls();
    sleep(ms(28_000)).await;
    let calls = sim.network.calls() - calls;
    assert!((8..=11).contains(&calls), "{calls} in 28 s");
    polled.abort();
}
