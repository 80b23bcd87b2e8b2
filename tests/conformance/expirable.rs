//! Permits with ids and leases.

use std::time::Duration;

use futures::future::join_all;
use harness::redis::cmd;
use harness::{Messages, Party, Pending, permit_timeouts};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::kind::EXPIRABLE;
use crate::mix::Mix;
use crate::pair::Pair;
use crate::scenario::scenarios;
use crate::shared::{PROMPT, SLACK};

scenarios! {
    the_bytes_and_messages_of_an_expirable_semaphore_are_the_same: EXPIRABLE;
    leased_permits_are_counted_where_the_other_side_sees_them: EXPIRABLE;
    a_permit_is_released_once_and_by_anybody: EXPIRABLE;
    of_several_permits_all_are_released_or_none: EXPIRABLE;
    a_waiter_for_leased_permits_is_woken_by_a_release: EXPIRABLE;
    a_waiter_for_leased_permits_is_woken_by_added_permits: EXPIRABLE;
    a_waiter_is_granted_when_the_lease_of_a_dead_holder_ends: EXPIRABLE;
    a_lease_is_set_by_the_other_side: EXPIRABLE;
    a_permit_whose_lease_has_ended_is_free: EXPIRABLE;
    leased_permits_go_to_and_fro_in_fifty_turns: EXPIRABLE;
    many_waiters_for_leased_permits_are_all_served: EXPIRABLE;
    a_cancelled_waiter_for_leased_permits_leaves_nothing: EXPIRABLE;
    permits_of_ours_are_renewed_and_a_loss_is_told: EXPIRABLE, in Mix::A_IS_RUST;
    a_small_waiter_for_leased_permits_does_not_sleep_beside_a_free_permit: EXPIRABLE, in Mix::B_IS_RUST;
}

fn value(pair: &Pair) -> Option<i64> {
    pair.redis().query(cmd("GET").arg(pair.name()))
}

/// The permits that are out, as the server has them, and when their leases end, in ms from now.
fn out(pair: &Pair) -> Vec<(Vec<u8>, i64)> {
    let (seconds, micros): (i64, i64) = pair.redis().query(&cmd("TIME"));
    let now = seconds * 1000 + micros / 1000;
    let key = permit_timeouts(pair.name());
    let members: Vec<(Vec<u8>, f64)> =
        pair.redis().query(cmd("ZRANGE").arg(key).arg(0).arg(-1).arg("WITHSCORES"));
    members.into_iter().map(|(id, ends)| (id, ends as i64 - now)).collect()
}

fn hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The end of each scenario: nothing else deletes a semaphore.
fn forget(pair: &Pair) {
    assert_eq!(out(pair), [], "permits are still out");
    pair.redis().query::<()>(cmd("DEL").arg(pair.name()));
}

pub(crate) async fn set(pair: &Pair, permits: i64) {
    assert_eq!(pair.a("creator").with("set", permits).await, true);
}

/// Long enough for a busy machine.
const LEASE: i64 = 60_000;

pub(crate) fn start_take(party: &Party, n: i64) -> Pending {
    party.start("lock", json!({ "n": n, "lease_ms": LEASE }))
}

pub(crate) async fn take(party: &Party, n: i64) -> Value {
    start_take(party, n).granted_within(SLACK).await.value
}

async fn try_take(party: &Party, n: i64, lease: i64) -> Option<Value> {
    let fields = json!({ "n": n, "wait_ms": 0, "lease_ms": lease });
    let answer = party.start("try_lock", fields).answer().await.expect("an answer");
    answer.is_granted().then_some(answer.value)
}

pub(crate) async fn give(party: &Party, ids: &Value) {
    party.start("unlock", json!({ "ids": ids })).answer().await.expect("a release");
}

async fn refused(party: &Party, ids: &Value) {
    let error = party.start("unlock", json!({ "ids": ids })).answer().await;
    let error = error.expect_err("permits that are not out");
    assert_eq!(error.code(), Some("not_held"), "{error}");
}

async fn about(party: &Party, op: &str, fields: Value) -> Value {
    party.start(op, fields).answer().await.expect("an answer").value
}

/// Begins to take so many permits, which are not free. Comes back when the waiter sleeps.
async fn start_asleep(pair: &Pair, party: &Party, n: i64) -> Pending {
    let turn = start_take(party, n);
    pair.listening(1).await;
    // It looks once more when it is subscribed.
    sleep(Duration::from_millis(300)).await;
    turn
}

