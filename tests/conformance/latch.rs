//! A count that callers wait for.

use std::time::Duration;

use futures::future::join_all;
use harness::redis::cmd;
use serde_json::Value;
use tokio::time::sleep;

use crate::kind::LATCH;
use crate::mix::Mix;
use crate::pair::Pair;
use crate::scenario::scenarios;
use crate::shared::{PROMPT, SLACK};

scenarios! {
    the_bytes_and_messages_of_a_latch_are_the_same: LATCH;
    all_waiters_of_a_latch_are_woken_by_its_zero: LATCH;
    a_latch_that_is_not_set_is_open: LATCH;
    a_wait_for_a_latch_ends_with_its_time: LATCH;
    a_latch_that_is_set_again_is_waited_for_again: LATCH;
    a_wait_that_begins_while_the_latch_opens_misses_nothing: LATCH;
    a_stray_zero_lets_nobody_through: LATCH;
    a_latch_that_goes_in_silence_lets_waiters_through: LATCH, in Mix::B_IS_RUST;
}

fn value(pair: &Pair) -> Option<String> {
    pair.redis().query(cmd("GET").arg(pair.name()))
}

async fn the_bytes_and_messages_of_a_latch_are_the_same(pair: &Pair) {
    let mut messages = pair.messages(&pair.kind().channel(pair.name()));
    for (one, other) in [(pair.a("one"), pair.b("other")), (pair.b("two"), pair.a("twin"))] {
        assert_eq!(one.with("set", 2).await, true);
        assert_eq!(value(pair).as_deref(), Some("2"));
        assert_eq!(messages.so_far(pair.redis()), ["1"]);
        assert_eq!(other.with("set", 5).await, false);
        assert_eq!(
            (one.with("count", 0).await, other.with("count", 0).await),
            (2.into(), 2.into())
        );
        assert_eq!(one.with("count_down", 1).await, Value::Null);
        assert_eq!(value(pair).as_deref(), Some("1"));
        assert_eq!(messages.so_far(pair.redis()), [""; 0]);
        other.with("count_down", 1).await;
        assert_eq!(value(pair), None);
        assert_eq!(messages.so_far(pair.redis()), ["0"]);
        assert_eq!(
            (one.with("count", 0).await, other.with("count", 0).await),
            (0.into(), 0.into())
        );
        // Of nothing.
        one.with("count_down", 1).await;
        assert_eq!((value(pair), messages.so_far(pair.redis())), (None, vec![]));
    }
}

/// Issues 5349, 5704 and 2304 of Redisson: not all waiters were woken.
async fn all_waiters_of_a_latch_are_woken_by_its_zero(pair: &Pair) {
    pair.a("creator").with("set", 2).await;
    let waiters: Vec<_> =
        (0..4).flat_map(|n| [pair.a(format!("a{n}")), pair.b(format!("b{n}"))]).collect();
    let turns: Vec<_> = waiters.iter().map(|waiter| waiter.start_lock()).collect();
    let processes =
        if pair.a("one").peer().client() == pair.b("one").peer().client() { 1 } else { 2 };
    pair.listening(processes).await;
    sleep(Duration::from_millis(300)).await;
    pair.a("worker").with("count_down", 1).await;
    assert!(turns.iter().all(|turn| turn.is_pending()));
    pair.b("worker").with("count_down", 1).await;
    join_all(turns.into_iter().map(|turn| turn.granted_within(PROMPT))).await;
    pair.listening(0).await;
}

async fn a_latch_that_is_not_set_is_open(pair: &Pair) {
    for party in [pair.a("one"), pair.b("other")] {
        party.lock().await;
        assert!(party.start_try_lock(SLACK).answer().await.expect("an answer").is_true());
    }
}

async fn a_wait_for_a_latch_ends_with_its_time(pair: &Pair) {
    pair.a("creator").with("set", 1).await;
    let waiter = pair.b("waiter");
    let wait = Duration::from_millis(700);
    let refusal = waiter.start_try_lock(wait).answer().await.expect("an answer");
    assert!(!refusal.is_true(), "{refusal:?}");
    assert!(refusal.took() >= wait - Duration::from_millis(5), "{refusal:?}");
    assert!(refusal.took() < wait + SLACK, "{refusal:?}");
    pair.listening(0).await;
    let turn = waiter.start_try_lock(Duration::from_secs(30));
    pair.listening(1).await;
    pair.a("worker").with("count_down", 1).await;
    turn.granted_within(PROMPT).await;
}

async fn a_latch_that_is_set_again_is_waited_for_again(pair: &Pair) {
    let (creator, waiter) = (pair.a("creator"), pair.b("waiter"));
    for _ in 0..10 {
        assert_eq!(creator.with("set", 1).await, true);
        let turn = waiter.start_lock();
        pair.listening(1).await;
        assert!(turn.is_pending());
        creator.with("count_down", 1).await;
        turn.granted_within(SLACK).await;
        pair.listening(0).await;
    }
}

/// Redisson's asynchronous waiters may miss the zero between their look and their registration.
async fn a_wait_that_begins_while_the_latch_opens_misses_nothing(pair: &Pair) {
    let (worker, waiter) = (pair.a("worker"), pair.b("waiter"));
    for _ in 0..50 {
        worker.with("set", 1).await;
        let turn = waiter.start_lock();
        worker.with("count_down", 1).await;
        turn.granted_within(PROMPT).await;
    }
    pair.listening(0).await;
}

async fn a_stray_zero_lets_nobody_through(pair: &Pair) {
    pair.a("creator").with("set", 1).await;
    let waiter = pair.b("waiter");
    let turn = waiter.start_lock();
    pair.listening(1).await;
    sleep(Duration::from_millis(300)).await;
    let channel = pair.kind().channel(pair.name());
    for message in ["0", "1", "0", "1"] {
        pair.redis().publish(&channel, message);
        sleep(Duration::from_millis(100)).await;
        assert!(turn.is_pending());
    }
    pair.a("worker").with("count_down", 1).await;
    turn.granted_within(PROMPT).await;
}

/// An expiry or a deletion by other means tells nobody.
async fn a_latch_that_goes_in_silence_lets_waiters_through(pair: &Pair) {
    pair.a("creator").with("set", 1).await;
    let turn = pair.b("waiter").start_lock();
    pair.listening(1).await;
    pair.redis().query::<()>(cmd("DEL").arg(pair.name()));
    turn.granted_within(SLACK).await;
}
