//! A message wakes a waiter in time, or the waiter gives up and leaves nothing.

use std::time::{Duration, Instant};

use futures::future::join_all;
use harness::redis::cmd;
use harness::{Party, Pending};
use tokio::time::sleep;

use crate::kind::{ABANDONED, COMMON_CHANNEL, EXCLUSIVE, FAIR, Kind, WAKING};
use crate::mix::Mix;
use crate::pair::Pair;
use crate::scenario::scenarios;
use crate::shared::{PROMPT, SLACK, WATCHDOG};

scenarios! {
    a_waiter_is_woken_by_the_unlock: EXCLUSIVE;
    a_waiter_is_woken_by_a_message_alone: WAKING;
    a_false_alarm_grants_nothing_and_costs_nothing: WAKING;
    only_the_last_unlock_is_told_and_once: COMMON_CHANNEL;
    a_try_at_once_is_refused_at_once: EXCLUSIVE;
    a_try_with_a_wait_is_refused_when_it_is_over: EXCLUSIVE;
    a_try_with_a_wait_is_granted_within_it: EXCLUSIVE;
    twenty_hand_overs_to_and_fro: EXCLUSIVE;
    a_cancelled_waiter_leaves_nothing: ABANDONED;
    a_cancelled_waiter_leaves_nothing: FAIR, in Mix::B_IS_RUST;
    a_cancelled_waiter_is_not_in_the_way_of_others: ABANDONED;
    a_cancelled_waiter_is_not_in_the_way_of_others: FAIR, in Mix::B_IS_RUST;
}

async fn a_waiter_is_woken_by_the_unlock(pair: &Pair) {
    let (holder, waiter) = (pair.a("holder"), pair.b("waiter"));
    holder.lock().await;
    let turn = pair.start_asleep(&waiter).await;
    assert!(turn.is_pending());
    // It is no expiry it will be woken by.
    let remaining = pair.redis().pttl(pair.name());
    assert!(remaining > 10_000, "{remaining}");
    let unlock = holder.unlock().await;
    let lock = turn.granted().await;
    let hand_over = lock.after_start_of(&unlock);
    assert!(hand_over < PROMPT, "{hand_over:?}");
    waiter.unlock().await;
}

/// The key vanishes in silence; then a message, and nothing else, tells so.
async fn a_waiter_is_woken_by_a_message_alone(pair: &Pair) {
    let (holder, waiter) = (pair.a("holder"), pair.b("waiter"));
    holder.lock().await;
    // Behind its subscription it has looked once more: it will not find the key gone by itself.
    let turn = pair.start_asleep(&waiter).await;
    pair.listening(1).await;
    pair.redis().query::<()>(cmd("DEL").arg(pair.name()));
    assert_eq!(pair.wake(), 1);
    turn.granted_within(PROMPT).await;
    assert_eq!(holder.unlock_refused().await, "not_held");
    waiter.unlock().await;
}

async fn a_false_alarm_grants_nothing_and_costs_nothing(pair: &Pair) {
    let (holder, waiter, beside) = (pair.a("holder"), pair.b("waiter"), pair.b("beside"));
    holder.lock().await;
    let turn = pair.start_asleep(&waiter).await;
    for _ in 0..5 {
        assert_eq!(pair.wake(), 1);
        assert!(!beside.is_held().await);
    }
    assert!(turn.is_pending());
    assert_eq!(pair.holder().expect("a holder").client, holder.peer().client());
    holder.unlock().await;
    turn.granted_within(SLACK).await;
    waiter.unlock().await;
}

async fn only_the_last_unlock_is_told_and_once(pair: &Pair) {
    let mut messages = pair.messages(&pair.kind().channel(pair.name()));
    for party in [pair.a("one"), pair.b("other")] {
        let told = pair.kind().release_messages(party.peer().lang());
        pair.lock_deeply(&party).await;
        for _ in 1..pair.kind().depth() {
            party.unlock().await;
        }
        assert_eq!(messages.so_far(pair.redis()), [""; 0], "{party}");
        party.unlock().await;
        assert_eq!(messages.so_far(pair.redis()), told, "{party}");
        party.lock().await;
        party.force_unlock().await;
        assert_eq!(messages.so_far(pair.redis()), told, "{party}");
        assert_eq!(party.unlock_refused().await, "not_held");
        // The refusal itself may have told as much of a read/write lock.
        messages.so_far(pair.redis());
    }
}

