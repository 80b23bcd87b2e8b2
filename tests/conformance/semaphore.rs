//! A counter of permits, which have no owner.

use std::time::Duration;

use futures::future::join_all;
use harness::Party;
use harness::redis::cmd;
use serde_json::json;
use tokio::time::sleep;

use crate::kind::SEMAPHORE;
use crate::mix::Mix;
use crate::pair::Pair;
use crate::scenario::scenarios;
use crate::shared::{PROMPT, SLACK};

scenarios! {
    the_bytes_and_messages_of_a_semaphore_are_the_same: SEMAPHORE;
    no_more_permits_are_out_than_there_are: SEMAPHORE;
    a_waiter_for_permits_is_woken_by_a_release: SEMAPHORE;
    a_waiter_for_permits_is_woken_by_a_message_alone: SEMAPHORE;
    a_waiter_for_a_semaphore_that_is_not_there_waits_until_it_is_set: SEMAPHORE;
    added_permits_wake_waiters: SEMAPHORE;
    a_waiter_for_many_permits_is_granted_by_single_releases: SEMAPHORE;
    a_waiter_for_permits_is_granted_within_its_time_or_refused_when_it_is_over: SEMAPHORE;
    waiters_for_permits_are_served_in_fifty_turns_to_and_fro: SEMAPHORE;
    many_waiters_for_permits_are_all_served: SEMAPHORE;
    a_semaphore_at_zero_is_not_set_again: SEMAPHORE;
    a_cancelled_waiter_for_permits_leaves_nothing: SEMAPHORE;
    a_small_waiter_does_not_sleep_beside_a_free_permit: SEMAPHORE, in Mix::B_IS_RUST;
    a_waiter_whose_time_is_over_looks_once_more: SEMAPHORE, in Mix::B_IS_RUST;
    a_process_that_dies_takes_its_permits_along: SEMAPHORE;
}

fn value(pair: &Pair) -> Option<String> {
    pair.redis().query(cmd("GET").arg(pair.name()))
}

/// The end of each scenario: nothing else deletes a semaphore.
fn forget(pair: &Pair) {
    pair.redis().query::<()>(cmd("DEL").arg(pair.name()));
}

async fn set(pair: &Pair, permits: i64) {
    assert_eq!(pair.a("creator").with("set", permits).await, true);
}

/// Begins to take so many permits, which are not free. Comes back when the waiter sleeps.
async fn start_asleep(pair: &Pair, party: &Party, n: i64) -> harness::Pending {
    let turn = party.start_acquire(n);
    pair.listening(1).await;
    // It looks once more when it is subscribed.
    sleep(Duration::from_millis(300)).await;
    turn
}

async fn the_bytes_and_messages_of_a_semaphore_are_the_same(pair: &Pair) {
    let mut messages = pair.messages(&pair.kind().channel(pair.name()));
    let told = |messages: &mut harness::Messages| messages.so_far(pair.redis());
    for (one, other) in [(pair.a("one"), pair.b("other")), (pair.b("two"), pair.a("twin"))] {
        assert_eq!(one.with("count", 0).await, 0);
        assert_eq!(one.with("set", 3).await, true);
        assert_eq!((value(pair).as_deref(), &*told(&mut messages)), (Some("3"), &["3".into()][..]));
        assert_eq!(other.with("set", 5).await, false);
        one.start_acquire(2).granted().await;
        assert_eq!(value(pair).as_deref(), Some("1"));
        for asked in [&one, &other] {
            assert_eq!(asked.with("count", 0).await, 1);
        }
        assert_eq!(told(&mut messages), [""; 0]);
        one.with("unlock", 2).await;
        assert_eq!((value(pair).as_deref(), &*told(&mut messages)), (Some("3"), &["3".into()][..]));
        // Nobody owns a permit.
        other.with("unlock", 1).await;
        one.with("add", 4).await;
        one.with("add", -2).await;
        assert_eq!(value(pair).as_deref(), Some("6"));
        assert_eq!(told(&mut messages), ["4", "8", "6"]);
        assert_eq!(one.with("drain", 0).await, 6);
        assert_eq!((value(pair).as_deref(), told(&mut messages)), (Some("0"), vec![]));
        other.with("add", -3).await;
        told(&mut messages);
        assert_eq!(one.with("count", 0).await, -3);
        assert!(!one.start_try_acquire(1, Duration::ZERO).answer().await.unwrap().is_granted());
        assert_eq!(one.with("drain", 0).await, -3);
        assert_eq!(value(pair).as_deref(), Some("0"));
        forget(pair);
        // As the JDK does.
        one.with("unlock", 1).await;
        assert_eq!((value(pair).as_deref(), &*told(&mut messages)), (Some("1"), &["1".into()][..]));
        forget(pair);
    }
}

