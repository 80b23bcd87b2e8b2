//! Two processes at one plain lock, in every mix of languages.

use harness::{Lang, PATIENCE, eventually};
use tokio::time::sleep;

use crate::{LEASE, PROMPT, Stage, mixes};

mixes! {
    one_holder_at_a_time;
    a_waiter_gets_it_when_it_is_released;
    a_killed_holder_has_it_to_the_end_of_its_lease;
    who_was_late_frees_nobody_elses;
}

async fn one_holder_at_a_time(test: &str, langs: [Lang; 2]) {
    let Some(stage) = Stage::of(test, langs).await else { return };
    exclude(&stage).await;
}

pub(crate) async fn exclude(stage: &Stage) {
    let [one, other] = stage.owners("lock:product:1");
    for (holder, rival) in [(&one, &other), (&other, &one)] {
        holder.lock().await;
        let left = rival.remaining_ms().await;
        assert!((1..=30_000).contains(&left), "{left} ms");
        assert!(!rival.try_lock().await);
        assert!(!rival.start_try_lock(PROMPT / 4).answer().await.unwrap().is_granted());
        assert!(holder.is_held().await);
        holder.unlock().await;
        assert!(rival.try_lock().await);
        rival.unlock().await;
    }
    let keys = stage.redis().keys();
    assert!(keys.is_empty(), "{keys:?}");
}

async fn a_waiter_gets_it_when_it_is_released(test: &str, langs: [Lang; 2]) {
    let Some(stage) = Stage::of(test, langs).await else { return };
    hand_on(&stage).await;
}

pub(crate) async fn hand_on(stage: &Stage) {
    let [holder, waiter] = stage.owners("lock:product:1");
    holder.lock().await;
    let turn = waiter.start_lock();
    // Longer than a watchdog's period, and than any pause of a waiter.
    sleep(PROMPT).await;
    assert!(turn.is_pending());
    let release = holder.unlock().await;
    let granted = turn.granted().await;
    assert!(granted.after_start_of(&release) < PROMPT, "{granted:?} {release:?}");
    waiter.unlock().await;
}

async fn a_killed_holder_has_it_to_the_end_of_its_lease(test: &str, langs: [Lang; 2]) {
    let Some(stage) = Stage::of(test, langs).await else { return };
    let [holder, waiter] = stage.owners("lock:product:1");
    holder.lock_for(LEASE).await;
    let turn = waiter.start_lock();
    stage.peers[0].kill().await;
    let granted = turn.granted_within(LEASE + PATIENCE).await;
    // Less what it took until the waiter had asked.
    assert!(granted.took() > LEASE / 2, "{granted:?}");
    assert!(granted.took() < LEASE + PROMPT, "{granted:?}");
    waiter.unlock().await;
}

/// A holder whose lease ended does not free the lock of the next.
async fn who_was_late_frees_nobody_elses(test: &str, langs: [Lang; 2]) {
    let Some(stage) = Stage::of(test, langs).await else { return };
    come_late(&stage).await;
}

pub(crate) async fn come_late(stage: &Stage) {
    let [late, next] = stage.owners("lock:product:1");
    late.lock_for(PROMPT).await;
    next.start_lock().granted_within(PROMPT + PATIENCE).await;
    assert_eq!(late.unlock_refused().await, "not_held");
    assert!(next.is_held().await);
    assert!(!late.try_lock().await);
    next.unlock().await;
    let gone = || (!stage.redis().exists("lock:product:1")).then_some(());
    eventually(PATIENCE, "the end of it", gone).await;
}