async fn a_try_at_once_is_refused_at_once(pair: &Pair) {
    let (holder, other) = (pair.a("holder"), pair.b("other"));
    assert!(holder.try_lock().await);
    assert!(!other.try_lock().await);
    assert!(!other.start_try_lock(Duration::ZERO).answer().await.expect("an answer").is_granted());
    assert_eq!(pair.listeners(pair.name()), 0);
    assert_eq!(pair.redis().line(pair.name()), [""; 0]);
    holder.unlock().await;
    assert!(other.try_lock().await);
    other.unlock().await;
}

async fn a_try_with_a_wait_is_refused_when_it_is_over(pair: &Pair) {
    let (holder, other) = (pair.a("holder"), pair.b("other"));
    let wait = Duration::from_millis(700);
    pair.java_may_stay_subscribed_for(&[&other]);
    holder.lock().await;
    let refusal = other.start_try_lock(wait).answer().await.expect("an answer");
    assert!(!refusal.is_granted(), "{refusal:?}");
    // A peer may count in whole milliseconds.
    assert!(refusal.took() >= wait - Duration::from_millis(5), "{refusal:?}");
    assert!(refusal.took() < wait + SLACK, "{refusal:?}");
    pair.listening_no_more().await;
    holder.unlock().await;
}

async fn a_try_with_a_wait_is_granted_within_it(pair: &Pair) {
    let (holder, other) = (pair.a("holder"), pair.b("other"));
    holder.lock().await;
    let watch = pair.watch();
    let turn = other.start_try_lock(WATCHDOG);
    watch.refused_twice().await;
    assert!(turn.is_pending());
    let unlock = holder.unlock().await;
    let lock = turn.granted().await;
    assert!(lock.after_start_of(&unlock) < PROMPT, "{lock:?} {unlock:?}");
    other.unlock().await;
}

async fn twenty_hand_overs_to_and_fro(pair: &Pair) {
    let started = Instant::now();
    let (mut holder, mut waiter) = (pair.a("ping"), pair.b("pong"));
    holder.lock().await;
    for _ in 0..20 {
        let watch = pair.watch();
        let turn = waiter.start_lock();
        watch.refused_twice().await;
        holder.unlock().await;
        turn.granted_within(SLACK).await;
        pair.listening_no_more().await;
        std::mem::swap(&mut holder, &mut waiter);
    }
    holder.unlock().await;
    assert!(started.elapsed() < 20 * PROMPT, "{:?}", started.elapsed());
}

/// Cancels an acquisition that waits. Nothing that it sent is under way then: waiters of most kinds sleep by now.
async fn cancel(pair: &Pair, waiter: &Party, turn: Pending) {
    waiter.cancel().await;
    let error = turn.answer().await.expect_err("a cancelled acquisition");
    assert_eq!(error.code(), Some("cancelled"), "{error}");
    if pair.kind() == Kind::Spin {
        // A request that is under way may take the lock when it is free. This crate gives it back at once. Redisson does not
        // await it when its caller is interrupted.
        sleep(PROMPT).await;
    }
}

async fn a_cancelled_waiter_leaves_nothing(pair: &Pair) {
    let (holder, waiter, other) = (pair.a("holder"), pair.b("waiter"), pair.b("other"));
    holder.lock().await;
    let begins: [&dyn Fn() -> Pending; 2] =
        [&|| waiter.start_lock(), &|| waiter.start_try_lock(WATCHDOG)];
    for begin in begins {
        let watch = pair.watch();
        let turn = begin();
        watch.refused_twice().await;
        cancel(pair, &waiter, turn).await;
        pair.listening(0).await;
    }
    holder.unlock().await;
    assert!(!waiter.is_held().await);
    assert!(other.try_lock().await);
    other.unlock().await;
}

async fn a_cancelled_waiter_is_not_in_the_way_of_others(pair: &Pair) {
    let holder = pair.a("holder");
    let [quitter, one, other] = ["quitter", "one", "other"].map(|role| pair.b(role));
    holder.lock().await;
    let quitters_turn = pair.start_asleep(&quitter).await;
    let turns = match pair.kind() {
        // Redisson's waiters for a write lock miss the message unless they sleep, and of two that
        // are woken the second may not yet sleep again when the first unlocks.
        Kind::Write => vec![pair.start_asleep(&one).await],
        _ => vec![one.start_lock(), other.start_lock()],
    };
    cancel(pair, &quitter, quitters_turn).await;
    holder.unlock().await;
    // Either may be first: who is second waits for the other's unlock.
    let turns = [&one, &other].into_iter().zip(turns).map(async |(party, turn)| {
        turn.granted_within(SLACK).await;
        party.unlock().await;
    });
    join_all(turns).await;
}
