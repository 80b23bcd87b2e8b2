//! A lock whose waiters poll, on the key of a plain lock.

use crate::kind::SPIN;
use crate::mix::Mix;
use crate::pair::Pair;
use crate::scenario::scenarios;
use crate::shared::PROMPT;

scenarios! {
    a_spin_lock_and_a_plain_lock_of_one_name_are_one_lock: SPIN;
    a_spin_waiter_listens_to_nobody: SPIN;
    a_spin_release_wakes_a_plain_waiter: SPIN, in Mix::A_IS_RUST;
}

async fn a_spin_lock_and_a_plain_lock_of_one_name_are_one_lock(pair: &Pair) {
    let (spinning, plain) = (pair.a("spinning"), pair.b("plain").of_kind("lock"));
    spinning.lock().await;
    assert!(!plain.try_lock().await);
    spinning.unlock().await;
    plain.lock().await;
    assert!(!spinning.try_lock().await);
    let turn = spinning.start_lock();
    pair.listening(1).await;
    assert!(turn.is_pending());
    let release = plain.unlock().await;
    let spun = turn.granted().await;
    assert!(spun.after_start_of(&release) < PROMPT, "{spun:?} {release:?}");
    spinning.unlock().await;
}

async fn a_spin_waiter_listens_to_nobody(pair: &Pair) {
    let (holder, waiter) = (pair.a("holder"), pair.b("waiter"));
    holder.lock().await;
    let turn = waiter.start_lock();
    pair.watch().refused_twice().await;
    pair.watch().refused_twice().await;
    assert_eq!(pair.listeners(pair.name()), 0);
    holder.unlock().await;
    turn.granted_within(PROMPT).await;
    waiter.unlock().await;
}

/// Redisson's tells nobody.
async fn a_spin_release_wakes_a_plain_waiter(pair: &Pair) {
    let (spinning, plain) = (pair.a("spinning"), pair.b("plain").of_kind("lock"));
    let mut messages = pair.messages(&pair.kind().channel(pair.name()));
    spinning.lock().await;
    let turn = pair.start_asleep(&plain).await;
    let release = spinning.unlock().await;
    let taken = turn.granted().await;
    assert!(taken.after_start_of(&release) < PROMPT, "{taken:?} {release:?}");
    assert_eq!(messages.so_far(pair.redis()), ["0"]);
    plain.unlock().await;
}
