//! Readers and writers of several clients each have their turns.

use std::{cell::Cell, time::Duration};

use futures::future::join_all;
use tokio::time::{Instant, sleep, timeout};

use super::{LOCK, Sim, World, handoff_ways::assert_turns_elsewhere, ms};
use crate::Client;

/// Without a gap: the next one comes before the last one leaves.
async fn read_without_a_gap(sim: &Sim, from: Duration, until: Instant) -> u32 {
    let lock = sim.client.read_write_lock(LOCK);
    let reader = async |offset| {
        let mut turns = 0;
        sleep(from + ms(offset)).await;
        while Instant::now() < until {
            let guard = lock.read().await.unwrap();
            sleep(ms(4)).await;
            guard.unlock().await.unwrap();
            turns += 1;
        }
        turns
    };
    join_all((0..4).map(reader)).await.into_iter().sum()
}

/// The longest wait of a writer who pauses for so long and holds the lock for so long.
async fn longest_wait(sim: &Sim, pause: Duration, hold: Duration, until: Instant) -> Duration {
    let lock = sim.client.read_write_lock(LOCK);
    let mut longest = Duration::ZERO;
    while Instant::now() < until {
        sleep(pause).await;
        let begun = Instant::now();
        let guard = lock.write().await.unwrap();
        longest = longest.max(begun.elapsed());
        sleep(hold).await;
        guard.unlock().await.unwrap();
    }
    longest
}

/// The lock is left to them for less time than they have it.
#[tokio::test(start_paused = true)]
async fn a_writer_elsewhere_gets_its_turn_among_readers_who_come_without_a_gap() {
    for hold in [0, 40].map(ms) {
        let world = World::new();
        let sims = [Sim::new(&world).await, Sim::new(&world).await, Sim::new(&world).await];
        let until = Instant::now() + Duration::from_secs(10);
        let (read, again, longest) = tokio::join!(
            read_without_a_gap(&sims[0], Duration::ZERO, until),
            read_without_a_gap(&sims[1], Duration::ZERO, until),
            longest_wait(&sims[2], ms(100), hold, until),
        );
        assert!(longest < ms(500), "a writer who holds it for {hold:?} waited for {longest:?}");
        assert!(read > 1_000 && again > 1_000, "{read} and {again} reads");
        assert!(sims[0].left().await.is_empty());
    }
}

/// They hear of it later than the local ones.
#[tokio::test(start_paused = true)]
async fn writers_elsewhere_have_their_turns_among_writers_who_hand_off() {
    let world = World::new();
    let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
    other.network.delay_messages(ms(2));
    let turn = async |client: &Client| {
        client.read_write_lock(LOCK).write().await.unwrap().unlock().await.unwrap();
    };
    assert_turns_elsewhere(&sim, &other, turn).await;
}

/// They hear of it later than the local ones, and than another client whose callers hand off, too.
#[tokio::test(start_paused = true)]
async fn writers_elsewhere_have_their_turns_among_writers_of_two_clients() {
    for late in [1, 2, 3].map(ms) {
        for write in [false, true] {
            let world = World::new();
            let near = [Sim::new(&world).await, Sim::new(&world).await];
            let far = Sim::new(&world).await;
            far.network.delay_messages(late);
            let turn = async |sim: &Sim| match write {
                true => {
                    sim.client.read_write_lock(LOCK).write().await.unwrap().unlock().await.unwrap()
                }
                false => sim.client.lock(LOCK).lock().await.unwrap().unlock().await.unwrap(),
            };
            let (done, turns) = (Cell::new(false), [Cell::new(0), Cell::new(0)]);
            let busy = join_all((0..8).map(|i| {
                let (sim, turns, done, turn) = (&near[i % 2], &turns[i % 2], &done, &turn);
                async move {
                    while !done.get() {
                        turn(sim).await;
                        turns.set(turns.get() + 1);
                    }
                }
            }));
            let mut waits = Vec::new();
            let elsewhere = async {
                sleep(ms(50)).await;
                for _ in 0..20 {
                    let begun = Instant::now();
                    timeout(ms(3_000), turn(&far)).await.expect("a turn");
                    waits.push(begun.elapsed());
                }
                done.set(true);
            };
            tokio::join!(busy, elsewhere);
            let what = format!("write {write}, {late:?}");
            assert!(waits.iter().all(|wait| *wait < ms(100)), "{what}: {waits:?}");
            assert!(turns.iter().all(|turns| turns.get() > 100), "{what}: {turns:?}");
            assert!(far.left().await.is_empty());
        }
    }
}

/// A read with a lease of its own lasts longer than the shared ones.
#[tokio::test(start_paused = true)]
async fn the_lock_is_left_to_a_writer_elsewhere_when_the_last_local_reader_is_gone() {
    let world = World::new();
    let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
    let lock = sim.client.read_write_lock(LOCK);
    let leased = lock.read().lease(Duration::from_secs(9)).await.unwrap();
    let shared = lock.read().await.unwrap();
    let write = async {
        let guard = other.client.read_write_lock(LOCK).write().await.unwrap();
        let granted = Instant::now();
        guard.unlock().await.unwrap();
        granted
    };
    let read = async {
        sleep(ms(50)).await;
        let guard = lock.read().await.unwrap();
        let granted = Instant::now();
        guard.unlock().await.unwrap();
        granted
    };
    let release = async {
        sleep(ms(60)).await;
        shared.unlock().await.unwrap();
        sleep(ms(50)).await;
        leased.unlock().await.unwrap();
    };
    let (written, read, ()) = tokio::join!(write, read, release);
    assert!(written < read, "the reader came {:?} before the writer", written - read);
    assert!(sim.left().await.is_empty());
}

/// The one that was kept out does not wait any more.
#[tokio::test(start_paused = true)]
async fn a_reader_that_gave_up_shortens_no_later_wait_for_a_writer() {
    let sim = Sim::new(&World::new()).await;
    let lock = sim.client.read_write_lock(LOCK);
    let long = lock.read().await.unwrap();
    let (writes, reads) = (lock.try_write().wait(ms(20)), lock.try_read().wait(ms(10)));
    let (writes, reads) = tokio::join!(writes, async {
        sleep(ms(5)).await;
        timeout(ms(10), reads.into_future()).await
    });
    assert!(writes.unwrap().is_none() && reads.is_err());
    let until = Instant::now() + Duration::from_secs(2);
    let write = async {
        sleep(ms(300)).await;
        let begun = Instant::now();
        lock.write().await.unwrap().unlock().await.unwrap();
        begun.elapsed()
    };
    let release = async {
        sleep(ms(330)).await;
        long.unlock().await.unwrap();
    };
    let (waited, (), _) = tokio::join!(write, release, read_without_a_gap(&sim, ms(301), until));
    assert!(waited < ms(200), "a writer waited for {waited:?}");
    assert!(sim.left().await.is_empty());
}
