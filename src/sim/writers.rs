//! Writers of one client hand their holds off.

use std::{pin::pin, time::Duration};

use futures::FutureExt;
use tokio::time::{Instant, sleep, timeout};

use super::{LOCK, Sim, World};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

#[tokio::test(start_paused = true)]
async fn writers_hand_their_holds_off_and_an_owner_who_may_read_under_it_does_not() {
    let sim = Sim::new(&World::new()).await;
    let lock = sim.client.read_write_lock(LOCK);
    let first = lock.write().await.unwrap();
    let mut second = pin!(lock.write().into_future());
    assert!((&mut second).now_or_never().is_none());
    let calls = sim.network.calls();
    first.unlock().await.unwrap();
    let second = second.now_or_never().expect("at once").unwrap();
    assert_eq!(sim.network.calls(), calls);
    second.unlock().await.unwrap();

    let [mut me, mut you, mut they] = std::array::from_fn(|_| sim.client.owner());
    let writes = lock.write().by(&mut me).await.unwrap();
    let mut next = pin!(lock.write().by(&mut you).into_future());
    assert!((&mut next).now_or_never().is_none());
    let reads = lock.read().by(&mut me).await.unwrap();
    writes.unlock().await.unwrap();
    assert!(timeout(ms(500), &mut next).await.is_err(), "a writer beside a reader");
    reads.check().await.unwrap();
    reads.unlock().await.unwrap();
    // From one without an owner to one with an owner.
    let owned = next.await.unwrap();
    owned.unlock().await.unwrap();
    let anonymous = lock.write().await.unwrap();
    let mut owned = pin!(lock.write().by(&mut they).into_future());
    assert!((&mut owned).now_or_never().is_none());
    anonymous.unlock().await.unwrap();
    let owned = owned.await.unwrap();
    owned.check().await.unwrap();
    assert_eq!(sim.holders(LOCK).len(), 1);
    owned.unlock().await.unwrap();
    assert!(sim.left().await.is_empty());
}

/// They do not come to an end.
#[tokio::test(start_paused = true)]
async fn local_readers_get_their_turn_among_writers_who_hand_off() {
    let sim = Sim::new(&World::new()).await;
    let lock = sim.client.read_write_lock(LOCK);
    let until = Instant::now() + Duration::from_secs(2);
    let write = async || {
        while Instant::now() < until {
            let guard = lock.write().await.unwrap();
            sleep(Duration::from_micros(100)).await;
            guard.unlock().await.unwrap();
        }
    };
    let read = async {
        let mut longest = Duration::ZERO;
        while Instant::now() < until {
            let begun = Instant::now();
            let guard = lock.read().await.unwrap();
            longest = longest.max(begun.elapsed());
            guard.unlock().await.unwrap();
            sleep(ms(10)).await;
        }
        longest
    };
    let (longest, _, _) = tokio::join!(read, write(), write());
    assert!(longest < ms(500), "a reader waited for {longest:?}");
    assert!(sim.left().await.is_empty());
}
