//! A waiter that nobody polls from a moment on, and a release at every moment around that.
//!
//! Those behind it get their turn soon, unless the server has granted the lock to it: its request was
//! under way. Then it holds the lock until its lease ends or its future is dropped.

use std::{sync::Arc, time::Duration};

use futures::future::join_all;
use tokio::time::{Instant, sleep_until, timeout};

use super::{KINDS, Kind, ONE_WAY, SOON, Sim, World};

/// What becomes of the messages that tell its client of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Messages {
    Come,
    AreLate,
    AreLost,
}

/// Returns whether the lock was granted to the one that is not polled.
async fn is_granted_to_it(
    world: &Arc<World>,
    kind: &Kind,
    after: Duration,
    release: Duration,
    come: Messages,
) -> bool {
    let case = format!("{}, polled for {after:?}, released at {release:?}, {come:?}", kind.name);
    let (sim, other) = (Sim::new(world).await, Sim::new(world).await);
    let lock = (kind.lock)(&sim.client);
    let held = (kind.blocker)(&other.client).lock().await.unwrap();
    let begun = Instant::now();
    let released = tokio::spawn(async move {
        sleep_until(begun + release).await;
        held.unlock().await.unwrap();
    });
    if come == Messages::AreLate {
        sim.network.delay_messages(Duration::from_secs(1));
    }
    let mut alone = lock.lock().into_future();
    let polled = timeout(after, &mut alone).await;
    if come == Messages::AreLost {
        sim.network.lose_messages();
    }
    if let Ok(guard) = polled {
        guard.unwrap().unlock().await.unwrap();
        released.await.unwrap();
        return false;
    }
    let mut behind = Box::pin(join_all((0..2).map(|_| async {
        lock.lock().await.unwrap().unlock().await.unwrap();
    })));
    let soon = SOON.max(release) + SOON;
    let got = timeout(soon, &mut behind).await.is_ok();
    released.await.unwrap();
    if got {
        let late = timeout(SOON, alone).await.unwrap_or_else(|_| panic!("{case}: no turn"));
        late.unwrap().unlock().await.unwrap();
    } else {
        assert!(lock.is_locked().await.unwrap(), "{case}: free, and waited for in vain");
        drop(alone);
        assert!(timeout(SOON, behind).await.is_ok(), "{case}: it is dropped");
    }
    let left = sim.left().await;
    assert!(left.is_empty(), "{case}: left {left:?}");
    !got
}

#[tokio::test(start_paused = true)]
async fn only_a_grant_to_one_that_nobody_polls_keeps_those_behind_it_waiting() {
    // Everything happens at multiples of the way to the server.
    let ways = |n: u32| n * ONE_WAY + ONE_WAY / 2;
    let polled = (0..9).map(ways).chain([200, 2_998, 3_001, 3_004].map(Duration::from_millis));
    let world = World::new();
    let (mut granted, mut count) = (0, 0);
    for after in polled {
        for earlier_or_later in 0..8 {
            let Some(release) = (after + ways(earlier_or_later)).checked_sub(4 * ONE_WAY) else {
                continue;
            };
            // In the line of a fair lock each has a place on the server.
            for kind in KINDS.iter().filter(|kind| kind.name != "fair") {
                for come in [Messages::Come, Messages::AreLate, Messages::AreLost] {
                    count += 1;
                    let is_granted = is_granted_to_it(&world, kind, after, release, come).await;
                    granted += u32::from(is_granted);
                }
            }
        }
    }
    println!("granted to the one that is not polled: {granted} of {count}");
    assert!(granted > 0, "no request was under way");
}
