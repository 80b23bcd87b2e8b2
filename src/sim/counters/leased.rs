//! The expirable semaphore: requests that count once, waiters, and what is told.

use std::time::Duration;

use futures::future::join_all;
use harness::{Messages, redis::cmd};
use tokio::time::{Instant, sleep, timeout};

use super::{
    CHANNEL, NAME,
    cuts::{cut, cut_everywhere},
    ms,
};
use crate::{
    Error, ExpirableSemaphore, PermitId,
    sim::{Fault, ONE_WAY, Sim, World},
};

pub(super) const OUT: &str = "{pool}:timeout";
pub(super) const SECOND: Duration = Duration::from_secs(1);

impl Sim {
    /// How many permits are out, those whose lease has ended included.
    pub(super) fn out(&self) -> i64 {
        self.world.inspector.lock().unwrap().query(cmd("ZCARD").arg(OUT))
    }
}

#[tokio::test(start_paused = true)]
async fn a_hundred_lost_replies_of_each_request_count_once() {
    let sim = Sim::new(&World::new()).await;
    let pool = sim.leased();
    assert!(pool.try_set(1_000).await.unwrap());
    let mut permits = Vec::new();
    for round in 1..=100 {
        sim.network.fail("expirable/acquire", [Fault::LoseReply]);
        permits.push(pool.acquire(3).await.unwrap());
        assert_eq!((sim.value(), sim.out()), (Some(1_000 - 3 * round), 3 * round));
    }
    for round in 1..=100 {
        sim.network.fail("expirable/release", [Fault::LoseReply]);
        permits.pop().unwrap().release().await.unwrap();
        assert_eq!((sim.value(), sim.out()), (Some(700 + 3 * round), 300 - 3 * round));
    }
    for round in 1..=100 {
        let id = pool.acquire(1).await.unwrap().forget();
        sim.network.fail("expirable/release", [Fault::LoseReply]);
        assert!(pool.release(&id).await.unwrap(), "released by id, round {round}");
        sim.network.fail("expirable/change", [Fault::LoseReply]);
        pool.add(if round % 2 == 0 { -7 } else { 7 }).await.unwrap();
        assert_eq!(sim.value(), Some(1_000 + 7 * (round % 2)));
    }
    for round in 1..=100_u32 {
        sim.network.fail("expirable/change", [Fault::LoseReply]);
        pool.set(round).await.unwrap();
        assert_eq!(sim.value(), Some(round.into()));
    }
    assert_eq!(sim.at_rest().await, Some(100));
}

