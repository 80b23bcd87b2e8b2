//! Any of several segments: how many requests that takes, who is woken, and what is left when the
//! caller is dropped at any moment.

mod endings;

use std::{sync::Arc, time::Duration};

use futures::future::join_all;
use tokio::time::{Instant, sleep, timeout};

use super::{Fault, ONE_WAY, Sim, World, ms};
use crate::{Error, LockGuard, SegmentedLock};

const NAME: &str = "stock";
const SEGMENTS: usize = 4;

fn stock(sim: &Sim) -> SegmentedLock {
    sim.client.segmented(NAME, SEGMENTS)
}

/// Holds on all segments, in order.
async fn hold_all(sim: &Sim) -> Vec<LockGuard> {
    join_all(stock(sim).iter().map(|segment| async move { segment.lock().await.unwrap() })).await
}

async fn unlock_soon(guard: LockGuard) {
    sleep(ms(1)).await;
    guard.unlock().await.unwrap();
}

/// After this time a waiter stands in all lines, and messages can be relied on.
fn settled() -> Duration {
    ms(10) * SEGMENTS as u32 + 10 * ONE_WAY
}

/// How many segments this client has on the server.
fn held_by(sim: &Sim) -> usize {
    (0..SEGMENTS)
        .filter_map(|i| sim.holder(&format!("{NAME}:{i}")))
        .filter(|holder| holder.id().starts_with(sim.client.id()))
        .count()
}

