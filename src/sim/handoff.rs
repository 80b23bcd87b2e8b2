//! What a hold takes along, and leaves behind, when it goes from one caller to the next.

use std::{pin::pin, time::Duration};

use futures::FutureExt;

use super::{LOCK, Sim, World};

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