fn told(pair: &Pair, messages: &mut Messages) -> Vec<String> {
    messages.so_far(pair.redis())
}

async fn the_bytes_and_messages_of_an_expirable_semaphore_are_the_same(pair: &Pair) {
    let mut messages = pair.messages(&pair.kind().channel(pair.name()));
    for (one, other) in [(pair.a("one"), pair.b("other")), (pair.b("two"), pair.a("twin"))] {
        assert_eq!(one.with("count", 0).await, 0);
        assert_eq!(one.with("set", 5).await, true);
        assert_eq!((value(pair), told(pair, &mut messages)), (Some(5), vec!["5".into()]));
        assert_eq!(other.with("set", 7).await, false);
        let (first, two) = (take(&one, 1).await, take(&one, 2).await);
        assert_eq!((value(pair), told(pair, &mut messages)), (Some(2), vec![]));
        let seen = out(pair);
        let mut ids: Vec<_> = seen.iter().map(|(id, _)| hex(id)).collect();
        assert!(
            seen.iter().all(|(id, ends)| id.len() == 16 && (LEASE - 9_000..=LEASE).contains(ends))
        );
        let mut given: Vec<_> =
            [&first, &two].iter().flat_map(|ids| ids.as_array().unwrap()).cloned().collect();
        given.sort_by_key(Value::to_string);
        ids.sort();
        assert_eq!(given, ids);
        give(&one, &first).await;
        assert_eq!((value(pair), told(pair, &mut messages)), (Some(3), vec!["3".into()]));
        give(&one, &two).await;
        // How many were returned.
        assert_eq!((value(pair), told(pair, &mut messages)), (Some(5), vec!["2".into()]));
        one.with("add", 4).await;
        one.with("add", -2).await;
        assert_eq!((value(pair), told(pair, &mut messages)), (Some(7), vec!["4".into()]));
        let two = take(&other, 2).await;
        one.with("set_total", 7).await;
        assert_eq!((value(pair), told(pair, &mut messages)), (Some(5), vec![]));
        one.with("set_total", 1).await;
        assert_eq!((value(pair), told(pair, &mut messages)), (Some(-1), vec!["1".into()]));
        one.with("set_total", 3).await;
        assert_eq!((value(pair), told(pair, &mut messages)), (Some(1), vec!["3".into()]));
        give(&other, &two).await;
        assert_eq!((value(pair), told(pair, &mut messages)), (Some(3), vec!["2".into()]));
        forget(pair);
        one.with("set_total", 2).await;
        assert_eq!((value(pair), told(pair, &mut messages)), (Some(2), vec!["2".into()]));
        forget(pair);
    }
}

async fn leased_permits_are_counted_where_the_other_side_sees_them(pair: &Pair) {
    set(pair, 5).await;
    let (one, other) = (pair.a("one"), pair.b("other"));
    let (two, first) = (take(&one, 2).await, take(&other, 1).await);
    assert!(try_take(&one, 3, LEASE).await.is_none());
    for asked in [&one, &other] {
        assert_eq!(asked.with("count", 0).await, 2);
        assert_eq!(asked.with("acquired", 0).await, 3);
        assert_eq!(asked.with("permits", 0).await, 5);
        for ids in [&two, &first] {
            let left = about(asked, "remaining_ms", json!({ "ids": ids })).await;
            assert!((LEASE - 9_000..=LEASE).contains(&left.as_i64().unwrap()), "{left}");
        }
    }
    give(&one, &two).await;
    give(&other, &first).await;
    assert_eq!(value(pair), Some(5));
    forget(pair);
}

async fn a_permit_is_released_once_and_by_anybody(pair: &Pair) {
    set(pair, 3).await;
    let (one, other) = (pair.a("one"), pair.b("other"));
    let (first, two) = (take(&one, 1).await, take(&one, 2).await);
    give(&other, &first).await;
    give(&other, &two).await;
    for ids in [&first, &two] {
        refused(&other, ids).await;
        refused(&one, ids).await;
        assert_eq!(about(&other, "remaining_ms", json!({ "ids": ids })).await, -2);
    }
    assert_eq!(value(pair), Some(3));
    forget(pair);
}

