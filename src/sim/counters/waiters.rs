//! Waiters: who is woken, and how often the server is asked.

use std::{cell::RefCell, iter::repeat_n, time::Duration};

use futures::future::join_all;
use tokio::time::{Instant, sleep, timeout};

use super::{CHANNEL, GATE, NAME, ms};
use crate::{
    Error, Permit,
    sim::{
        Fault, ONE_WAY, Sim, World,
        bounds::{COMMAND, ends_within},
    },
};

/// A release of one permit may wake the waiter that wants three. Redisson's then sleeps on beside the
/// waiter that wants one.
#[tokio::test(start_paused = true)]
async fn waiters_of_mixed_sizes_do_not_sleep_beside_free_permits() {
    let world = World::new();
    for sizes in [[3, 1], [1, 3], [3, 2], [2, 1]] {
        for after in 0..40 {
            world.write(NAME, "0");
            let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
            let pool = sim.pool();
            let granted = RefCell::new(Vec::new());
            let waiters = join_all(sizes.map(|n| {
                let (pool, granted) = (&pool, &granted);
                async move {
                    let permit = pool.acquire(n).await.unwrap();
                    granted.borrow_mut().push(n);
                    permit.forget();
                }
            }));
            let small = sizes[0].min(sizes[1]);
            let release = async {
                sleep(ms(after)).await;
                other.pool().release(small).await.unwrap();
                sleep(20 * ONE_WAY).await;
                assert_eq!(*granted.borrow(), [small], "{sizes:?}, released after {after} ms");
                other.pool().release(sizes[0].max(sizes[1])).await.unwrap();
            };
            let all = async { tokio::join!(waiters, release) };
            timeout(ms(after) + 60 * ONE_WAY, all).await.expect("all to be granted");
            assert_eq!(sim.at_rest().await, Some(0));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn many_waiters_are_all_granted_after_one_release() {
    let world = World::new();
    world.write(NAME, "0");
    let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
    let pool = sim.pool();
    let begun = Instant::now();
    let waiters = join_all((0..50).map(|_| async { pool.acquire(1).await.unwrap().forget() }));
    let release = async {
        sleep(ms(100)).await;
        other.pool().release(50).await.unwrap();
    };
    tokio::join!(waiters, release);
    assert!(begun.elapsed() < ms(100) + 20 * ONE_WAY, "{:?}", begun.elapsed());
    assert_eq!(sim.at_rest().await, Some(0));
}

/// One of them looks for all.
#[tokio::test(start_paused = true)]
async fn many_waiters_cost_the_server_what_one_costs() {
    let world = World::new();
    world.write(NAME, "0");
    let sim = Sim::new(&world).await;
    let pool = sim.pool();
    let tries = join_all((0..50).map(|_| pool.try_acquire(1).wait(ms(30_000)).into_future()));
    let before = async {
        sleep(ms(1_000)).await;
        let calls = sim.network.calls();
        sleep(ms(28_000)).await;
        sim.network.calls() - calls
    };
    let (tried, calls) = tokio::join!(tries, before);
    assert!(tried.into_iter().all(|tried| tried.unwrap().is_none()));
    assert!((8..=11).contains(&calls), "{calls} in 28 s");
    assert_eq!(sim.at_rest().await, Some(0));
}

#[tokio::test(start_paused = true)]
async fn messages_that_are_lost_cost_no_more_than_three_seconds() {
    let world = World::new();
    world.write(NAME, "0");
    let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
    let pool = sim.pool();
    let waiter = async {
        let permit: Permit = pool.acquire(1).await.unwrap();
        let at = Instant::now();
        permit.forget();
        at
    };
    let release = async {
        sleep(ms(100)).await;
        sim.network.lose_messages();
        other.pool().release(1).await.unwrap();
        Instant::now()
    };
    let (granted, released) = tokio::join!(waiter, release);
    let took = granted - released;
    assert!(ms(1_000) < took && took < ms(3_100), "{took:?}");
}

/// Redisson does not look again when its time is over.
#[tokio::test(start_paused = true)]
async fn a_waiter_looks_once_more_at_its_deadline() {
    let world = World::new();
    world.write(NAME, "0");
    let sim = Sim::new(&world).await;
    let wait = async {
        let permit = sim.pool().try_acquire(1).wait(ms(1_000)).await.unwrap();
        permit.expect("the permit that came without a message").forget();
    };
    let set = async {
        sleep(ms(900)).await;
        world.write(NAME, "1");
    };
    tokio::join!(wait, set);
    world.write(NAME, "1");
    let wait = async { assert!(sim.gate().wait_timeout(ms(1_000)).await.unwrap()) };
    let forget = async {
        sleep(ms(900)).await;
        world.forget(NAME);
    };
    tokio::join!(wait, forget);
    assert_eq!(sim.at_rest().await, None);
}

#[tokio::test(start_paused = true)]
async fn stray_messages_grant_nothing_and_cost_one_look_each() {
    let world = World::new();
    world.write(NAME, "0");
    let sim = Sim::new(&world).await;
    let pool = sim.pool();
    let stray = async |channel| {
        sleep(ms(100)).await;
        let before = sim.network.calls();
        for message in ["0", "1", "-3", "soon", "7"] {
            sim.publish(channel, message);
            // What was published is delivered when a script runs.
            sim.client.semaphore("other").available().await.unwrap();
            sleep(ms(50)).await;
        }
        sim.network.calls() - before - 5
    };
    let wait = pool.try_acquire(1).wait(ms(2_000)).into_future();
    let (permit, looks) = tokio::join!(wait, stray(CHANNEL));
    assert!(permit.unwrap().is_none());
    assert_eq!(looks, 5);
    world.write(NAME, "2");
    let gate = sim.gate();
    let (open, looks) = tokio::join!(gate.wait_timeout(ms(2_000)), stray(GATE));
    assert!(!open.unwrap());
    assert_eq!(looks, 5);
    world.forget(NAME);
}

/// Redisson's asynchronous waiters may miss a zero between their look and their registration.
#[tokio::test(start_paused = true)]
async fn a_latch_that_opens_at_any_ms_lets_all_waiters_through() {
    let world = World::new();
    for after in 0..60 {
        world.write(NAME, "1");
        let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
        let gate = sim.gate();
        let waiters = join_all((0..5).map(|n| {
            let gate = &gate;
            async move {
                sleep(ms(3 * n)).await;
                gate.wait().await.unwrap();
            }
        }));
        let open = async {
            sleep(ms(after)).await;
            other.gate().count_down().await.unwrap();
        };
        let all = async { tokio::join!(waiters, open) };
        timeout(ms(after) + 20 * ONE_WAY, all).await.expect("all waiters to be let through");
        assert_eq!(sim.at_rest().await, None);
    }
}

/// One of them asks, and those behind it fail with it.
#[tokio::test(start_paused = true)]
async fn a_server_that_falls_silent_fails_all_waiters_in_time() {
    let world = World::new();
    world.write(NAME, "0");
    let retried = Duration::from_secs(10);
    for what in ["semaphore/acquire", "counter/read"] {
        let sim = Sim::new(&world).await;
        world.write(NAME, if what == "counter/read" { "1" } else { "0" });
        let (pool, gate) = (sim.pool(), sim.gate());
        let silence = async {
            sleep(ms(500)).await;
            sim.network.fail(what, vec![Fault::Silent(Duration::from_secs(3)); 1_000]);
            Instant::now()
        };
        let wait = async || {
            let failed = match what {
                "counter/read" => gate.wait().await.err(),
                _ => pool.acquire(1).await.err(),
            };
            assert!(matches!(failed, Some(Error::Redis(_))), "{failed:?}");
        };
        let waits = join_all((0..100).map(|_| wait()));
        // It is asked after 3 s at the latest. Another one begins to ask before the first fails at the
        // latest, and its last request may take 3 s.
        let in_time = Duration::from_secs(3) + 2 * retried + Duration::from_secs(4);
        let (begun, _) = timeout(in_time, async { tokio::join!(silence, waits) })
            .await
            .unwrap_or_else(|_| panic!("{what}: some wait for longer than {in_time:?}"));
        assert!(begun.elapsed() >= retried, "{what}: {:?}", begun.elapsed());
    }
}

/// A request that is under way when the wait ends decides.
#[tokio::test(start_paused = true)]
async fn one_that_is_answered_after_its_wait_does_not_ask_again() {
    let world = World::new();
    world.write(NAME, "0");
    let wait = ms(500);
    for slow in [COMMAND / 2, COMMAND - ms(20)] {
        let sim = Sim::new(&world).await;
        sim.network.fail("acquire", repeat_n(Fault::SlowReply(slow), 10));
        let asking = async { sim.pool().try_acquire(1).wait(wait).await.map(|it| it.is_some()) };
        let answer = ends_within(wait + COMMAND, "permits", asking).await;
        assert!(matches!(answer, Ok(false)), "{slow:?}: {answer:?}");
        sim.network.heal();
        assert_eq!(sim.at_rest().await, Some(0));
    }
    world.write(NAME, "1");
    for slow in [COMMAND / 2, COMMAND - ms(20)] {
        let sim = Sim::new(&world).await;
        sim.network.fail("", repeat_n(Fault::SlowReply(slow), 10));
        let answer = ends_within(wait + COMMAND, "a latch", sim.gate().wait_timeout(wait)).await;
        assert!(matches!(answer, Ok(false)), "{slow:?}: {answer:?}");
        sim.network.heal();
        assert_eq!(sim.at_rest().await, Some(1));
    }
}
