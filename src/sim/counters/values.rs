//! What requests do to the value, and what is published.

use std::iter::repeat_n;

use harness::{Messages, redis::cmd};

use tokio::time::{sleep, timeout};

use super::{CHANNEL, GATE, NAME, REQUESTS, ms};
use crate::{
    Error,
    sim::{
        Fault, Sim, World,
        bounds::{RETRIES, ends_within},
    },
};

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
        sim.network.fail("counter/read", [Fault::LoseReply]);
        sim.network.fail("semaphore/drain", [Fault::LoseReply]);
        assert_eq!(pool.drain().await.unwrap(), if round == 1 { 1_000 } else { 5 });
        pool.release(5).await.unwrap();
    }
    world.forget(NAME);
    for _ in 1..=100 {
        sim.network.fail("counter/try_set", [Fault::LoseReply]);
        assert!(pool.try_set(2).await.unwrap());
        assert!(!pool.try_set(3).await.unwrap());
        world.forget(NAME);
    }
    for _ in 1..=100 {
        sim.network.fail("counter/try_set", [Fault::LoseReply]);
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
    let kept = sim.requests();
    assert!((1..=3).contains(&kept), "{kept}");
    let ttl = world.pttl(REQUESTS);
    assert!((1..=600_000).contains(&ttl), "{ttl}");
}

/// Also when each handle is dropped before the next request.
#[tokio::test(start_paused = true)]
async fn the_server_forgets_requests_of_handles_that_are_gone() {
    let world = World::new();
    let sim = Sim::new(&world).await;
    for kind in ["semaphore", "latch", "expirable"] {
        match kind {
            "latch" => assert!(sim.gate().try_set(200).await.unwrap()),
            _ => assert!(sim.pool().try_set(2).await.unwrap()),
        }
        for _ in 0..100 {
            match kind {
                "semaphore" => sim.pool().acquire(1).await.unwrap().release().await.unwrap(),
                "latch" => sim.gate().count_down().await.unwrap(),
                _ => sim.leased().acquire(1).await.unwrap().release().await.unwrap(),
            }
        }
        let kept = sim.requests();
        assert!((1..=10).contains(&kept), "{kept} ids of a {kind} stay");
        world.forget(NAME);
        world.forget(REQUESTS);
    }
}

/// The reply was on its way when the future was dropped.
#[tokio::test(start_paused = true)]
async fn the_server_forgets_requests_that_were_withdrawn() {
    let world = World::new();
    let sim = Sim::new(&world).await;
    let (pool, leased) = (sim.pool(), sim.leased());
    for is_leased in [false, true] {
        assert!(pool.try_set(2).await.unwrap());
        for _ in 0..100 {
            let is_cut = match is_leased {
                false => timeout(ms(4), pool.acquire(1).into_future()).await.is_err(),
                true => timeout(ms(4), leased.acquire(1).into_future()).await.is_err(),
            };
            assert!(is_cut);
            sleep(ms(30)).await;
            assert_eq!(sim.value(), Some(2), "returned");
        }
        let kept = sim.requests();
        assert!(kept <= 10, "{kept} ids stay, of leased permits: {is_leased}");
        world.forget(NAME);
        world.forget(REQUESTS);
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
    // Nor is a text that is no number.
    for text in ["many", "5.5"] {
        world.write(NAME, text);
        wrong(pool.acquire(1).await.unwrap_err());
        wrong(pool.release(1).await.unwrap_err());
        wrong(pool.drain().await.unwrap_err());
        wrong(pool.available().await.unwrap_err());
        wrong(gate.count_down().await.unwrap_err());
        wrong(gate.wait().await.unwrap_err());
        wrong(gate.count().await.unwrap_err());
        let left: String = world.inspector.lock().unwrap().query(cmd("GET").arg(NAME));
        assert_eq!(left, text);
    }
    let ids: i64 = {
        let inspector = world.inspector.lock().unwrap();
        inspector.query(cmd("ZCOUNT").arg("redisson_lock_requests:{pool}").arg(0).arg("inf"))
    };
    assert_eq!(ids, 0, "a refused request leaves no id");
}

/// Numbers in Lua are less exact than those of Redis.
#[tokio::test(start_paused = true)]
async fn a_drain_is_exact_whatever_the_number() {
    let world = World::new();
    let sim = Sim::new(&world).await;
    for number in [i64::MAX, (1 << 53) + 1, -(1 << 53) - 1, i64::MIN + 1] {
        world.write(NAME, &number.to_string());
        assert_eq!(sim.pool().drain().await.unwrap(), number);
        assert_eq!(sim.value(), Some(0), "of {number}");
    }
}

/// The server is slow, and others change the number all the time.
#[tokio::test(start_paused = true)]
async fn a_drain_ends_in_time_whatever_others_do() {
    let world = World::new();
    let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
    world.write(NAME, "1");
    sim.network.fail("semaphore/drain", repeat_n(Fault::SlowRequest(ms(1_000)), 100));
    let (pool, others) = (sim.pool(), other.pool());
    let change = async {
        loop {
            others.add(1).await.unwrap();
            sleep(ms(100)).await;
        }
    };
    let drained = ends_within(RETRIES, "drain()", pool.drain());
    tokio::select! {
        drained = drained => assert!(matches!(drained, Err(Error::Redis(_))), "{drained:?}"),
        () = change => {}
    }
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