#[tokio::test(start_paused = true)]
async fn permits_cut_at_any_ms_are_returned_once() {
    let world = World::new();
    let returned: fn(Option<i64>) -> bool = |value| value == Some(3);
    for (what, acquire, release) in [
        ("no fault", &[][..], &[][..]),
        ("two lost replies", &[Fault::LoseReply, Fault::LoseReply], &[]),
        ("a copy that lingers", &[Fault::Linger(ms(40))], &[]),
        ("a copy that runs very late", &[Fault::Linger(ms(20_000))], &[]),
        ("release, a lost reply", &[], &[Fault::LoseReply]),
        ("release, lost requests", &[], &[Fault::LoseRequest, Fault::Linger(ms(40))]),
        ("both", &[Fault::LoseReply], &[Fault::LoseReply, Fault::LoseRequest]),
    ] {
        for is_dropped in [true, false] {
            cut_everywhere(&world, what, "3", returned, async |sim| {
                sim.network.fail("expirable/acquire", acquire.iter().copied());
                sim.network.fail("expirable/release", release.iter().copied());
                let permit = sim.leased().acquire(2).await.unwrap();
                match is_dropped {
                    true => drop(permit),
                    false => permit.release().await.unwrap(),
                }
                sleep(ms(30)).await;
            })
            .await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_cut_at_any_ms_leaves_its_wake_up_to_the_next() {
    let world = World::new();
    for after in 0..90 {
        world.write(NAME, "1");
        let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
        let out = other.leased().acquire(1).await.unwrap();
        let pool = sim.leased();
        let waiters = async {
            let first = cut(after, async { drop(pool.acquire(1).await.unwrap()) });
            let second = async {
                sleep(ms(1)).await;
                pool.acquire(1).await.unwrap().release().await.unwrap();
            };
            let release = async {
                sleep(ms(50)).await;
                out.release().await.unwrap();
            };
            tokio::join!(first, second, release)
        };
        let all = timeout(ms(50) + 60 * ONE_WAY, waiters).await;
        assert!(all.is_ok(), "cut after {after} ms: the second sleeps on");
        assert_eq!(sim.at_rest().await, Some(1), "cut after {after} ms");
    }
}

/// A copy of the acquisition that runs after the release takes nothing.
#[tokio::test(start_paused = true)]
async fn a_late_copy_of_an_acquisition_takes_nothing() {
    let world = World::new();
    for late in (0..4_000).step_by(100) {
        world.write(NAME, "3");
        let sim = Sim::new(&world).await;
        let pool = sim.leased();
        sim.network.fail("expirable/acquire", [Fault::Linger(ms(late))]);
        let permit = pool.acquire(2).await.unwrap();
        sleep(ms(100)).await;
        permit.release().await.unwrap();
        sleep(ms(5_000)).await;
        assert_eq!((sim.value(), sim.out()), (Some(3), 0), "late by {late} ms");
        // Refused, and then others have them back.
        let all = pool.acquire(3).await.unwrap();
        sim.network.fail("expirable/acquire", [Fault::Linger(ms(late))]);
        assert!(pool.try_acquire(1).wait(ms(30)).await.unwrap_or(None).is_none());
        sleep(ms(20)).await;
        all.release().await.unwrap();
        sleep(ms(5_000)).await;
        assert_eq!((sim.at_rest().await, sim.out()), (Some(3), 0), "refused, late by {late} ms");
    }
}

/// Permits of clients that died come back by chunks, and nobody who waits misses them.
#[tokio::test(start_paused = true)]
async fn permits_whose_lease_has_ended_are_swept_in_chunks() {
    let world = World::new();
    let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
    let pool = sim.leased();
    pool.set(350).await.unwrap();
    for _ in 0..7 {
        pool.acquire(50).lease(10 * SECOND).await.unwrap().forget();
    }
    assert_eq!((pool.available().await.unwrap(), pool.acquired().await.unwrap()), (0, 350));
    let begun = Instant::now();
    let waiters =
        join_all((0..3).map(|_| other.client.expirable_semaphore(NAME).acquire(90).into_future()));
    let waiters = timeout(20 * SECOND, waiters).await.expect("all waiters to be granted");
    assert!(begun.elapsed() < 12 * SECOND, "{:?}", begun.elapsed());
    let seen = pool.inspect().await.unwrap();
    assert_eq!((seen.available, seen.acquired, pool.permits().await.unwrap()), (80, 270, 350));
    assert!(seen.permits.iter().all(|permit| !permit.ours));
    drop(waiters);
    other.left().await;
    assert_eq!(sim.value().unwrap() + sim.out(), 350, "the rest is swept by the next ones");
}

/// A semaphore of 50 permits, whose 200 former ones are out for a second, and belong to nobody.
async fn of_fifty_behind_two_hundred(sim: &Sim) -> ExpirableSemaphore {
    let pool = sim.leased();
    pool.set(300).await.unwrap();
    for _ in 0..2 {
        pool.acquire(100).lease(SECOND).await.unwrap().forget();
    }
    pool.set(50).await.unwrap();
    pool
}

/// One request returns the permits of 100 leases that have ended, at most.
#[tokio::test(start_paused = true)]
async fn one_that_does_not_wait_gets_a_permit_behind_many_whose_lease_has_ended() {
    let world = World::new();
    let sim = Sim::new(&world).await;
    let pool = of_fifty_behind_two_hundred(&sim).await;
    assert!(pool.try_acquire(1).await.unwrap().is_none(), "their leases last");
    sleep(2 * SECOND).await;
    assert_eq!(pool.available().await.unwrap(), 50);
    let calls = sim.network.calls();
    let permit = pool.try_acquire(1).await.unwrap().expect("one of 50");
    assert_eq!((sim.network.calls() - calls, sim.value(), sim.out()), (2, Some(49), 1));
    permit.release().await.unwrap();
    assert_eq!(sim.at_rest().await, Some(50));
}

/// It is not known then whether there are enough.
#[tokio::test(start_paused = true)]
async fn a_server_that_falls_silent_while_it_takes_permits_back_is_an_error() {
    let world = World::new();
    let sim = Sim::new(&world).await;
    let pool = of_fifty_behind_two_hundred(&sim).await;
    sleep(2 * SECOND).await;
    sim.network.fail("expirable/acquire", [Fault::SlowReply(ms(1)), Fault::Silent(20 * SECOND)]);
    let answer = pool.try_acquire(1).await;
    assert!(matches!(answer, Err(Error::Redis(_))), "{answer:?}");
    let permit = pool.try_acquire(1).await.unwrap().expect("one of 50");
    permit.release().await.unwrap();
    assert_eq!(sim.at_rest().await, Some(50));
}

#[tokio::test(start_paused = true)]
async fn waiters_of_mixed_sizes_do_not_sleep_beside_free_permits() {
    let world = World::new();
    for after in 0..40 {
        world.write(NAME, "3");
        let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
        let [one, two] = [1, 2].map(|n| other.leased().acquire(n).into_future());
        let (one, two) = (one.await.unwrap(), two.await.unwrap());
        let pool = sim.leased();
        let large = async { pool.acquire(3).await.unwrap().release().await.unwrap() };
        let small = async {
            sleep(ms(5)).await;
            let permit = pool.acquire(1).await.unwrap();
            let at = Instant::now();
            permit.release().await.unwrap();
            at
        };
        let release = async {
            sleep(ms(after)).await;
            one.release().await.unwrap();
            let at = Instant::now();
            sleep(20 * ONE_WAY).await;
            two.release().await.unwrap();
            at
        };
        let all = async { tokio::join!(large, small, release) };
        let ((), granted, released) = timeout(SECOND, all).await.expect("all to be granted");
        let took = granted.saturating_duration_since(released);
        assert!(took < 20 * ONE_WAY, "released after {after} ms: {took:?}");
        assert_eq!(sim.at_rest().await, Some(3));
    }
}

/// What is published: by a release of one permit the new number, of several how many.
#[tokio::test(start_paused = true)]
async fn messages_and_keys_are_redissons() {
    let world = World::new();
    let sim = Sim::new(&world).await;
    let pool = sim.leased();
    let mut messages = Messages::on(world.server.client(), CHANNEL);
    let mut told = || messages.so_far(&world.inspector.lock().unwrap());
    assert!(pool.try_set(5).await.unwrap() && !pool.try_set(4).await.unwrap());
    assert_eq!(told(), ["5"]);
    let (one, two) = (pool.acquire(1).await.unwrap(), pool.acquire(2).await.unwrap());
    assert_eq!((told(), sim.value(), sim.out()), (vec![], Some(2), 3));
    one.release().await.unwrap();
    two.release().await.unwrap();
    assert_eq!(told(), ["3", "2"]);
    pool.add(4).await.unwrap();
    pool.add(-2).await.unwrap();
    pool.add(0).await.unwrap();
    assert_eq!((told(), sim.value()), (vec!["4".into()], Some(7)));
    let two = pool.acquire(2).await.unwrap();
    pool.set(7).await.unwrap();
    assert_eq!((told(), sim.value()), (vec![], Some(5)));
    pool.set(1).await.unwrap();
    assert_eq!((told(), sim.value()), (vec!["1".into()], Some(-1)));
    assert_eq!((pool.available().await.unwrap(), pool.permits().await.unwrap()), (-1, 1));
    two.release().await.unwrap();
    assert_eq!((told(), sim.at_rest().await), (vec!["2".into()], Some(1)));
}

#[tokio::test(start_paused = true)]
async fn a_permit_does_not_revive_a_semaphore_that_was_deleted() {
    let world = World::new();
    let sim = Sim::new(&world).await;
    let pool = sim.leased();
    assert!(pool.try_acquire(1).await.unwrap().is_none());
    assert_eq!((pool.available().await.unwrap(), pool.permits().await.unwrap()), (0, 0));
    pool.set(3).await.unwrap();
    let permit = pool.acquire(1).await.unwrap();
    world.forget(NAME);
    permit.release().await.unwrap();
    assert_eq!(sim.at_rest().await, None);
}

/// As by Redisson: of several permits all are returned, or none.
#[tokio::test(start_paused = true)]
async fn of_several_ids_all_are_returned_or_none() {
    let world = World::new();
    let sim = Sim::new(&world).await;
    let pool = sim.leased();
    assert!(pool.try_set(4).await.unwrap());
    let two = pool.acquire(2).lease(SECOND).await.unwrap().forget();
    let [one, other] = two[..] else { panic!("{two:?}") };
    let short = pool.acquire(1).lease(ms(50)).await.unwrap().forget()[0];
    sleep(ms(60)).await;
    let strange = "000102030405060708090a0b0c0d0e0f".parse().unwrap();
    for not_out in [short, strange] {
        assert!(!pool.release([one, not_out, other]).await.unwrap());
        assert_eq!(pool.acquired().await.unwrap(), 2);
    }
    // Each copy gets the same answer, and one returns them.
    sim.network.fail("expirable/release", [Fault::LoseReply]);
    assert!(pool.release([one, other, one]).await.unwrap());
    assert_eq!((pool.acquired().await.unwrap(), sim.value()), (0, Some(3)));
    assert!(!pool.release([one, other]).await.unwrap());
    // A lone one is returned also when its lease has ended.
    assert!(!pool.release([short]).await.unwrap());
    assert_eq!(sim.value(), Some(4));
}

#[tokio::test(start_paused = true)]
async fn arguments_out_of_range_are_told_and_nothing_is_sent() {
    let sim = Sim::new(&World::new()).await;
    let pool = sim.leased();
    let invalid = |error: Error| assert!(matches!(error, Error::Invalid(_)), "{error:?}");
    let before = sim.network.calls();
    invalid(pool.acquire(0).await.unwrap_err());
    invalid(pool.try_acquire(101).await.unwrap_err());
    invalid(pool.acquire(1).lease(ms(9)).await.unwrap_err());
    invalid(pool.release([]).await.unwrap_err());
    invalid(pool.try_set(u32::MAX).await.unwrap_err());
    invalid(pool.set(1 << 31).await.unwrap_err());
    let id: PermitId = "000102030405060708090a0b0c0d0eff".parse().unwrap();
    invalid(pool.release([id; 101]).await.unwrap_err());
    invalid(pool.set_lease(id, Duration::ZERO).await.unwrap_err());
    invalid(sim.client.expirable_semaphore("").acquire(1).await.unwrap_err());
    assert_eq!(sim.network.calls(), before);
}

#[tokio::test(start_paused = true)]
async fn a_key_of_another_kind_is_told_and_left_alone() {
    let world = World::new();
    let sim = Sim::new(&world).await;
    let held = sim.client.lock(NAME).lock().await.unwrap();
    let wrong = |error: Error| assert!(matches!(error, Error::WrongKind { .. }), "{error:?}");
    let pool = sim.leased();
    wrong(pool.acquire(1).await.unwrap_err());
    wrong(pool.available().await.unwrap_err());
    wrong(pool.add(1).await.unwrap_err());
    assert!(!pool.try_set(1).await.unwrap());
    held.unlock().await.unwrap();
    // Nor is a text that is no number.
    world.write(NAME, "many");
    wrong(pool.acquire(1).await.unwrap_err());
    wrong(pool.inspect().await.unwrap_err());
    wrong(pool.add(1).await.unwrap_err());
    wrong(pool.set(1).await.unwrap_err());
    let left: String = world.inspector.lock().unwrap().query(cmd("GET").arg(NAME));
    assert_eq!(left, "many");
}
