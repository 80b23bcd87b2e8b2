//! Batches of calls, on a network that loses them.

use std::{sync::Arc, time::Duration};

use futures::future::join_all;
use tokio::time::{Instant, timeout};

use super::{Fault, Sim, World};
use crate::{
    observer::LockKind,
    owner::Identity,
    protocol::{Part, ScriptArgs, Wish, combine, combined},
    wire::{Reply, WireError},
};

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
    // Shorter than the command timeout.
    const LONG: Duration = Duration::from_secs(2);
    let sim = Sim::new(&World::new()).await;
    sim.network.fail("combine", [Fault::SlowReply(LONG); 100]);
    let begun = Instant::now();
    let take = async |i| sim.client.lock(format!("together:{i}")).lock().await.unwrap();
    let guards = join_all((0..640).map(take)).await;
    assert!(begun.elapsed() < 2 * LONG, "{:?}", begun.elapsed());
    drop(guards);
    assert!(sim.left().await.is_empty());
}

/// One script has the acquisitions and releases of many; each must come to what its own script makes of it.
#[tokio::test(start_paused = true)]
async fn in_company_calls_do_and_answer_what_they_do_alone() {
    let (alone, together) = (World::new(), World::new());
    let (one, many) = (Sim::new(&alone).await, Sim::new(&together).await);
    let settings = &one.client.engine().settings;
    let locks: Vec<_> =
        (0..4).map(|i| LockKind::Reentrant.protocol(&format!("l{i}"), settings)).collect();
    let ids: Vec<_> = {
        let identity = Identity::new();
        (0..3).map(|_| identity.next()).collect()
    };
    let names: Vec<_> = (0..locks.len()).map(|i| format!("l{i}")).collect();
    for world in [&alone, &together] {
        world.write(&names[3], "no lock");
    }
    for round in 0..300 {
        let not_after = if fastrand::u8(..) < 20 { 0 } else { u64::MAX >> 1 };
        let mut calls: Vec<_> = (0..fastrand::usize(2..12))
            .map(|_| {
                let (lock, id) =
                    (fastrand::choice(&locks).unwrap(), fastrand::choice(&ids).unwrap());
                let args = ScriptArgs { lease: fastrand::u64(20_000..40_000), not_after };
                match fastrand::bool() {
                    true => lock.acquire(id, args, &Wish::default()),
                    false => lock.release(id, fastrand::u32(0..3)),
                }
            })
            .collect();
        calls.sort_by_key(Part::of);
        let expected: Vec<_> = calls.iter().map(|call| one.network.run(call)).collect();
        let company = many.network.run(&combine(&calls)).unwrap();
        let answers = combined(company, calls.len()).unwrap();
        for ((expected, answer), call) in expected.iter().zip(&answers).zip(&calls) {
            assert_eq!(kind_of(expected), kind_of(answer), "round {round}: {call:?}");
        }
        for name in &names[..3] {
            assert_eq!(one.holders(name), many.holders(name), "round {round}");
            let apart = alone.pttl(name) - together.pttl(name);
            assert!(apart.abs() < 5_000, "round {round}: {apart} ms");
        }
    }
}

/// An answer, but for the time it took: what is left of a lease, the server's clock, the place of an error.
fn kind_of(answer: &Result<Reply, WireError>) -> String {
    match answer {
        Ok(Reply::Int(1_000..)) => "a lease".into(),
        Ok(Reply::Array(_)) => "late".into(),
        Ok(reply) => format!("{reply:?}"),
        Err(WireError::WrongType) => "wrong type".into(),
        Err(error) => panic!("{error}"),
    }
}
