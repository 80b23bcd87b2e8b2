//! Turns of those that share no hold with local readers, and of those that wait behind a writer.

use std::{cell::Cell, pin::pin, time::Duration};

use futures::{
    FutureExt,
    future::{join, join_all},
};
use tokio::time::{Instant, timeout};

use super::{
    World,
    readers::{lock, ms, sharing},
};

#[tokio::test(start_paused = true)]
#[ignore = "known: writers elsewhere may wait for seconds where the server is 3 ms away"]
async fn writers_elsewhere_have_their_turns_among_readers_without_a_gap() {
    let world = World::new();
    let (sim, other) = (sharing(&world).await, sharing(&world).await);
    let (here, elsewhere) = (lock(&sim), lock(&other));
    let done = Cell::new(false);
    let reads = join_all((0..4).map(|n| {
        let (here, done) = (&here, &done);
        async move {
            ms(n).await;
            while !done.get() {
                let guard = here.read().await.unwrap();
                ms(4).await;
                guard.unlock().await.unwrap();
            }
        }
    }));
    let writes = async {
        ms(100).await;
        for _ in 0..10 {
            let begun = Instant::now();
            let guard = timeout(Duration::from_secs(2), elsewhere.write().into_future()).await;
            let waited = begun.elapsed();
            guard.expect("within two seconds").unwrap().unlock().await.unwrap();
            assert!(waited < Duration::from_millis(200), "{waited:?}");
        }
        done.set(true);
    };
    join(reads, writes).await;
    assert!(sim.left().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_reads_once_more_does_not_wait_for_itself() {
    let world = World::new();
    let (sim, other) = (sharing(&world).await, sharing(&world).await);
    for writer in [&sim, &other] {
        let here = lock(&sim);
        let outer = here.read().await.unwrap();
        let writer = lock(writer);
        let mut write = pin!(writer.write().into_future());
        assert!(timeout(Duration::from_millis(50), &mut write).await.is_err());
        let begun = Instant::now();
        let inner = timeout(Duration::from_secs(1), here.read().into_future()).await;
        let inner = inner.expect("it waits for itself").unwrap();
        assert!(begun.elapsed() < Duration::from_millis(250), "{:?}", begun.elapsed());
        inner.unlock().await.unwrap();
        outer.unlock().await.unwrap();
        write.await.unwrap().unlock().await.unwrap();
        assert!(sim.left().await.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_waits_has_its_turn_among_those_that_share() {
    let sim = sharing(&World::new()).await;
    let lock = lock(&sim);
    let done = Cell::new(false);
    let busy = join_all((0..4).map(|n| {
        let (lock, done) = (&lock, &done);
        async move {
            while !done.get() {
                let guard = if n == 0 { lock.write().await } else { lock.read().await };
                ms(1).await;
                guard.unwrap().unlock().await.unwrap();
            }
        }
    }));
    let owner = async {
        let mut me = sim.client.owner();
        for _ in 0..5 {
            ms(20).await;
            let begun = Instant::now();
            lock.write().by(&mut me).await.unwrap().unlock().await.unwrap();
            assert!(begun.elapsed() < Duration::from_millis(500), "{:?}", begun.elapsed());
        }
        done.set(true);
    };
    join(busy, owner).await;
    assert!(sim.left().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_is_not_polled_keeps_nobody_out_for_long() {
    let world = World::new();
    for begun_by in ["reader", "writer"] {
        let (sim, other) = (sharing(&world).await, sharing(&world).await);
        let lock = lock(&sim);
        let guard = if begun_by == "writer" { Some(lock.write().await.unwrap()) } else { None };
        let mut forgotten = Box::pin(lock.read().into_future());
        assert!((&mut forgotten).now_or_never().is_none());
        drop(guard);
        let within = Duration::from_secs(4);
        let here = timeout(within, lock.read().into_future()).await.expect("polled").unwrap();
        here.unlock().await.unwrap();
        let elsewhere = super::readers::lock(&other);
        if begun_by == "writer" {
            let write = timeout(within, elsewhere.write().into_future()).await;
            write.expect("released").unwrap().unlock().await.unwrap();
        }
        drop(forgotten);
        assert!(sim.left().await.is_empty(), "{begun_by}");
    }
}