async fn of_several_permits_all_are_released_or_none(pair: &Pair) {
    set(pair, 4).await;
    let (one, other) = (pair.a("one"), pair.b("other"));
    let (first, two) = (take(&one, 1).await, take(&one, 2).await);
    let mut mixed = two.clone();
    mixed.as_array_mut().expect("ids").push(first[0].clone());
    give(&one, &first).await;
    for releaser in [&one, &other] {
        refused(releaser, &mixed).await;
        assert_eq!((value(pair), out(pair).len()), (Some(2), 2), "none was released");
    }
    give(&other, &two).await;
    assert_eq!((value(pair), out(pair).len()), (Some(4), 0));
    forget(pair);
}

async fn a_waiter_for_leased_permits_is_woken_by_a_release(pair: &Pair) {
    set(pair, 1).await;
    let (holder, waiter) = (pair.a("holder"), pair.b("waiter"));
    let ids = take(&holder, 1).await;
    let turn = start_asleep(pair, &waiter, 1).await;
    assert!(turn.is_pending());
    let release = holder.start("unlock", json!({ "ids": ids })).answer().await.expect("a release");
    let taken = turn.granted().await;
    assert!(taken.after_start_of(&release) < PROMPT, "{taken:?} {release:?}");
    give(&waiter, &taken.value).await;
    assert_eq!(value(pair), Some(1));
    forget(pair);
}

/// One waits for a semaphore that is not there yet.
async fn a_waiter_for_leased_permits_is_woken_by_added_permits(pair: &Pair) {
    let (adder, waiter) = (pair.a("adder"), pair.b("waiter"));
    for (op, n) in [("add", 2), ("set_total", 4)] {
        let turn = start_asleep(pair, &waiter, 2).await;
        assert!(turn.is_pending());
        let change = adder.start(op, json!({ "n": n })).answer().await.expect("a change");
        let taken = turn.granted().await;
        assert!(taken.after_start_of(&change) < PROMPT, "{taken:?} {change:?}");
        pair.listening(0).await;
    }
    assert_eq!(value(pair), Some(0));
    pair.redis().query::<()>(cmd("DEL").arg(permit_timeouts(pair.name())));
    forget(pair);
}

/// Redisson's waiters and ours sleep no longer than until the first lease ends.
async fn a_waiter_is_granted_when_the_lease_of_a_dead_holder_ends(pair: &Pair) {
    set(pair, 2).await;
    let (doomed, waiter) = (pair.doomed("doomed").await, pair.b("waiter"));
    let lease = 5_000;
    assert!(try_take(&doomed, 2, lease).await.is_some());
    let turn = start_asleep(pair, &waiter, 1).await;
    doomed.peer().kill().await;
    assert!(turn.is_pending());
    let taken = turn.granted_within(Duration::from_millis(lease as u64) + SLACK).await;
    assert_eq!(waiter.with("count", 0).await, 1);
    give(&waiter, &taken.value).await;
    // Redisson takes back only as many as are wanted.
    let both = take(&waiter, 2).await;
    give(&waiter, &both).await;
    assert_eq!(value(pair), Some(2));
    forget(pair);
}

async fn a_lease_is_set_by_the_other_side(pair: &Pair) {
    set(pair, 1).await;
    let (one, other) = (pair.a("one"), pair.b("other"));
    let ids = try_take(&one, 1, LEASE).await.expect("a free permit");
    let longer = json!({ "ids": ids, "lease_ms": 3 * LEASE });
    assert_eq!(about(&other, "set_lease", longer).await, true);
    let left = about(&one, "remaining_ms", json!({ "ids": ids })).await.as_i64().unwrap();
    assert!((2 * LEASE..=3 * LEASE).contains(&left), "{left}");
    let shorter = json!({ "ids": ids, "lease_ms": 300 });
    assert_eq!(about(&other, "set_lease", shorter.clone()).await, true);
    sleep(Duration::from_millis(600)).await;
    assert_eq!(about(&other, "set_lease", shorter).await, false);
    assert_eq!(about(&one, "remaining_ms", json!({ "ids": ids })).await, -2);
    assert_eq!(one.with("count", 0).await, 1);
    let next = take(&other, 1).await;
    give(&other, &next).await;
    assert_eq!(value(pair), Some(1));
    forget(pair);
}

async fn a_permit_whose_lease_has_ended_is_free(pair: &Pair) {
    set(pair, 2).await;
    let (one, other) = (pair.a("one"), pair.b("other"));
    // Longer than the answer takes on a busy machine.
    let ids = try_take(&one, 2, 2_000).await.expect("free permits");
    sleep(Duration::from_millis(2_300)).await;
    for asked in [&other, &one] {
        assert_eq!(asked.with("count", 0).await, 2);
        assert_eq!(asked.with("acquired", 0).await, 0);
    }
    let next = take(&other, 2).await;
    refused(&one, &ids).await;
    assert_eq!(value(pair), Some(0), "the next holder's permits stay out");
    give(&other, &next).await;
    assert_eq!(value(pair), Some(2));
    forget(pair);
}