async fn no_more_permits_are_out_than_there_are(pair: &Pair) {
    set(pair, 3).await;
    let (one, other) = (pair.a("one"), pair.b("other"));
    let tries = async |party: &Party, n| {
        let tried = party.start_try_acquire(n, Duration::ZERO).answer().await;
        tried.expect("an answer").is_granted()
    };
    assert!(tries(&one, 2).await);
    assert!(!tries(&other, 2).await);
    assert!(tries(&other, 1).await);
    assert!(!tries(&one, 1).await && !tries(&other, 1).await);
    one.with("unlock", 2).await;
    assert!(tries(&other, 2).await);
    assert_eq!(value(pair).as_deref(), Some("0"));
    other.with("unlock", 2).await;
    other.with("unlock", 1).await;
    assert_eq!(value(pair).as_deref(), Some("3"));
    forget(pair);
}

async fn a_waiter_for_permits_is_woken_by_a_release(pair: &Pair) {
    set(pair, 1).await;
    let (holder, waiter) = (pair.a("holder"), pair.b("waiter"));
    holder.start_acquire(1).granted().await;
    let turn = start_asleep(pair, &waiter, 1).await;
    assert!(turn.is_pending());
    let release = holder.start("unlock", json!({ "n": 1 })).answer().await.expect("a release");
    let taken = turn.granted().await;
    assert!(taken.after_start_of(&release) < PROMPT, "{taken:?} {release:?}");
    waiter.with("unlock", 1).await;
    assert_eq!(value(pair).as_deref(), Some("1"));
    forget(pair);
}

/// A message that comes again and again grants nothing by itself.
async fn a_waiter_for_permits_is_woken_by_a_message_alone(pair: &Pair) {
    set(pair, 0).await;
    let waiter = pair.b("waiter");
    let turn = start_asleep(pair, &waiter, 1).await;
    let tell = |message| pair.redis().publish(&pair.kind().channel(pair.name()), message);
    for message in ["1", "2"] {
        assert_eq!(tell(message), 1);
        sleep(Duration::from_millis(200)).await;
        assert!(turn.is_pending());
    }
    pair.redis().query::<()>(cmd("SET").arg(pair.name()).arg(1));
    assert_eq!(tell("1"), 1);
    turn.granted_within(PROMPT).await;
    forget(pair);
}

/// Issue 4401 of Redisson: it waits, and creates nothing.
async fn a_waiter_for_a_semaphore_that_is_not_there_waits_until_it_is_set(pair: &Pair) {
    let (creator, waiter) = (pair.a("creator"), pair.b("waiter"));
    let turn = start_asleep(pair, &waiter, 1).await;
    assert!(turn.is_pending());
    assert_eq!(value(pair), None);
    let set = creator.start("set", json!({ "n": 1 })).answer().await.expect("a set");
    let taken = turn.granted().await;
    assert!(taken.after_start_of(&set) < PROMPT, "{taken:?} {set:?}");
    forget(pair);
}

/// Issue 3225 of Redisson.
async fn added_permits_wake_waiters(pair: &Pair) {
    set(pair, 0).await;
    let (adder, waiter) = (pair.a("adder"), pair.b("waiter"));
    let turn = start_asleep(pair, &waiter, 2).await;
    let add = adder.start("add", json!({ "n": 2 })).answer().await.expect("an addition");
    let taken = turn.granted().await;
    assert!(taken.after_start_of(&add) < PROMPT, "{taken:?} {add:?}");
    assert_eq!(value(pair).as_deref(), Some("0"));
    forget(pair);
}

/// Issues 6664 and 6687 of Redisson, of its expirable semaphore.
async fn a_waiter_for_many_permits_is_granted_by_single_releases(pair: &Pair) {
    set(pair, 0).await;
    let (holder, waiter) = (pair.a("holder"), pair.b("waiter"));
    let turn = start_asleep(pair, &waiter, 3).await;
    for _ in 0..3 {
        assert!(turn.is_pending());
        holder.with("unlock", 1).await;
    }
    turn.granted_within(PROMPT).await;
    assert_eq!(value(pair).as_deref(), Some("0"));
    forget(pair);
}

async fn a_waiter_for_permits_is_granted_within_its_time_or_refused_when_it_is_over(pair: &Pair) {
    set(pair, 0).await;
    let (holder, waiter) = (pair.a("holder"), pair.b("waiter"));
    let wait = Duration::from_millis(700);
    let refusal = waiter.start_try_acquire(1, wait).answer().await.expect("an answer");
    assert!(!refusal.is_granted(), "{refusal:?}");
    // A peer may count in whole milliseconds.
    assert!(refusal.took() >= wait - Duration::from_millis(5), "{refusal:?}");
    assert!(refusal.took() < wait + SLACK, "{refusal:?}");
    pair.listening(0).await;
    let turn = waiter.start_try_acquire(1, Duration::from_secs(30));
    pair.listening(1).await;
    let release = holder.start("unlock", json!({ "n": 1 })).answer().await.expect("a release");
    let taken = turn.granted().await;
    assert!(taken.after_start_of(&release) < PROMPT, "{taken:?} {release:?}");
    forget(pair);
}

