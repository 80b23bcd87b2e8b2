//! Semaphores and latches: futures that are dropped at any moment, replies that are lost, and waiters
//! of different sizes.

use std::{cell::RefCell, pin::pin, sync::Arc, time::Duration};

use futures::future::join_all;
use harness::{Messages, redis::cmd};
use tokio::time::{Instant, sleep, timeout};

use super::{Fault, ONE_WAY, Sim, World};
use crate::{CountDownLatch, Error, Permit, Semaphore};

const NAME: &str = "pool";
const CHANNEL: &str = "redisson_sc:{pool}";
const GATE: &str = "redisson_countdownlatch__channel__{pool}";

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

impl Sim {
    fn pool(&self) -> Semaphore {
        self.client.semaphore(NAME)
    }

    fn gate(&self) -> CountDownLatch {
        self.client.count_down_latch(NAME)
    }

    /// The value on the server, once everything that was begun has come to rest. Nobody may listen
    /// then.
    async fn at_rest(&self) -> Option<i64> {
        let left = self.left().await;
        let ours = |key: &String| key == NAME || key.starts_with("redisson_lock_requests:");
        let other: Vec<_> = left.iter().filter(|key| !ours(key)).collect();
        assert!(other.is_empty(), "left {other:?}");
        self.value()
    }

    fn value(&self) -> Option<i64> {
        self.world.inspector.lock().unwrap().query(cmd("GET").arg(NAME))
    }

    fn publish(&self, channel: &str, message: &str) {
        let inspector = self.world.inspector.lock().unwrap();
        inspector.query::<()>(cmd("PUBLISH").arg(channel).arg(message));
    }
}

/// Runs the future for so many virtual ms, then drops it. Says whether it was done by then.
async fn cut(after: u64, future: impl Future<Output = ()>) -> bool {
    // A ms is cut in its middle: every timer of the network fires at whole ones.
    timeout(ms(after) + Duration::from_micros(500), future).await.is_ok()
}

