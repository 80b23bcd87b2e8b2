//! Waits for any segment that end, or go on, by what happens to a server, a hold or the client.

use futures::future::try_join_all;
use tokio::time::{Instant, sleep, timeout};

use super::{NAME, SEGMENTS, hold_all, settled, stock};
use crate::{
    Error,
    sim::{Fault, Sim, World, ms},
};

#[tokio::test(start_paused = true)]
async fn a_server_that_falls_silent_ends_the_search_and_the_wait_with_an_error() {
    let world = World::new();
    for (begins_silent, wait) in
        [true, false].into_iter().flat_map(|it| [(it, None), (it, Some(ms(30_000)))])
    {
        let what = format!("silent from the beginning: {begins_silent}, wait: {wait:?}");
        let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
        let held = hold_all(&other).await;
        let any = stock(&sim).any();
        let silence = || (0..200).map(|_| Fault::Silent(ms(1_000)));
        if begins_silent {
            sim.network.fail("acquire", silence());
            // Without a wait, all segments together have the time of one command.
            let begun = Instant::now();
            let refused = any.try_lock().await;
            assert!(matches!(refused, Err(Error::Redis(_))), "{what}: {refused:?}");
            assert!(begun.elapsed() <= ms(3_500), "{what}: {:?}", begun.elapsed());
        }
        let begun = Instant::now();
        let waiter = async {
            match wait {
                None => any.lock().await.map(Some),
                Some(wait) => any.try_lock().wait(wait).await,
            }
        };
        let meanwhile = async {
            sleep(ms(500)).await;
            sim.network.fail("acquire", silence());
        };
        let (found, ()) = tokio::join!(waiter, meanwhile);
        assert!(matches!(found, Err(Error::Redis(_))), "{what}: {found:?}");
        // Every segment has been asked for: its waiter asks after some s, and gives up after some more.
        assert!(begun.elapsed() < ms(60_000), "{what}: {:?}", begun.elapsed());
        sim.network.heal();
        drop(held);
        assert!(sim.left().await.is_empty() && other.left().await.is_empty(), "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn many_segments_of_silent_servers_have_the_time_of_a_few() {
    let timeout = ms(3_000);
    for (segments, wait, bound) in [
        (4, None, timeout),
        (256, None, timeout),
        (1_024, None, timeout),
        (512, Some(ms(100)), ms(100) + 2 * timeout),
    ] {
        let sim = Sim::new(&World::new()).await;
        let any = sim.client.segmented(NAME, segments).any();
        sim.network.fail("", (0..9_000).map(|_| Fault::Silent(timeout)));
        let begun = Instant::now();
        let refused = match wait {
            None => any.try_lock().await,
            Some(wait) => any.try_lock().wait(wait).await,
        };
        assert!(matches!(refused, Err(Error::Redis(_))), "{segments}: {refused:?}");
        assert!(begun.elapsed() <= bound + ms(50), "{segments}: {:?}", begun.elapsed());
        sim.network.heal();
        assert!(sim.left().await.is_empty(), "{segments}");
    }
}

/// Each of them answers at once, but one after the other they would take longer than the call may.
#[tokio::test(start_paused = true)]
async fn the_last_of_many_segments_is_found_in_time() {
    const MANY: usize = 1_024;
    let world = World::new();
    for wait in [ms(0), ms(100)] {
        let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
        let stock = other.client.segmented(NAME, MANY);
        let held = stock.iter().skip(1).map(|segment| segment.lock().into_future());
        let held: Vec<_> = try_join_all(held).await.unwrap();
        let any = sim.client.segmented(NAME, MANY).any().starting_at(1);
        let found = any.clone().try_lock().wait(wait).await.unwrap().expect("one is free");
        assert_eq!(found.segment(), 0);
        let refused = any.try_lock().wait(wait).await.unwrap();
        assert!(refused.is_none(), "{refused:?}");
        drop((found, held));
        assert!(sim.left().await.is_empty() && other.left().await.is_empty());
    }
}

/// The one before has answered.
#[tokio::test(start_paused = true)]
async fn an_error_names_the_segment_that_is_silent() {
    let world = World::new();
    let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
    let held = other.client.segmented(NAME, 2).iter().next().unwrap().lock().await.unwrap();
    sim.network.fail("acquire", [Fault::SlowReply(ms(0)), Fault::Silent(ms(3_000))]);
    let refused = sim.client.segmented(NAME, 2).any().starting_at(0).try_lock().await;
    let error = refused.unwrap_err().to_string();
    assert!(error.contains(&format!("{NAME}:1")), "{error}");
    drop(held);
    assert!(sim.left().await.is_empty() && other.left().await.is_empty());
}

/// One segment after the other fails and serves again. At no moment do all of them fail.
#[tokio::test(start_paused = true)]
async fn errors_of_segments_that_serve_again_do_not_end_the_wait() {
    let world = World::new();
    let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
    let mut held = hold_all(&other).await;
    let waiter = tokio::spawn(stock(&sim).any().starting_at(0).lock().into_future());
    sleep(2 * settled()).await;
    for i in 0..SEGMENTS {
        sim.network.cut_off(Some(format!("{NAME}:{i}")));
        sleep(ms(60_000)).await;
        sim.network.cut_off(None);
        sleep(ms(60_000)).await;
        assert!(!waiter.is_finished(), "segment {i}: {:?}", waiter.await);
    }
    held.remove(2).unlock().await.unwrap();
    let guard = timeout(ms(5_000), waiter).await.expect("woken").unwrap().unwrap();
    assert_eq!(guard.segment(), 2);
    drop((guard, held));
    assert!(sim.left().await.is_empty() && other.left().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn close_ends_the_wait() {
    let world = World::new();
    for after in 0..60 {
        let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
        let held = hold_all(&other).await;
        let any = stock(&sim).any();
        let close = async {
            sleep(ms(after)).await;
            sim.client.close().await.unwrap();
        };
        let (waited, ()) = tokio::join!(any.lock().into_future(), close);
        assert!(matches!(waited, Err(Error::Closed)), "closed after {after} ms: {waited:?}");
        drop(held);
        assert!(other.left().await.is_empty());
    }
}

/// It holds the segment no longer, whether or not its guard lives.
#[tokio::test(start_paused = true)]
async fn an_owner_that_lost_a_segment_is_granted_another() {
    let sim = Sim::new(&World::new()).await;
    let any = stock(&sim).any();
    let mut me = sim.client.owner();
    let lost = any.lock().by(&mut me).lease(ms(100)).await.unwrap();
    lost.lost().await;
    let found = any.try_lock().by(&mut me).await.unwrap().expect("three are free");
    assert_ne!(found.segment(), lost.segment());
    found.unlock().await.unwrap();
    let found = any.try_lock().by(&mut me).wait(ms(100)).await.unwrap().expect("three are free");
    found.unlock().await.unwrap();
    any.lock().by(&mut me).await.unwrap().unlock().await.unwrap();
    // There is nothing else to choose from.
    let others = (0..SEGMENTS).filter(|&i| i != lost.segment());
    let same = any.except(others).lock().by(&mut me).await;
    assert!(matches!(same, Err(Error::NotHeld { .. })), "{same:?}");
}
