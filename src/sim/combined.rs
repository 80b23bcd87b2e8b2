//! Calls that travel together, on a network that loses them.

use std::{sync::Arc, time::Duration};

use futures::future::join_all;
use tokio::time::{Instant, timeout};

use super::{Fault, Sim, World};

#[tokio::test(start_paused = true)]
async fn callers_cut_at_any_ms_leave_nothing_whoever_they_travelled_with() {
    const LATE: Duration = Duration::from_millis(40);
    let world = World::new();
    for faults in [
        &[][..],
        &[Fault::LoseReply],
        &[Fault::LoseRequest],
        &[Fault::LoseReply, Fault::Linger(LATE)],
        &[Fault::SlowReply(LATE)],
    ] {
        for after in 0..50 {
            cut_half(&world, faults, after).await;
        }
    }
}

/// Ten take a lock each; five of them go away.
async fn cut_half(world: &Arc<World>, faults: &[Fault], after: u64) {
    let sim = Sim::new(world).await;
    sim.network.fail("combine", faults.iter().copied());
    let calls = sim.network.calls();
    let callers = (0..10).map(|i| {
        let lock = sim.client.lock(format!("together:{i}"));
        let turn = async move {
            let guard = lock.lock().await.unwrap();
            guard.check().await.unwrap();
            guard.unlock().await.unwrap();
        };
        let cut = Duration::from_millis(after) + Duration::from_micros(500);
        let limit = if i % 2 == 0 { cut } else { Duration::from_secs(20) };
        async move { assert!(timeout(limit, turn).await.is_ok() || i % 2 == 0, "caller {i} hangs") }
    });
    join_all(callers).await;
    let left = sim.left().await;
    assert!(left.is_empty(), "{} faults, cut after {after} ms, left {left:?}", faults.len());
    // They did travel together: but for that it had been one each, and the looks.
    assert!(!faults.is_empty() || sim.network.calls() - calls < 30);
}

#[tokio::test(start_paused = true)]
async fn where_answers_take_long_no_call_waits_for_those_of_all_before_it() {
    const LONG: Duration = Duration::from_secs(3);
    let sim = Sim::new(&World::new()).await;
    sim.network.fail("combine", [Fault::SlowReply(LONG); 100]);
    let begun = Instant::now();
    let take = async |i| sim.client.lock(format!("together:{i}")).lock().await.unwrap();
    let guards = join_all((0..640).map(take)).await;
    assert!(begun.elapsed() < 2 * LONG, "{:?}", begun.elapsed());
    drop(guards);
    assert!(sim.left().await.is_empty());
}
