//! Readers and writers that share holds, whose futures are cut at every ms, with calls that fail.

use std::{cell::Cell, time::Duration};

use tokio::time::{sleep, timeout};

use super::{Fault, LOCK, Sim, World, readers::sharing};
use crate::{Error, LockGuard};

/// Who is inside.
#[derive(Default)]
struct Room {
    readers: Cell<u32>,
    writers: Cell<u32>,
}

impl Room {
    async fn stay(&self, writes: bool, time: Duration, what: &str) {
        let count = if writes { &self.writers } else { &self.readers };
        count.set(count.get() + 1);
        let (readers, writers) = (self.readers.get(), self.writers.get());
        assert!(writers == 0 || (readers, writers) == (0, 1), "{what}: {readers} and {writers}");
        sleep(time).await;
        count.set(count.get() - 1);
    }
}

/// One caller: when it comes, whether it writes, and for how long it stays.
type Caller = (u64, bool, u64);

/// The one in the middle is cut.
const SCENES: [[Caller; 4]; 4] = [
    // The last reader leaves the hold to a writer.
    [(0, false, 8), (1, true, 5), (2, false, 5), (3, true, 2)],
    // Readers under a write hold, which becomes a read hold.
    [(0, true, 8), (1, false, 30), (2, false, 20), (3, true, 2)],
    // Readers come while others are inside.
    [(0, false, 20), (2, false, 20), (8, false, 5), (12, true, 2)],
    // A writer hands its hold to a writer.
    [(0, true, 8), (1, true, 8), (2, false, 9), (2, false, 3)],
];

const FAULTS: &[(&str, &[Fault])] = &[
    ("", &[]),
    ("upgrade", &[Fault::LoseReply]),
    ("upgrade", &[Fault::LoseReply, Fault::LoseReply]),
    ("upgrade", &[Fault::LoseRequest]),
    ("upgrade", &[Fault::Linger(Duration::from_millis(40))]),
    ("downgrade", &[Fault::LoseReply]),
    ("downgrade", &[Fault::LoseRequest]),
    ("downgrade", &[Fault::SlowReply(Duration::from_millis(40))]),
    ("downgrade", &[Fault::Linger(Duration::from_millis(40))]),
    ("extend", &[Fault::LoseReply]),
    ("release", &[Fault::LoseReply]),
    ("acquire", &[Fault::LoseReply]),
];

#[tokio::test(start_paused = true)]
async fn a_caller_cut_at_any_ms_leaves_nothing_and_lets_nobody_in_beside_a_writer() {
    let world = World::new();
    for (scene, callers) in SCENES.iter().enumerate() {
        for (script, faults) in FAULTS {
            for after in (0..50).step_by(if faults.is_empty() { 2 } else { 5 }) {
                let what = format!(
                    "scene {scene}, {} faults in {script}, cut after {after} ms",
                    faults.len()
                );
                let (sim, other) = (sharing(&world).await, sharing(&world).await);
                if !faults.is_empty() {
                    sim.network.fail(script, faults.iter().copied());
                }
                run(&sim, &other, callers, after, &what).await;
                let left = sim.left().await;
                assert!(left.is_empty(), "{what}, left {left:?}");
            }
        }
    }
}

async fn run(sim: &Sim, other: &Sim, callers: &[Caller; 4], after: u64, what: &str) {
    let room = Room::default();
    let turn = async |sim: &Sim, (comes, writes, stays): Caller| {
        sleep(Duration::from_millis(comes)).await;
        let lock = sim.client.read_write_lock(LOCK);
        let guard = if writes { lock.write().await } else { lock.read().await };
        let guard: LockGuard = guard.unwrap();
        room.stay(writes, Duration::from_millis(stays), what).await;
        match guard.unlock().await {
            // Its reply was lost.
            Ok(()) | Err(Error::NotHeld { .. }) => {}
            Err(error) => panic!("{what}: {error}"),
        }
    };
    let cut = async {
        let cut = Duration::from_millis(after) + Duration::from_micros(500);
        let inside = (room.readers.get(), room.writers.get());
        let (comes, writes, stays) = callers[1];
        sleep(Duration::from_millis(comes)).await;
        let counted = Cell::new(false);
        let whole = async {
            let lock = sim.client.read_write_lock(LOCK);
            let guard = if writes { lock.write().await } else { lock.read().await };
            let guard = guard.unwrap();
            counted.set(true);
            room.stay(writes, Duration::from_millis(stays), what).await;
            counted.set(false);
            drop(guard);
        };
        let _ = (timeout(cut, whole).await, inside);
        if counted.get() {
            // It was cut inside.
            let count = if writes { &room.writers } else { &room.readers };
            count.set(count.get() - 1);
        }
    };
    let elsewhere = async {
        turn(other, (6, true, 2)).await;
        turn(other, (0, false, 3)).await;
    };
    let all = async {
        tokio::join!(
            turn(sim, callers[0]),
            cut,
            turn(sim, callers[2]),
            turn(sim, callers[3]),
            elsewhere
        )
    };
    assert!(timeout(Duration::from_secs(5), all).await.is_ok(), "{what}: somebody hangs");
}
