//! One holder at a time, with many owners.

use std::time::Duration;

use futures::future::join_all;
use harness::redis::cmd;
use harness::{Load, LoadReport};

use crate::kind::{CROWDED, EVERY, EXCLUSIVE, Kind, LOCK, MAIN, READ, WRITE};
use crate::mix::Mix;
use crate::pair::Pair;
use crate::scenario::scenarios;
use crate::shared::SLACK;

scenarios! {
    exclusion_with_a_counter: CROWDED;
    the_counter_would_show_a_missing_lock: LOCK;
    exclusion_with_fixed_leases: MAIN;
    exclusion_with_impatient_tries: IMPATIENT;
    every_one_of_a_crowd_gets_its_turn: CROWDED;
    every_one_of_a_crowd_gets_its_turn: WRITE, in Mix::ALL_RUST;
    owners_of_one_process_exclude_each_other: EXCLUSIVE;
    locks_of_other_names_are_free: EVERY;
    readers_see_no_writer_at_work: READ;
}

const TIME: Duration = Duration::from_millis(1_000);
/// Each gives up in a way of its own.
const IMPATIENT: &[Kind] = &[Kind::Lock, Kind::Fair, Kind::Write, Kind::Spin];

async fn exclusion_with_a_counter(pair: &Pair) {
    let (reports, counter) = count(pair, pair.kind().name(), |load| load).await;
    assert_eq!(counter, reports.iter().map(|report| report.acquired).sum::<u64>(), "{reports:#?}");
    assert!(reports.iter().all(|report| report.acquired > 0), "{reports:#?}");
}

/// The test of the test above.
async fn the_counter_would_show_a_missing_lock(pair: &Pair) {
    let (reports, counter) = count(pair, "none", |load| load).await;
    assert!(
        counter < reports.iter().map(|report| report.acquired).sum(),
        "{counter} after {reports:#?}"
    );
}

async fn exclusion_with_fixed_leases(pair: &Pair) {
    let (reports, counter) =
        count(pair, pair.kind().name(), |load| load.lease(Duration::from_secs(3))).await;
    assert_eq!(counter, reports.iter().map(|report| report.acquired).sum::<u64>(), "{reports:#?}");
}

/// Those who give up come and go at the channel while others are woken through it.
async fn exclusion_with_impatient_tries(pair: &Pair) {
    pair.java_may_stay_subscribed_for(&[&pair.a("crowd"), &pair.b("crowd")]);
    let impatient = |load: Load| load.wait(Duration::from_millis(5)).hold(Duration::from_millis(2));
    let (reports, counter) = count(pair, pair.kind().name(), impatient).await;
    assert_eq!(counter, reports.iter().map(|report| report.acquired).sum::<u64>(), "{reports:#?}");
    assert!(reports.iter().any(|report| report.refused > 0), "{reports:#?}");
}

async fn every_one_of_a_crowd_gets_its_turn(pair: &Pair) {
    let holder = pair.a("holder");
    holder.lock().await;
    let crowd: Vec<_> = (0..32).flat_map(|i| [pair.a(i), pair.b(i)]).collect();
    let turns: Vec<_> = crowd.iter().map(|party| (party, party.start_lock())).collect();
    pair.listening(2).await;
    holder.unlock().await;
    // Whoever was forgotten would sleep until the TTL it has seen, 30 s or nearly.
    let limit = 2 * SLACK;
    join_all(turns.into_iter().map(async |(party, turn)| {
        turn.granted_within(limit).await;
        party.unlock().await;
    }))
    .await;
}

async fn owners_of_one_process_exclude_each_other(pair: &Pair) {
    let (holder, other) = (pair.a("holder"), pair.a("other"));
    holder.lock().await;
    assert!(!other.try_lock().await);
    let turn = pair.start_asleep(&other).await;
    assert!(turn.is_pending());
    holder.unlock().await;
    turn.granted_within(SLACK).await;
    assert!(!holder.try_lock().await);
    other.unlock().await;
}

async fn locks_of_other_names_are_free(pair: &Pair) {
    let (here, there) = (pair.a("here").at(pair.key("x")), pair.b("there").at(pair.key("y")));
    here.lock().await;
    assert!(there.try_lock().await);
    here.unlock().await;
    there.unlock().await;

    let load = Load::new(8, TIME / 2).each();
    let report = pair.a("many").run(&load).await;
    assert!(report.min_per_owner > 0, "{report:#?}");
    assert_eq!((report.errors, report.refused), (0, 0), "{report:#?}");
    for name in ["x", "y", "0", "1", "2", "3", "4", "5", "6", "7"] {
        pair.forget_tokens(&pair.key(name));
    }
}

/// Writers count and readers look twice at the count, some of each in each process.
async fn readers_see_no_writer_at_work(pair: &Pair) {
    let key = pair.key("counter");
    let time = Duration::from_millis(1_500);
    let load = Load::new(6, time).write_percent(30).counter(&key).hold(Duration::from_millis(2));
    let crowds = [pair.a("crowd"), pair.b("crowd")].map(|crowd| crowd.of_kind("read_write"));
    let (a, b) = tokio::join!(crowds[0].run(&load), crowds[1].run(&load));
    let counter: u64 = pair.counters().query(cmd("GET").arg(&key));
    pair.counters().query::<()>(cmd("DEL").arg(&key));
    assert_eq!((a.errors, b.errors, a.torn, b.torn), (0, 0, 0, 0), "{a:#?} {b:#?}");
    assert_eq!(counter, a.writes + b.writes, "{a:#?} {b:#?}");
    for report in [a, b] {
        assert!(report.reads > 0 && report.writes > 0, "{report:#?}");
    }
}

/// Four owners in each process add to one counter, all under the same lock; the reports, and what the counter says.
async fn count(
    pair: &Pair,
    kind: &'static str,
    terms: impl Fn(Load) -> Load,
) -> ([LoadReport; 2], u64) {
    let key = pair.key("counter");
    let load = terms(Load::new(4, TIME).counter(&key));
    let (a, b) = (pair.a("crowd").of_kind(kind), pair.b("crowd").of_kind(kind));
    let (a, b) = tokio::join!(a.run(&load), b.run(&load));
    assert_eq!((a.errors, b.errors), (0, 0), "{a:#?} {b:#?}");
    let counter = pair.counters().query(cmd("GET").arg(&key));
    pair.counters().query::<()>(cmd("DEL").arg(&key));
    ([a, b], counter)
}