/// Cuts at every ms until the future is done by itself in 5 cuts in a row. The value at rest after
/// each cut is checked.
async fn cut_everywhere<F: AsyncFn(&Sim)>(
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

#[tokio::test(start_paused = true)]
async fn a_hundred_lost_replies_of_a_hundred_count_once() {
    let world = World::new();
    let sim = Sim::new(&world).await;
    let (pool, gate) = (sim.pool(), sim.gate());
    assert!(pool.try_set(1_000).await.unwrap());
    let mut permits = Vec::new();
    for round in 1..=100 {
        sim.network.fail("semaphore/acquire", [Fault::LoseReply]);
        permits.push(pool.acquire(3).await.unwrap());
        assert_eq!(sim.value(), Some(1_000 - 3 * round));
    }
    for round in 1..=100 {
        sim.network.fail("semaphore/release", [Fault::LoseReply]);
        permits.pop().unwrap().release().await.unwrap();
        assert_eq!(sim.value(), Some(700 + 3 * round));
    }
    for round in 1..=100 {
        sim.network.fail("semaphore/release", [Fault::LoseReply]);
        pool.add(if round % 2 == 0 { -7 } else { 7 }).await.unwrap();
        assert_eq!(sim.value(), Some(1_000 + 7 * (round % 2)));
    }
    for round in 1..=100_u32 {
        sim.network.fail("semaphore/drain", [Fault::LoseReply]);
        assert_eq!(pool.drain().await.unwrap(), if round == 1 { 1_000 } else { 5 });
        pool.release(5).await.unwrap();
    }
    world.forget(NAME);
    for _ in 1..=100 {
        sim.network.fail("semaphore/try_set", [Fault::LoseReply]);
        assert!(pool.try_set(2).await.unwrap());
        assert!(!pool.try_set(3).await.unwrap());
        world.forget(NAME);
    }
    for _ in 1..=100 {
        sim.network.fail("latch/try_set", [Fault::LoseReply]);
        assert!(gate.try_set(2).await.unwrap());
        for left in [Some(1), None] {
            sim.network.fail("latch/count_down", [Fault::LoseReply]);
            gate.count_down().await.unwrap();
            assert_eq!(sim.value(), left);
        }
    }
    assert_eq!(sim.at_rest().await, None);
}

/// The ids of answered requests do not stay on the server.
#[tokio::test(start_paused = true)]
async fn the_server_forgets_requests_that_were_answered() {
    let world = World::new();
    let sim = Sim::new(&world).await;
    let pool = sim.pool();
    pool.try_set(2).await.unwrap();
    for _ in 0..200 {
        pool.acquire(1).await.unwrap().release().await.unwrap();
    }
    let kept: i64 = {
        let inspector = world.inspector.lock().unwrap();
        inspector.query(cmd("ZCARD").arg("redisson_lock_requests:{pool}"))
    };
    assert!((1..=3).contains(&kept), "{kept}");
    let ttl = world.pttl("redisson_lock_requests:{pool}");
    assert!((1..=600_000).contains(&ttl), "{ttl}");
}

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

/// What is published: by a release the new number, by a latch `1` when it is set and `0` at zero.
#[tokio::test(start_paused = true)]
async fn messages_are_redissons() {
    let world = World::new();
    let sim = Sim::new(&world).await;
    let (pool, gate) = (sim.pool(), sim.gate());
    let messages = |channel| Messages::on(world.server.client(), channel);
    let (mut permits, mut counts) = (messages(CHANNEL), messages(GATE));
    let told = |of: &mut Messages| of.so_far(&world.inspector.lock().unwrap());
    pool.try_set(3).await.unwrap();
    pool.try_set(4).await.unwrap();
    let permit = pool.acquire(2).await.unwrap();
    assert_eq!(told(&mut permits), ["3"]);
    permit.release().await.unwrap();
    pool.add(5).await.unwrap();
    pool.add(-2).await.unwrap();
    assert_eq!(told(&mut permits), ["3", "8", "6"]);
    assert_eq!(pool.drain().await.unwrap(), 6);
    pool.add(-2).await.unwrap();
    pool.release(1).await.unwrap();
    assert_eq!(told(&mut permits), [""; 0], "no number below 1 is told");
    assert_eq!((pool.available().await.unwrap(), pool.drain().await.unwrap()), (-1, -1));
    world.forget(NAME);
    gate.try_set(2).await.unwrap();
    gate.try_set(2).await.unwrap();
    assert_eq!(told(&mut counts), ["1"]);
    gate.count_down().await.unwrap();
    assert_eq!(told(&mut counts), [""; 0]);
    gate.count_down().await.unwrap();
    gate.count_down().await.unwrap();
    assert_eq!(told(&mut counts), ["0"]);
    // Redisson has taken it for a latch that is set.
    world.write(NAME, "0");
    assert_eq!(gate.count().await.unwrap(), 0);
    gate.wait().await.unwrap();
    gate.count_down().await.unwrap();
    assert_eq!((sim.value(), told(&mut counts)), (None, vec![]));
}

/// A permit of a semaphore that is gone returns to none.
#[tokio::test(start_paused = true)]
async fn a_permit_does_not_revive_a_semaphore_that_was_deleted() {
    let world = World::new();
    let sim = Sim::new(&world).await;
    let pool = sim.pool();
    pool.try_set(3).await.unwrap();
    let permit = pool.acquire(2).await.unwrap();
    world.forget(NAME);
    permit.release().await.unwrap();
    assert_eq!(sim.value(), None);
    pool.release(2).await.unwrap();
    assert_eq!(sim.value(), Some(2), "as Redisson's release");
}

#[tokio::test(start_paused = true)]
async fn a_key_of_another_kind_is_told_and_left_alone() {
    let world = World::new();
    let sim = Sim::new(&world).await;
    let held = sim.client.lock(NAME).lock().await.unwrap();
    let wrong = |error: Error| assert!(matches!(error, Error::WrongKind { .. }), "{error:?}");
    let (pool, gate) = (sim.pool(), sim.gate());
    wrong(pool.acquire(1).await.unwrap_err());
    wrong(pool.release(1).await.unwrap_err());
    wrong(pool.drain().await.unwrap_err());
    wrong(pool.available().await.unwrap_err());
    wrong(gate.count_down().await.unwrap_err());
    wrong(gate.wait().await.unwrap_err());
    assert!(!pool.try_set(1).await.unwrap() && !gate.try_set(1).await.unwrap());
    held.unlock().await.unwrap();
    world.write(NAME, "many");
    for error in [pool.acquire(1).await.unwrap_err(), pool.release(1).await.unwrap_err()] {
        assert!(matches!(error, Error::Redis(_)), "{error:?}");
    }
    let ids: i64 = {
        let inspector = world.inspector.lock().unwrap();
        inspector.query(cmd("ZCOUNT").arg("redisson_lock_requests:{pool}").arg(0).arg("inf"))
    };
    assert_eq!(ids, 0, "a refused request leaves no id");
}

#[tokio::test(start_paused = true)]
async fn arguments_out_of_range_are_told_and_nothing_is_sent() {
    let world = World::new();
    let sim = Sim::new(&world).await;
    let (pool, gate) = (sim.pool(), sim.gate());
    let invalid = |error: Error| assert!(matches!(error, Error::Invalid(_)), "{error:?}");
    let before = sim.network.calls();
    invalid(pool.acquire(u32::MAX).await.unwrap_err());
    invalid(pool.try_acquire(1 << 31).await.unwrap_err());
    invalid(pool.release(u32::MAX).await.unwrap_err());
    invalid(pool.try_set(u32::MAX).await.unwrap_err());
    invalid(gate.try_set(0).await.unwrap_err());
    invalid(gate.try_set(u64::MAX).await.unwrap_err());
    invalid(sim.client.semaphore("").acquire(1).await.unwrap_err());
    invalid(sim.client.count_down_latch("").wait().await.unwrap_err());
    assert_eq!(pool.acquire(0).await.unwrap().num_permits(), 0);
    pool.release(0).await.unwrap();
    assert_eq!(sim.network.calls(), before);
}

#[tokio::test(start_paused = true)]
async fn permits_are_split_forgotten_and_returned() {
    let world = World::new();
    let sim = Sim::new(&world).await;
    let pool = sim.pool();
    pool.try_set(5).await.unwrap();
    let mut permit = pool.acquire(5).await.unwrap();
    assert!(permit.split(6).is_none());
    let two = permit.split(2).unwrap();
    assert_eq!((permit.num_permits(), two.num_permits()), (3, 2));
    two.forget();
    drop(permit);
    assert_eq!(sim.at_rest().await, Some(3));
}
