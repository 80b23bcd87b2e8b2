//! What a hold takes along, and leaves behind, when it goes from one caller to the next.

use std::{pin::pin, time::Duration};

use futures::{FutureExt, future::join_all};
use tokio::time::{Instant, timeout};

use super::{Fault, LOCK, Sim, World};

#[tokio::test(start_paused = true)]
async fn a_watched_hold_does_not_inherit_a_longer_lease() {
    let world = World::new();
    let sim = Sim::new(&world).await;
    let lock = sim.client.lock(LOCK);
    let first = lock.lock().lease(Duration::from_secs(3_600)).await.unwrap();
    let mut second = pin!(lock.lock().into_future());
    assert!((&mut second).now_or_never().is_none());
    first.unlock().await.unwrap();
    let second = second.await.unwrap();
    // So long the lock would be blocked if this process died now.
    let blocked = world.pttl(LOCK);
    assert!(blocked <= 30_000, "{blocked} ms");
    second.unlock().await.unwrap();
    assert!(sim.left().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_free_lock_is_not_left_alone_for_long_after_a_slow_release() {
    const SLOW: Duration = Duration::from_secs(3);
    // How long the lock may be left to those who listen elsewhere, but do not come.
    for (fault, times, most) in [
        (Fault::SlowReply(SLOW), 1, Duration::from_millis(200)),
        (Fault::LoseRequest, 5, Duration::from_millis(75)),
    ] {
        let world = World::new();
        let sim = Sim::new(&world).await;
        let lock = sim.client.lock(LOCK);
        let first = lock.lock().await.unwrap();
        let others = [Sim::new(&world).await, Sim::new(&world).await, Sim::new(&world).await];
        let elsewhere = others.each_ref().map(|other| other.client.lock(LOCK));
        let mut listeners = join_all(elsewhere.iter().map(|lock| lock.lock().into_future()));
        assert!(timeout(Duration::from_millis(50), &mut listeners).await.is_err());
        sim.network.fail("release", vec![fault; times]);
        first.unlock().await.unwrap();
        let begun = Instant::now();
        let second = lock.lock().await.unwrap();
        assert!(begun.elapsed() < most, "{:?}", begun.elapsed());
        second.unlock().await.unwrap();
    }
}