async fn leased_permits_go_to_and_fro_in_fifty_turns(pair: &Pair) {
    set(pair, 1).await;
    let (mut one, mut other) = (pair.a("ping"), pair.b("pong"));
    let mut ids = take(&one, 1).await;
    for _ in 0..50 {
        let turn = start_take(&other, 1);
        give(&one, &ids).await;
        ids = turn.granted_within(SLACK).await.value;
        std::mem::swap(&mut one, &mut other);
    }
    give(&one, &ids).await;
    assert_eq!(value(pair), Some(1));
    pair.listening(0).await;
    forget(pair);
}

async fn many_waiters_for_leased_permits_are_all_served(pair: &Pair) {
    set(pair, 2).await;
    let parties: Vec<_> =
        (0..6).flat_map(|n| [pair.a(format!("a{n}")), pair.b(format!("b{n}"))]).collect();
    join_all(parties.iter().map(async |party| {
        for _ in 0..5 {
            let taken = start_take(party, 1).granted_within(4 * SLACK).await;
            give(party, &taken.value).await;
        }
    }))
    .await;
    assert_eq!(value(pair), Some(2));
    forget(pair);
}

async fn a_cancelled_waiter_for_leased_permits_leaves_nothing(pair: &Pair) {
    set(pair, 1).await;
    let (holder, quitter, heir) = (pair.a("holder"), pair.b("quitter"), pair.b("heir"));
    let ids = take(&holder, 1).await;
    let turn = start_asleep(pair, &quitter, 1).await;
    quitter.cancel().await;
    let error = turn.answer().await.expect_err("a cancelled acquisition");
    assert_eq!(error.code(), Some("cancelled"), "{error}");
    pair.listening(0).await;
    give(&holder, &ids).await;
    assert_eq!(value(pair), Some(1));
    let ids = take(&heir, 1).await;
    give(&heir, &ids).await;
    forget(pair);
}

/// Redisson renews no permit: issue 3046.
async fn permits_of_ours_are_renewed_and_a_loss_is_told(pair: &Pair) {
    set(pair, 1).await;
    // Its watchdog has a shorter time.
    let (holder, other) = (pair.doomed("holder").await, pair.b("other"));
    let taken = holder.start_acquire(1).granted_within(SLACK).await;
    let first = out(pair)[0].1;
    sleep(Duration::from_millis(first as u64 / 2)).await;
    assert!(try_take(&other, 1, LEASE).await.is_none());
    let (id, second) = out(pair).remove(0);
    assert!(second > first / 2 + 100, "renewed: {first}, then {second}");
    // As a JVM whose clock is far ahead.
    pair.redis().query::<()>(cmd("ZREM").arg(permit_timeouts(pair.name())).arg(id));
    pair.redis().query::<()>(cmd("INCRBY").arg(pair.name()).arg(1));
    let ids = take(&other, 1).await;
    let lost = about(&holder, "lost", json!({ "wait_ms": 2 * first })).await;
    assert_eq!(lost, "removed");
    refused(&holder, &taken.value).await;
    give(&other, &ids).await;
    assert_eq!(value(pair), Some(1));
    forget(pair);
}

/// Redisson's waiter for two may take the wake-up, and the waiter for one sleeps on.
async fn a_small_waiter_for_leased_permits_does_not_sleep_beside_a_free_permit(pair: &Pair) {
    set(pair, 2).await;
    let (holder, large, small) = (pair.a("holder"), pair.b("large"), pair.b("small"));
    let (one, other) = (take(&holder, 1).await, take(&holder, 1).await);
    let large_turn = start_asleep(pair, &large, 2).await;
    let small_turn = start_asleep(pair, &small, 1).await;
    give(&holder, &one).await;
    let taken = small_turn.granted_within(PROMPT).await;
    assert!(large_turn.is_pending());
    give(&holder, &other).await;
    give(&small, &taken.value).await;
    let taken = large_turn.granted_within(PROMPT).await;
    give(&large, &taken.value).await;
    assert_eq!(value(pair), Some(2));
    forget(pair);
}