/// Issue 5762 of Redisson: messages of releases were missed.
async fn waiters_for_permits_are_served_in_fifty_turns_to_and_fro(pair: &Pair) {
    set(pair, 0).await;
    let (mut one, mut other) = (pair.a("ping"), pair.b("pong"));
    for _ in 0..50 {
        let turn = other.start_acquire(1);
        one.with("unlock", 1).await;
        turn.granted_within(SLACK).await;
        std::mem::swap(&mut one, &mut other);
    }
    assert_eq!(value(pair).as_deref(), Some("0"));
    pair.listening(0).await;
    forget(pair);
}

/// Issues 3573 and 3728 of Redisson: threads starved.
async fn many_waiters_for_permits_are_all_served(pair: &Pair) {
    set(pair, 2).await;
    let parties: Vec<_> =
        (0..6).flat_map(|n| [pair.a(format!("a{n}")), pair.b(format!("b{n}"))]).collect();
    join_all(parties.iter().map(async |party| {
        for _ in 0..5 {
            party.start_acquire(1).granted_within(4 * SLACK).await;
            party.with("unlock", 1).await;
        }
    }))
    .await;
    assert_eq!(value(pair).as_deref(), Some("2"));
    forget(pair);
}

/// Issue 4678 of Redisson, of its expirable semaphore.
async fn a_semaphore_at_zero_is_not_set_again(pair: &Pair) {
    set(pair, 1).await;
    pair.a("holder").start_acquire(1).granted().await;
    for party in [pair.a("one"), pair.b("other")] {
        assert_eq!(party.with("set", 5).await, false);
        assert_eq!(value(pair).as_deref(), Some("0"));
    }
    forget(pair);
}

async fn a_cancelled_waiter_for_permits_leaves_nothing(pair: &Pair) {
    set(pair, 0).await;
    let (holder, quitter, heir) = (pair.a("holder"), pair.b("quitter"), pair.b("heir"));
    let turn = start_asleep(pair, &quitter, 1).await;
    quitter.cancel().await;
    let error = turn.answer().await.expect_err("a cancelled acquisition");
    assert_eq!(error.code(), Some("cancelled"), "{error}");
    pair.listening(0).await;
    holder.with("unlock", 1).await;
    assert_eq!(value(pair).as_deref(), Some("1"));
    heir.start_acquire(1).granted_within(SLACK).await;
    forget(pair);
}

/// Redisson's waiter for three may take the wake-up, and the waiter for one sleeps on.
async fn a_small_waiter_does_not_sleep_beside_a_free_permit(pair: &Pair) {
    set(pair, 0).await;
    let (holder, large, small) = (pair.a("holder"), pair.b("large"), pair.b("small"));
    let large_turn = start_asleep(pair, &large, 3).await;
    let small_turn = start_asleep(pair, &small, 1).await;
    let release = holder.start("unlock", json!({ "n": 1 })).answer().await.expect("a release");
    let taken = small_turn.granted().await;
    assert!(taken.after_start_of(&release) < PROMPT, "{taken:?} {release:?}");
    assert!(large_turn.is_pending());
    holder.with("unlock", 3).await;
    large_turn.granted_within(PROMPT).await;
    forget(pair);
}

/// Redisson's does not.
async fn a_waiter_whose_time_is_over_looks_once_more(pair: &Pair) {
    set(pair, 0).await;
    let turn = pair.b("waiter").start_try_acquire(1, Duration::from_millis(1_500));
    pair.listening(1).await;
    sleep(Duration::from_millis(300)).await;
    // In silence.
    pair.redis().query::<()>(cmd("SET").arg(pair.name()).arg(1));
    turn.granted_within(SLACK).await;
    forget(pair);
}

/// Issues 4462, 2213 and 2045 of Redisson: a permit has no lease. Somebody has to add it again.
async fn a_process_that_dies_takes_its_permits_along(pair: &Pair) {
    set(pair, 2).await;
    let (doomed, waiter) = (pair.doomed("doomed").await, pair.b("waiter"));
    doomed.start_acquire(2).granted().await;
    let turn = start_asleep(pair, &waiter, 1).await;
    doomed.peer().kill().await;
    sleep(Duration::from_secs(1)).await;
    assert!(turn.is_pending());
    assert_eq!(value(pair).as_deref(), Some("0"));
    pair.a("operator").with("add", 2).await;
    turn.granted_within(PROMPT).await;
    forget(pair);
}
