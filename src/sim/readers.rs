//! Local readers that share a hold, and the writers among them.

use std::{pin::pin, sync::Arc, time::Duration};

use futures::{
    FutureExt,
    future::{join, join_all},
};
use tokio::time::{Instant, sleep, timeout};

use super::{LOCK, ONE_WAY, Sim, World};
use crate::{Error, LockGuard, Loss, ReadWriteLock};

/// For so long a write hold under which local readers stay keeps other readers out, and what it takes to
/// let them in.
const RELIEF: Duration = Duration::from_millis(30);

pub(super) fn lock(sim: &Sim) -> ReadWriteLock {
    sim.client.read_write_lock(LOCK)
}

/// A client whose readers share holds.
pub(super) async fn sharing(world: &Arc<World>) -> Sim {
    Sim::with(world, |config| config.share_reads(true)).await
}

pub(super) fn ms(n: u64) -> impl Future<Output = ()> {
    sleep(Duration::from_millis(n))
}

/// The holders on the server.
fn holders(sim: &Sim) -> usize {
    sim.holders(LOCK).len()
}

#[tokio::test(start_paused = true)]
async fn readers_share_a_hold_with_no_word_to_the_server() {
    let sim = sharing(&World::new()).await;
    let lock = lock(&sim);
    let first = lock.read().await.unwrap();
    let calls = sim.network.calls();
    let second = lock.read().into_future().now_or_never().expect("at once").unwrap();
    let third = lock.try_read().into_future().now_or_never().expect("at once").unwrap();
    let third = third.expect("the lock is read");
    assert_eq!((first.holder(), second.holder()), (second.holder(), third.holder()));
    assert_eq!(holders(&sim), 1);
    first.unlock().await.unwrap();
    drop(third);
    assert_eq!(sim.network.calls(), calls);
    second.check().await.unwrap();
    second.unlock().await.unwrap();
    assert_eq!(sim.network.calls(), calls + 2);
    assert!(sim.left().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn readers_that_come_together_are_one_to_the_server() {
    let sim = sharing(&World::new()).await;
    let lock = lock(&sim);
    let before = sim.network.calls();
    let guards = join_all((0..8).map(|_| lock.read().into_future())).await;
    assert_eq!((holders(&sim), sim.network.calls() - before), (1, 1));
    drop(guards);
    assert!(sim.left().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_waiting_writer_closes_the_door_and_the_last_reader_leaves_it_the_hold() {
    let sim = sharing(&World::new()).await;
    let lock = lock(&sim);
    let first = lock.read().await.unwrap();
    let mut write = pin!(lock.write().into_future());
    assert!((&mut write).now_or_never().is_none());
    let mut late = pin!(lock.read().into_future());
    assert!((&mut late).now_or_never().is_none(), "it stands behind the writer");
    let calls = sim.network.calls();
    first.unlock().await.unwrap();
    let begun = Instant::now();
    let write = write.await.unwrap();
    assert_eq!((begun.elapsed(), sim.network.calls() - calls), (2 * ONE_WAY, 1));
    assert!(write.holder().ends_with(":write"));
    assert!((&mut late).now_or_never().is_none());
    write.unlock().await.unwrap();
    let late = late.await.unwrap();
    late.check().await.unwrap();
    late.unlock().await.unwrap();
    assert!(sim.left().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn readers_come_in_together_under_a_local_writers_hold_with_no_word_to_the_server() {
    let sim = sharing(&World::new()).await;
    let lock = lock(&sim);
    let write = lock.write().await.unwrap();
    let holder = write.holder().to_owned();
    let mut readers = pin!(join_all((0..3).map(|_| lock.read().into_future())));
    assert!((&mut readers).now_or_never().is_none());
    let calls = sim.network.calls();
    write.unlock().await.unwrap();
    let readers = readers.now_or_never().expect("at once");
    assert_eq!(sim.network.calls(), calls);
    for reader in readers {
        let reader = reader.unwrap();
        assert_eq!(reader.holder(), holder);
        reader.unlock().await.unwrap();
    }
    assert!(sim.left().await.is_empty());
}

/// Readers under a write hold, which is theirs alone.
async fn under_a_write_hold(sim: &Sim, readers: usize) -> Vec<LockGuard> {
    let lock = lock(sim);
    let write = lock.write().await.unwrap();
    let mut readers = pin!(join_all((0..readers).map(|_| lock.read().into_future())));
    assert!((&mut readers).now_or_never().is_none());
    write.unlock().await.unwrap();
    let readers = readers.now_or_never().expect("at once");
    readers.into_iter().map(Result::unwrap).collect()
}

#[tokio::test(start_paused = true)]
async fn readers_that_stay_under_a_write_hold_let_the_readers_of_other_processes_in() {
    let world = World::new();
    let (sim, other) = (sharing(&world).await, sharing(&world).await);
    let readers = under_a_write_hold(&sim, 2).await;
    let begun = Instant::now();
    let elsewhere = timeout(Duration::from_secs(2), lock(&other).read().into_future()).await;
    assert!(begun.elapsed() < RELIEF, "{:?}", begun.elapsed());
    for reader in &readers {
        assert!(reader.is_held() && !reader.holder().ends_with(":write"));
        reader.check().await.unwrap();
    }
    assert_eq!(holders(&sim), 2);
    for reader in readers {
        reader.unlock().await.unwrap();
    }
    elsewhere.expect("in time").unwrap().unlock().await.unwrap();
    assert!(sim.left().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_loss_is_told_to_all_readers_that_share_the_hold() {
    let world = World::new();
    for stays in [false, true] {
        let (sim, other) = (sharing(&world).await, sharing(&world).await);
        let readers = under_a_write_hold(&sim, 3).await;
        let losses = join_all(readers.iter().map(|reader| reader.lost()));
        let meanwhile = async {
            if stays {
                // It becomes a read hold meanwhile.
                ms(100).await;
                assert!(lock(&other).read_lock().force_unlock().await.unwrap());
            } else {
                assert!(lock(&other).write_lock().force_unlock().await.unwrap());
            }
            let found = readers[1].check().await;
            assert!(matches!(found, Err(Error::NotHeld { .. })), "{found:?}");
        };
        let both = timeout(Duration::from_secs(1), join(losses, meanwhile)).await;
        let (losses, ()) = both.expect("told at once");
        assert_eq!(losses, [Loss::Removed; 3], "stays: {stays}");
        for reader in readers {
            let unlocked = reader.unlock().await;
            assert!(matches!(unlocked, Err(Error::NotHeld { .. })), "{unlocked:?}");
        }
        assert!(sim.left().await.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_to_readers_is_heard_after_their_hold_has_become_a_read_hold() {
    let world = World::new();
    let (sim, other) = (sharing(&world).await, sharing(&world).await);
    let readers = under_a_write_hold(&sim, 2).await;
    let asked = readers[0].asked_to_release();
    let question = async {
        ms(100).await;
        lock(&other).ask_to_release().await.unwrap();
    };
    timeout(Duration::from_secs(15), join(asked, question)).await.expect("heard");
    drop(readers);
    sim.world.forget("redisson_lock_asked:{cut}");
    assert!(sim.left().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_read_hold_that_the_server_is_asked_about_is_trusted_no_longer_than_before() {
    let sim = sharing(&World::new()).await;
    let lock = lock(&sim);
    let first = lock.read().await.unwrap();
    ms(5_000).await;
    let remaining = first.remaining();
    let second = lock.read().await.unwrap();
    assert_eq!(first.holder(), second.holder());
    assert!(second.remaining() < remaining);
    drop((first, second));
    assert!(sim.left().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_closed_client_tells_all_readers() {
    let sim = sharing(&World::new()).await;
    let readers = under_a_write_hold(&sim, 2).await;
    ms(100).await;
    let losses = join_all(readers.iter().map(|reader| reader.lost()));
    let close = sim.client.close();
    let (losses, _) = timeout(Duration::from_secs(40), join(losses, close)).await.unwrap();
    assert_eq!(losses, [Loss::Closed; 2]);
    drop(readers);
}

#[tokio::test(start_paused = true)]
async fn a_reader_whose_wait_is_over_is_refused_only_if_a_writer_has_the_lock() {
    let sim = sharing(&World::new()).await;
    let lock = lock(&sim);
    let first = lock.read().await.unwrap();
    let mut write = pin!(lock.write().into_future());
    assert!((&mut write).now_or_never().is_none());
    let second = lock.try_read().wait(Duration::from_millis(20)).await.unwrap();
    drop(second.expect("nobody writes"));
    drop(first);
    let write = write.await.unwrap();
    assert!(lock.try_read().wait(Duration::from_millis(20)).await.unwrap().is_none());
    drop(write);
    assert!(sim.left().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn owners_and_leases_have_holds_of_their_own() {
    let sim = sharing(&World::new()).await;
    let lock = lock(&sim);
    let mut me = sim.client.owner();
    let plain = lock.read().await.unwrap();
    let owned = lock.read().by(&mut me).await.unwrap();
    let leased = lock.read().lease(Duration::from_secs(10)).await.unwrap();
    assert_eq!(holders(&sim), 3);
    drop((plain, owned, leased));
    assert!(sim.left().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn told_not_to_readers_share_nothing() {
    let sim = Sim::with(&World::new(), |config| config.share_reads(true).pass_on(false)).await;
    let lock = lock(&sim);
    let guards = [lock.read().await.unwrap(), lock.read().await.unwrap()];
    assert_eq!(holders(&sim), 2);
    drop(guards);
    assert!(sim.left().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_readers_share_is_renewed_after_it_has_become_a_read_hold() {
    let sim = sharing(&World::new()).await;
    let readers = under_a_write_hold(&sim, 2).await;
    for _ in 0..12 {
        ms(10_000).await;
        assert!(readers.iter().all(LockGuard::is_held));
    }
    drop(readers);
    assert!(sim.left().await.is_empty());
}
