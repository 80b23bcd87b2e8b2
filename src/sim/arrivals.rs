//! Readers of one client that come and go at once.

use std::{pin::pin, time::Duration};

use futures::{FutureExt, future::join_all};
use tokio::time::{Instant, sleep, timeout};

use super::{Fault, LOCK, ONE_WAY, Sim, World, ms};
use crate::LockGuard;

/// The first of several readers is waited for so long.
const ANSWERED: Duration = Duration::from_millis(100);

/// Nobody would be there to share with if a reader that has nothing to do released at once.
#[tokio::test(start_paused = true)]
async fn readers_in_line_come_before_a_reader_that_leaves() {
    let sim = Sim::new(&World::new()).await;
    let lock = sim.client.read_write_lock(LOCK);
    let calls = sim.network.calls();
    let readers = (0..8).map(|_| {
        let lock = lock.clone();
        tokio::spawn(async move {
            for _ in 0..10 {
                lock.read().await.unwrap().unlock().await.unwrap();
            }
        })
    });
    for reader in readers.collect::<Vec<_>>() {
        reader.await.unwrap();
    }
    // The first one asks each time, and the others join. Then it asks for itself, nine times.
    assert_eq!(sim.network.calls() - calls, 2 * 10);
    // Alone, a reader waits for nobody.
    let read = lock.read().await.unwrap();
    let calls = sim.network.calls();
    let mut unlock = pin!(read.unlock());
    assert!((&mut unlock).now_or_never().is_none());
    assert_eq!(sim.network.calls() - calls, 1);
    unlock.await.unwrap();
    assert!(sim.left().await.is_empty());
}

/// A client whose only reader has a hold that another one had joined; and another client.
async fn joined_before() -> (Sim, Sim, LockGuard) {
    let world = World::new();
    let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
    let lock = sim.client.read_write_lock(LOCK);
    let [one, two] = [lock.read().await.unwrap(), lock.read().await.unwrap()];
    two.unlock().await.unwrap();
    (sim, other, one)
}

#[tokio::test(start_paused = true)]
async fn an_unlock_before_others_join_goes_on_when_nobody_polls_it() {
    let (sim, other, one) = joined_before().await;
    let mut unlock = pin!(one.unlock());
    assert!((&mut unlock).now_or_never().is_none(), "the others come first");
    let writes = other.client.read_write_lock(LOCK).write().into_future();
    let writes = timeout(Duration::from_secs(5), writes).await.expect("its turn").unwrap();
    writes.unlock().await.unwrap();
    unlock.await.unwrap();
    assert!(sim.left().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn closing_waits_for_an_unlock_before_others_join() {
    let (sim, other, one) = joined_before().await;
    let mut unlock = pin!(one.unlock());
    assert!((&mut unlock).now_or_never().is_none());
    sim.client.close().await.unwrap();
    unlock.await.unwrap();
    assert!(other.left().await.is_empty());
}

/// Each of them asks for itself when its wait is over.
#[tokio::test(start_paused = true)]
async fn readers_whose_wait_is_shorter_than_an_answer_takes_do_not_wait_for_each_other() {
    let sim = Sim::new(&World::new()).await;
    let lock = sim.client.read_write_lock(LOCK);
    let begun = Instant::now();
    let reads = join_all((0..100).map(|_| lock.try_read().wait(ONE_WAY).into_future())).await;
    assert!(begun.elapsed() < 8 * ONE_WAY, "{:?}", begun.elapsed());
    let reads: Vec<_> = reads.into_iter().map(|read| read.unwrap().expect("held")).collect();
    drop(reads);
    assert!(sim.left().await.is_empty());
}

/// Their time begins when they ask for themselves.
#[tokio::test(start_paused = true)]
async fn readers_behind_one_whose_answer_is_slow_are_not_out_of_time() {
    let world = World::new();
    let sim = Sim::with(&world, |config| config.retry_timeout(ms(50))).await;
    sim.network.fail("read/acquire", (0..10).map(|_| Fault::SlowReply(ms(130))));
    let lock = sim.client.read_write_lock(LOCK);
    let reads = join_all((0..10).map(|_| lock.read().into_future())).await;
    let reads: Vec<_> = reads.into_iter().map(Result::unwrap).collect();
    drop(reads);
    assert!(sim.left().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn readers_that_do_not_share_wait_for_nobody() {
    let sim = Sim::with(&World::new(), |config| config.reuse_holds(false)).await;
    let lock = sim.client.read_write_lock(LOCK);
    let (begun, calls) = (Instant::now(), sim.network.calls());
    let reads = join_all((0..10).map(|_| lock.read().into_future())).await;
    assert!(begun.elapsed() <= 3 * ONE_WAY, "{:?}", begun.elapsed());
    assert_eq!(sim.network.calls() - calls, 10);
    drop(reads);
    assert!(sim.left().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn readers_behind_one_that_is_cut_at_any_ms_have_their_holds() {
    for cut in 0..20 {
        let world = World::new();
        let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
        let lock = sim.client.read_write_lock(LOCK);
        let mut first = Box::pin(lock.read().into_future());
        assert!((&mut first).now_or_never().is_none());
        let others = async {
            let reads = join_all((0..5).map(|_| lock.read().into_future()));
            for read in timeout(ANSWERED, reads).await.expect("in time") {
                read.unwrap().unlock().await.unwrap();
            }
        };
        let cutting = async {
            let _ = timeout(ms(cut), first).await;
        };
        tokio::join!(others, cutting);
        let writes = other.client.read_write_lock(LOCK).write().into_future();
        drop(timeout(Duration::from_secs(5), writes).await.expect("its turn").unwrap());
        assert!(sim.left().await.is_empty(), "cut after {cut} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn a_first_reader_that_is_not_polled_delays_the_others_once() {
    let sim = Sim::new(&World::new()).await;
    let lock = sim.client.read_write_lock(LOCK);
    let mut first = pin!(lock.read().into_future());
    assert!((&mut first).now_or_never().is_none());
    let begun = Instant::now();
    lock.read().await.unwrap().unlock().await.unwrap();
    assert!(begun.elapsed() < ANSWERED + 10 * ONE_WAY, "{:?}", begun.elapsed());
    sleep(ms(1)).await;
    let begun = Instant::now();
    lock.read().await.unwrap().unlock().await.unwrap();
    assert!(begun.elapsed() < 10 * ONE_WAY, "{:?}", begun.elapsed());
    first.await.unwrap().unlock().await.unwrap();
    assert!(sim.left().await.is_empty());
}
