//! Writers of one client hand their holds off, and have their turns beside readers who share theirs.

use std::{pin::pin, time::Duration};

use futures::FutureExt;
use tokio::time::{Instant, sleep, timeout};

use super::{LOCK, Sim, World, ms};

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

/// The first time it waits in vain: a reader holds the lock for too long.
#[tokio::test(start_paused = true)]
async fn a_local_writer_has_more_than_one_chance_among_readers_who_come_without_a_gap() {
    let sim = Sim::new(&World::new()).await;
    let lock = sim.client.read_write_lock(LOCK);
    let until = Instant::now() + Duration::from_secs(6);
    let long = lock.read().await.unwrap();
    let reader = async |offset: u64| {
        sleep(ms(offset)).await;
        while Instant::now() < until {
            let guard = lock.read().await.unwrap();
            sleep(ms(4)).await;
            guard.unlock().await.unwrap();
        }
    };
    let release = async {
        sleep(ms(180)).await;
        long.unlock().await.unwrap();
    };
    let write = async {
        sleep(ms(10)).await;
        let begun = Instant::now();
        lock.write().await.unwrap().unlock().await.unwrap();
        begun.elapsed()
    };
    let (waited, ..) = tokio::join!(write, release, reader(0), reader(1), reader(2), reader(3));
    assert!(waited < ms(1_500), "a writer waited for {waited:?}");
    assert!(sim.left().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_writer_who_asks_again_and_again_keeps_no_reader_out_for_long() {
    let sim = Sim::new(&World::new()).await;
    let lock = sim.client.read_write_lock(LOCK);
    let outer = lock.read().await.unwrap();
    let write = async {
        loop {
            let granted = lock.try_write().wait(ms(50)).await.unwrap();
            assert!(granted.is_none(), "a writer beside a reader");
        }
    };
    let read = async {
        sleep(ms(10)).await;
        let begun = Instant::now();
        let inner = lock.read().await.unwrap();
        (inner, begun.elapsed())
    };
    let read = timeout(Duration::from_secs(5), read);
    let (inner, waited) = tokio::select! {
        read = read => read.expect("a second read is let in"),
        never = write => never,
    };
    assert!(waited < ms(200), "a second read waited for {waited:?}");
    for read in [inner, outer] {
        read.unlock().await.unwrap();
    }
    assert!(sim.left().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn nobody_joins_a_hold_that_a_granted_write_has_shown_to_be_gone() {
    let world = World::new();
    let sim = Sim::new(&world).await;
    let lock = sim.client.read_write_lock(LOCK);
    let lost = lock.read().await.unwrap();
    world.forget(LOCK);
    // At once, as far as the clock of the readers goes.
    let mut writes = pin!(lock.try_write().into_future());
    assert!((&mut writes).now_or_never().is_none());
    let writes = writes.await.unwrap().unwrap();
    let mut reads = pin!(lock.read().into_future());
    assert!(timeout(ms(500), &mut reads).await.is_err(), "a reader beside a writer");
    writes.unlock().await.unwrap();
    reads.await.unwrap().unlock().await.unwrap();
    lost.unlock().await.unwrap_err();
    world.forget(&format!("{{{LOCK}}}"));
    drop(sim.left().await);
}

/// Readers who wait for another writer are not let in for a second after that.
#[tokio::test(start_paused = true)]
async fn a_writer_behind_a_long_write_is_not_kept_waiting_by_readers() {
    let sim = Sim::new(&World::new()).await;
    let lock = sim.client.read_write_lock(LOCK);
    let until = Instant::now() + Duration::from_secs(3);
    let first = lock.write().await.unwrap();
    let release = async {
        sleep(ms(200)).await;
        first.unlock().await.unwrap();
    };
    let write = async {
        sleep(ms(10)).await;
        lock.write().await.unwrap().unlock().await.unwrap();
        Instant::now()
    };
    let reader = async |offset: u64| {
        sleep(ms(offset)).await;
        while Instant::now() < until {
            let guard = lock.read().await.unwrap();
            sleep(ms(4)).await;
            guard.unlock().await.unwrap();
        }
    };
    let begun = Instant::now();
    let (written, ..) =
        tokio::join!(write, release, reader(20), reader(21), reader(22), reader(23));
    assert!(written - begun < ms(500), "a writer waited for {:?}", written - begun);
    assert!(sim.left().await.is_empty());
}
