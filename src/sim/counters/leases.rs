//! The leases of permits: their renewals, their ends, and who is told of a loss.

use std::pin::pin;

use futures::{FutureExt, future::join_all};
use harness::redis::cmd;
use tokio::time::{Instant, sleep, timeout};

use super::{
    NAME,
    leased::{OUT, SECOND},
    ms,
};
use crate::{
    Error, Loss, PermitId, Remaining, RunError,
    sim::{Fault, Sim, World},
};

impl Sim {
    /// What a JVM does whose clock is far ahead: it takes a permit for one whose lease has ended.
    fn sweep(&self, permit: PermitId) {
        let inspector = self.world.inspector.lock().unwrap();
        let removed: i64 = inspector.query(cmd("ZREM").arg(OUT).arg(permit.as_bytes()));
        assert_eq!(removed, 1);
        inspector.query::<()>(cmd("INCRBY").arg(NAME).arg(1));
    }
}

fn is_lost<T: std::fmt::Debug>(result: Result<T, Error>, expected: Loss) {
    let error = result.expect_err("a loss");
    assert!(matches!(error, Error::NotHeld { why } if why == expected), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn permits_are_renewed_while_their_guard_lives() {
    let world = World::new();
    let sim = Sim::new(&world).await;
    let (pool, other) = (sim.leased(), Sim::new(&world).await);
    pool.set(3).await.unwrap();
    let two = pool.acquire(2).await.unwrap();
    for _ in 0..300 {
        sleep(SECOND).await;
        assert!(two.is_held() && two.remaining() > 15 * SECOND, "{:?}", two.remaining());
        assert!(other.leased().try_acquire(2).await.unwrap().is_none());
    }
    two.check().await.unwrap();
    two.release().await.unwrap();
    let fixed = pool.acquire(3).lease(5 * SECOND).await.unwrap();
    let begun = Instant::now();
    let again = other.leased().acquire(3).await.unwrap();
    let took = begun.elapsed();
    assert!(ms(4_900) < took && took < ms(5_100), "granted when the lease ends: {took:?}");
    assert_eq!(fixed.lost().await, Loss::Expired);
    is_lost(fixed.release().await, Loss::Expired);
    again.check().await.unwrap();
    drop(again);
    assert_eq!(other.at_rest().await, Some(3));
}

#[tokio::test(start_paused = true)]
async fn a_permit_that_was_swept_is_lost_and_never_comes_again() {
    let world = World::new();
    let sim = Sim::new(&world).await;
    let pool = sim.leased();
    pool.set(3).await.unwrap();
    let permits = pool.acquire(2).await.unwrap();
    sleep(5 * SECOND).await;
    sim.sweep(permits.ids()[1]);
    let lost = timeout(8 * SECOND, permits.lost()).await.expect("told by the next renewal");
    assert_eq!((lost, sim.out(), sim.value()), (Loss::Removed, 1, Some(2)));
    is_lost(permits.check().await, Loss::Removed);
    is_lost(permits.while_held(sleep(SECOND)).await, Loss::Removed);
    is_lost(permits.release().await, Loss::Removed);
    assert_eq!((sim.value(), sim.out()), (Some(3), 0), "the other one is returned");
    // Found by the release itself.
    let permit = pool.acquire(1).await.unwrap();
    sim.sweep(permit.id());
    is_lost(permit.release().await, Loss::Removed);
    let permit = pool.acquire(1).await.unwrap();
    sim.sweep(permit.id());
    is_lost(permit.check().await, Loss::Removed);
    let run = permit.run(async { Ok::<_, Error>(()) }).await;
    assert!(matches!(run, Err(RunError::NotBegun { why: Loss::Removed })), "{run:?}");
    assert_eq!(sim.at_rest().await, Some(3));
}

/// It was under way when the lease ended. Nobody polled it.
#[tokio::test(start_paused = true)]
async fn an_answer_from_before_the_end_of_the_lease_says_nothing_after_it() {
    let world = World::new();
    let sim = Sim::new(&world).await;
    let pool = sim.leased();
    pool.set(1).await.unwrap();
    let permit = pool.acquire(1).lease(SECOND).await.unwrap();
    let mut check = pin!(permit.check());
    assert!((&mut check).now_or_never().is_none());
    sleep(2 * SECOND).await;
    is_lost(check.now_or_never().expect("an answer"), Loss::Expired);
}

#[tokio::test(start_paused = true)]
async fn renewals_without_answers_are_told_before_the_lease_ends() {
    let world = World::new();
    let sim = Sim::new(&world).await;
    let pool = sim.leased();
    pool.set(1).await.unwrap();
    let permit = pool.acquire(1).await.unwrap();
    let begun = Instant::now();
    sim.network.fail("expirable/renew", [Fault::LoseRequest; 100]);
    assert_eq!(permit.lost().await, Loss::Expired);
    let took = begun.elapsed();
    assert!(29 * SECOND < took && took < 30 * SECOND, "{took:?}");
    drop(permit);
    assert_eq!(sim.at_rest().await, Some(1));
}

#[tokio::test(start_paused = true)]
async fn many_permits_are_renewed_in_few_calls() {
    let sim = Sim::new(&World::new()).await;
    let pool = sim.leased();
    pool.set(1_000).await.unwrap();
    let permits = join_all((0..250).map(|_| pool.acquire(2).into_future())).await;
    let calls = sim.network.calls();
    sleep(100 * SECOND).await;
    let calls = sim.network.calls() - calls;
    assert!((25..=120).contains(&calls), "{calls}");
    assert!(permits.iter().all(|permit| permit.as_ref().unwrap().is_held()));
    assert_eq!(sim.out(), 500);
    drop(permits);
    assert_eq!(sim.at_rest().await, Some(1_000));
}

/// The server serves nobody else meanwhile.
#[tokio::test(start_paused = true)]
async fn one_call_renews_a_hundred_permits_at_most() {
    let sim = Sim::new(&World::new()).await;
    let pool = sim.leased();
    pool.set(2_000).await.unwrap();
    let permits = join_all((0..20).map(|_| pool.acquire(100).into_future())).await;
    let calls = sim.network.calls();
    sleep(100 * SECOND).await;
    let calls = sim.network.calls() - calls;
    assert!((180..=300).contains(&calls), "{calls} calls renew 20 guards ten times");
    assert!(permits.iter().all(|permit| permit.as_ref().unwrap().is_held()));
    drop(permits);
    assert_eq!(sim.at_rest().await, Some(2_000));
}

#[tokio::test(start_paused = true)]
async fn a_lease_by_id_is_read_and_set() {
    let world = World::new();
    let sim = Sim::new(&world).await;
    let pool = sim.leased();
    pool.set(2).await.unwrap();
    let ids = pool.acquire(2).await.unwrap().forget();
    let [one, other] = [ids[0], ids[1]];
    let left = |remaining| match remaining {
        Remaining::Held(left) => left,
        other => panic!("{other:?}"),
    };
    assert!(left(pool.ttl_of(one).await.unwrap()) > 29 * SECOND);
    sim.network.fail("expirable/set_lease", [Fault::LoseReply]);
    assert!(pool.set_lease(one, 100 * SECOND).await.unwrap());
    assert!(pool.set_lease(other, 10 * SECOND).await.unwrap());
    let seen = pool.inspect().await.unwrap();
    assert_eq!((seen.available, seen.acquired), (0, 2));
    assert_eq!(
        seen.permits.iter().map(|out| (out.id, out.ours)).collect::<Vec<_>>(),
        [(other, true), (one, true)]
    );
    sleep(11 * SECOND).await;
    assert_eq!(pool.ttl_of(other).await.unwrap(), Remaining::Free);
    assert!(left(pool.ttl_of(one).await.unwrap()) > 85 * SECOND);
    assert!(!pool.set_lease(other, SECOND).await.unwrap(), "its lease has ended");
    assert_eq!(pool.available().await.unwrap(), 1);
    assert!(!pool.release([one, other]).await.unwrap(), "the lease of one has ended");
    assert!(pool.release([one]).await.unwrap());
    assert!(!pool.release([other]).await.unwrap());
    assert_eq!(pool.ttl_of(one).await.unwrap(), Remaining::Free);
    assert_eq!(sim.at_rest().await, Some(2));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_closes_tells_its_guards_and_returns_nothing() {
    let world = World::new();
    let sim = Sim::new(&world).await;
    sim.leased().set(3).await.unwrap();
    let permit = sim.leased().acquire(1).await.unwrap();
    let waiter = tokio::spawn(sim.leased().acquire(3).into_future());
    sleep(SECOND).await;
    sim.client.close().await.unwrap();
    assert_eq!(permit.lost().await, Loss::Closed);
    assert!(matches!(waiter.await.unwrap().unwrap_err(), Error::Closed));
    assert!(matches!(permit.release().await.unwrap_err(), Error::Closed));
    let other = Sim::new(&world).await;
    let all = other.leased().acquire(3).await.expect("it comes back when its lease ends");
    drop(all);
    assert_eq!(other.at_rest().await, Some(3));
}

#[tokio::test(start_paused = true)]
async fn a_permit_that_is_named_twice_is_returned_once() {
    let sim = Sim::new(&World::new()).await;
    let pool = sim.leased();
    pool.set(3).await.unwrap();
    let ids = pool.acquire(2).await.unwrap().forget();
    assert!(pool.release([ids[0], ids[1], ids[0]]).await.unwrap());
    assert_eq!((sim.value(), sim.out()), (Some(3), 0));
}

#[tokio::test(start_paused = true)]
async fn each_lease_that_ends_serves_a_waiter_at_once() {
    let world = World::new();
    let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
    let pool = sim.leased();
    pool.set(3).await.unwrap();
    // Of a process that dies.
    for lease in [2_000, 2_500, 2_900] {
        other.leased().acquire(1).lease(ms(lease)).await.unwrap().forget();
    }
    let begun = Instant::now();
    let wait = || async {
        let permit = pool.acquire(1).await.unwrap();
        (permit, begun.elapsed())
    };
    let waits = join_all((0..3).map(|_| wait())).await;
    let last = waits.iter().map(|(_, after)| *after).max().unwrap();
    assert!(ms(2_800) < last && last < ms(3_100), "{last:?}");
    drop(waits);
    assert_eq!((sim.at_rest().await, sim.out()), (Some(3), 0));
}

#[tokio::test(start_paused = true)]
async fn leases_of_a_semaphore_that_is_gone_hurry_no_waiter() {
    let world = World::new();
    let sim = Sim::new(&world).await;
    let pool = sim.leased();
    pool.set(1).await.unwrap();
    pool.acquire(1).lease(SECOND).await.unwrap().forget();
    world.forget(NAME);
    let waiter = tokio::spawn(pool.acquire(1).into_future());
    sleep(2 * SECOND).await;
    let calls = sim.network.calls();
    sleep(30 * SECOND).await;
    let calls = sim.network.calls() - calls;
    assert!(calls <= 12, "{calls} requests in 30 s");
    waiter.abort();
}

#[tokio::test(start_paused = true)]
async fn permits_of_a_semaphore_that_is_gone_return_to_no_later_one() {
    let world = World::new();
    let sim = Sim::new(&world).await;
    let pool = sim.leased();
    for how in ["try_set", "set", "add"] {
        pool.set(2).await.unwrap();
        let dead = pool.acquire(1).lease(SECOND).await.unwrap();
        let alive = pool.acquire(1).await.unwrap();
        world.forget(NAME);
        match how {
            "try_set" => assert!(pool.try_set(2).await.unwrap()),
            "set" => pool.set(2).await.unwrap(),
            _ => pool.add(2).await.unwrap(),
        }
        assert_eq!(pool.permits().await.unwrap(), 2, "{how}");
        let all = pool.acquire(2).await.unwrap();
        assert_eq!(timeout(11 * SECOND, alive.lost()).await, Ok(Loss::Removed), "{how}");
        is_lost(dead.release().await, Loss::Expired);
        is_lost(alive.release().await, Loss::Removed);
        assert!(pool.try_acquire(1).await.unwrap().is_none(), "{how}: a third permit of two");
        assert_eq!((sim.value(), sim.out()), (Some(0), 2), "{how}");
        all.release().await.unwrap();
        assert_eq!(sim.at_rest().await, Some(2));
        world.forget(NAME);
    }
}

/// A copy of the acquisition that runs late takes nothing after another process returned the permit.
#[tokio::test(start_paused = true)]
async fn a_late_copy_takes_no_forgotten_permit_that_was_returned() {
    let world = World::new();
    for late in (100..4_000).step_by(300) {
        world.write(NAME, "3");
        let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
        sim.network.fail("expirable/acquire", [Fault::Linger(ms(late))]);
        let ids = sim.leased().acquire(1).lease(3_600 * SECOND).await.unwrap().forget();
        sleep(ms(50)).await;
        assert!(other.leased().release(&ids).await.unwrap());
        sleep(5 * SECOND).await;
        assert_eq!((sim.value(), sim.out()), (Some(3), 0), "late by {late} ms");
    }
}

/// A late copy of the acquisition does not take the permit again: its guard is told that it was taken back.
#[tokio::test(start_paused = true)]
async fn a_late_copy_brings_back_no_permit_that_was_swept() {
    let world = World::new();
    let sim = Sim::new(&world).await;
    let pool = sim.leased();
    pool.set(3).await.unwrap();
    for is_renewed_before in [false, true] {
        let late = if is_renewed_before { 13_000 } else { 2_500 };
        sim.network.fail("expirable/acquire", [Fault::Linger(ms(late))]);
        let permit = pool.acquire(1).await.unwrap();
        sleep(if is_renewed_before { 12 * SECOND } else { SECOND }).await;
        assert!(permit.is_held() && permit.remaining() > 15 * SECOND);
        sim.sweep(permit.id());
        assert_eq!(timeout(11 * SECOND, permit.lost()).await, Ok(Loss::Removed));
        is_lost(permit.release().await, Loss::Removed);
        assert_eq!((sim.value(), sim.out()), (Some(3), 0));
        // One that nobody sweeps is renewed and returned.
        sim.network.fail("expirable/acquire", [Fault::Linger(ms(late))]);
        let permit = pool.acquire(1).await.unwrap();
        sleep(100 * SECOND).await;
        permit.check().await.unwrap();
        permit.release().await.unwrap();
        assert_eq!((sim.value(), sim.out()), (Some(3), 0));
    }
    assert_eq!(sim.at_rest().await, Some(3));
}

/// The request that lets no late copy do anything is lost, too.
#[tokio::test(start_paused = true)]
async fn a_late_copy_of_an_acquisition_makes_no_lease_shorter() {
    let sim = Sim::new(&World::new()).await;
    let pool = sim.leased();
    assert!(pool.try_set(1).await.unwrap());
    sim.network.fail("expirable/acquire", [Fault::Linger(SECOND)]);
    sim.network.fail("counter/cancel", [Fault::Silent(3 * SECOND)]);
    let ids = pool.acquire(1).await.unwrap().forget();
    let hour = 3_600 * SECOND;
    assert!(pool.set_lease(ids[0], hour).await.unwrap());
    sleep(2 * SECOND).await;
    let left = pool.ttl_of(ids[0]).await.unwrap();
    assert!(matches!(left, Remaining::Held(left) if left > hour / 2), "{left:?}");
}