#[tokio::test(start_paused = true)]
async fn a_free_segment_takes_one_request_and_each_held_one_before_it_one_more() {
    let world = World::new();
    let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
    let any = stock(&sim).any().starting_at(1);
    for held in 0..SEGMENTS {
        let segments: Vec<_> = (0..held).map(|i| stock(&other).segment((1 + i) % 4)).collect();
        let held_there = join_all(segments.iter().map(|it| async { it.lock().await.unwrap() }));
        let held_there = held_there.await;
        for _ in 0..2 {
            let before = sim.network.calls();
            let guard = any.lock().await.unwrap();
            assert_eq!(guard.segment(), (1 + held) % SEGMENTS);
            assert_eq!(sim.network.calls() - before, 1 + held);
            guard.unlock().await.unwrap();
            let before = sim.network.calls();
            let guard = any.try_lock().await.unwrap().unwrap();
            assert_eq!(sim.network.calls() - before, 1 + held);
            guard.unlock().await.unwrap();
        }
        drop(held_there);
        assert!(other.left().await.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_waits_does_not_ask_for_what_its_client_holds() {
    let sim = Sim::new(&World::new()).await;
    let any = stock(&sim).any().starting_at(0);
    let mut guards = Vec::new();
    for i in 0..SEGMENTS {
        let before = sim.network.calls();
        guards.push(any.lock().await.unwrap());
        assert_eq!((guards[i].segment(), sim.network.calls() - before), (i, 1));
    }
    // One that does not wait asks for each.
    let before = sim.network.calls();
    assert!(any.try_lock().await.unwrap().is_none());
    assert_eq!(sim.network.calls() - before, SEGMENTS);
    // A waiter in the process is handed the hold, for as many requests as one of a lock.
    let lock = sim.client.lock("other");
    let held = lock.lock().await.unwrap();
    // As long as the segments have been held.
    sleep(ms(100)).await;
    let before = sim.network.calls();
    let waiter = async { lock.lock().await.unwrap() };
    let (of_lock, ()) = tokio::join!(waiter, unlock_soon(held));
    let calls = sim.network.calls() - before;
    drop(of_lock);
    sim.client.settled().await;
    let before = sim.network.calls();
    let waiter = async { any.lock().await.unwrap() };
    let (guard, ()) = tokio::join!(waiter, unlock_soon(guards.remove(0).into_guard()));
    assert_eq!((guard.segment(), sim.network.calls() - before), (0, calls));
    drop((guard, guards));
    assert!(sim.left().await.is_empty());
}

/// Its search asks for each segment once. Then it asks again as it begins to wait, and when it is
/// subscribed. A second caller of the client asks for none. Both leave without a request.
#[tokio::test(start_paused = true)]
async fn a_wait_for_held_segments_takes_few_requests_and_its_end_takes_none() {
    let world = World::new();
    let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
    let held = hold_all(&other).await;
    let wait = async |most: Duration| {
        let before = sim.network.calls();
        let wait = timeout(most, stock(&sim).any().starting_at(0).lock().into_future());
        assert!(wait.await.is_err());
        sim.network.calls() - before
    };
    let (first, second) = tokio::join!(wait(ms(400)), async {
        sleep(2 * settled()).await;
        wait(ms(100)).await
    });
    assert_eq!((first, second), (3 * SEGMENTS, 0));
    let before = sim.network.calls();
    sim.client.settled().await;
    assert_eq!(sim.network.calls() - before, 0);
    drop(held);
    assert!(sim.left().await.is_empty() && other.left().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_release_of_any_segment_at_any_ms_ends_the_wait_in_time() {
    let world = World::new();
    for (released, after) in
        (0..SEGMENTS).flat_map(|i| (0..90).step_by(3).chain([2_000]).map(move |ms| (i, ms)))
    {
        let what = format!("segment {released} released after {after} ms");
        let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
        let mut held = hold_all(&other).await;
        let waiter = async {
            let guard = stock(&sim).any().starting_at(0).lock().await.unwrap();
            (guard, Instant::now())
        };
        let release = async {
            sleep(ms(after)).await;
            held.remove(released).unlock().await.unwrap();
            Instant::now()
        };
        let both = async { tokio::join!(waiter, release) };
        let Ok(((guard, granted), free)) = timeout(ms(5_000), both).await else {
            panic!("{what}: the waiter sleeps");
        };
        assert_eq!(guard.segment(), released, "{what}");
        let late = granted.saturating_duration_since(free);
        let most = if ms(after) < settled() { settled() } else { 4 * ONE_WAY };
        assert!(late <= most, "{what}: {late:?}");
        drop((guard, held));
        assert!(sim.left().await.is_empty() && other.left().await.is_empty(), "{what}");
    }
}

async fn cut_and_look(world: &Arc<World>, after: u64, faults: &[Fault], released: &[usize]) {
    let what = format!("cut after {after} ms, {faults:?}, released {released:?}");
    let [sim, other, third] = [Sim::new(world).await, Sim::new(world).await, Sim::new(world).await];
    let mut held: Vec<_> = hold_all(&other).await.into_iter().map(Some).collect();
    sim.network.fail("acquire", faults.iter().copied());
    // In the middle of a ms: every timer of the network fires at whole ones.
    let cut = ms(after) + Duration::from_micros(500);
    let any = stock(&sim).any().starting_at(0);
    let waiters = async {
        let first = async {
            if let Ok(guard) = timeout(cut, any.lock().into_future()).await {
                guard.unwrap().unlock().await.unwrap();
            }
        };
        let other_waiter = async {
            let any = stock(&third).any().starting_at(released[0]);
            any.lock().await.unwrap().unlock().await.unwrap();
        };
        let release = async {
            sleep(ms(40)).await;
            let free = released.iter().map(|&i| held[i].take().unwrap().unlock());
            join_all(free).await.into_iter().for_each(|unlocked| unlocked.unwrap());
        };
        tokio::join!(first, other_waiter, release)
    };
    // By a message, that is: far sooner than a waiter asks again by itself.
    let bound = ms(1_500);
    assert!(timeout(bound, waiters).await.is_ok(), "{what}: the other waiter was not woken");
    sim.client.settled().await;
    sleep(ms(100)).await;
    assert_eq!(held_by(&sim), 0, "{what}");
    drop(held);
    let left = [sim.left().await, other.left().await, third.left().await].concat();
    assert!(left.is_empty(), "{what}: left {left:?}");
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_is_dropped_at_any_ms_holds_no_segment() {
    let world = World::new();
    for after in 0..80 {
        cut_and_look(&world, after, &[], &[1]).await;
        cut_and_look(&world, after, &[], &[0, 2, 3]).await;
        cut_and_look(&world, after, &[Fault::LoseReply], &[0, 1]).await;
        let lingers = [Fault::SlowReply(ms(20)), Fault::Linger(ms(40))];
        cut_and_look(&world, after, &lingers, &[0, 3]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn of_two_segments_that_become_free_in_one_moment_a_caller_keeps_one() {
    let world = World::new();
    let mut both = 0;
    for apart in 0..10 {
        let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
        let mut held = hold_all(&other).await;
        let waiter = tokio::spawn(stock(&sim).any().lock().into_future());
        sleep(2 * settled()).await;
        let [first, second] = [held.pop().unwrap(), held.pop().unwrap()];
        let second = async {
            sleep(Duration::from_micros(500 * apart)).await;
            second.unlock().await.unwrap();
        };
        let (first, ()) = tokio::join!(first.unlock(), second);
        first.unwrap();
        let guard = timeout(ms(100), waiter).await.expect("in time").unwrap().unwrap();
        both += u32::from(held_by(&sim) == 2);
        sim.client.settled().await;
        assert_eq!(held_by(&sim), 1, "{apart}");
        assert!(guard.check().await.is_ok());
        assert!(stock(&other).any().try_lock().await.unwrap().is_some(), "the other one is free");
        drop((guard, held));
        assert!(sim.left().await.is_empty() && other.left().await.is_empty());
    }
    assert!(both > 0, "it was never granted two");
}

#[tokio::test(start_paused = true)]
async fn a_bounded_wait_ends_in_time_and_misses_nothing_that_is_free_at_its_end() {
    let world = World::new();
    for wait in (1..70).step_by(4) {
        let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
        let mut held = hold_all(&other).await;
        let any = stock(&sim).any().starting_at(0);
        let begun = Instant::now();
        assert!(any.try_lock().wait(ms(wait)).await.unwrap().is_none(), "{wait}");
        assert!(begun.elapsed() <= ms(wait) + settled(), "{wait}: {:?}", begun.elapsed());
        // The last one to be asked for, released a round trip before a message has to be sent.
        let begun = Instant::now();
        let release = async {
            sleep(ms(wait).saturating_sub(4 * ONE_WAY)).await;
            held.pop().unwrap().unlock().await.unwrap();
        };
        let (found, ()) = tokio::join!(any.try_lock().wait(ms(wait)).into_future(), release);
        assert!(begun.elapsed() <= ms(wait) + settled(), "{wait}: {:?}", begun.elapsed());
        assert_eq!(found.unwrap().unwrap_or_else(|| panic!("{wait}: free")).segment(), 3);
        drop(held);
        assert!(sim.left().await.is_empty() && other.left().await.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn an_owner_re_enters_the_segment_that_it_holds() {
    let sim = Sim::new(&World::new()).await;
    let any = stock(&sim).any();
    let mut me = sim.client.owner();
    let outer = any.lock().by(&mut me).await.unwrap();
    for _ in 0..20 {
        let inner = any.lock().by(&mut me).await.unwrap();
        assert_eq!((inner.segment(), inner.hold_count()), (outer.segment(), 2));
        inner.unlock().await.unwrap();
    }
    let others = any.clone().except([outer.segment()]);
    let second = others.lock().by(&mut me).await.unwrap();
    assert_ne!(second.segment(), outer.segment());
    drop((outer, second));
    assert!(sim.left().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_used_is_refused_without_a_request() {
    let sim = Sim::new(&World::new()).await;
    let none = stock(&sim).any().except(0..SEGMENTS);
    assert!(none.is_empty());
    let wrong = [
        none.lock().await.map(drop),
        none.try_lock().await.map(drop),
        sim.client.segmented(NAME, 0).any().lock().await.map(drop),
        sim.client.segmented(NAME, 0).all().lock().await.map(drop),
        sim.client.segmented(NAME, 0).of("key").lock().await.map(drop),
        sim.client.segmented(NAME, 1025).segment(0).lock().await.map(drop),
        sim.client.segmented("", 4).any().lock().await.map(drop),
        stock(&sim).segment(SEGMENTS).lock().await.map(drop),
        stock(&sim).any().lock().lease(ms(1)).await.map(drop),
        stock(&sim).any().try_lock().lease(ms(1)).await.map(drop),
        stock(&sim).any().try_lock().wait(Duration::MAX).await.map(drop),
    ];
    for refused in wrong {
        assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
    }
    assert_eq!(sim.network.calls(), 0);
    assert!(!sim.client.segmented(NAME, 0).any().is_empty(), "its acquisition says why");
}
