//! How long a hold lasts.

use std::time::Duration;

use harness::{Inspector, epoch_micros};

use crate::kind::{EVERY, EXCLUSIVE, REENTRANT};
use crate::pair::Pair;
use crate::scenario::scenarios;
use crate::shared::{SHORT_WATCHDOG, SLACK};

scenarios! {
    a_hold_without_a_lease_has_the_watchdogs_ttl: EVERY;
    a_hold_with_a_lease_has_its_ttl: EVERY;
    a_watchdog_keeps_a_hold_alive: EXCLUSIVE;
    a_lease_ends_by_itself_and_its_unlock_is_refused: EXCLUSIVE;
    a_re_entry_without_a_lease_keeps_a_leased_hold_alive: REENTRANT;
}

async fn a_hold_without_a_lease_has_the_watchdogs_ttl(pair: &Pair) {
    for party in [pair.a("one"), pair.b("other")] {
        party.lock().await;
        assert_ttl(pair.redis(), pair.name(), 15_000..=30_000);
        party.unlock().await;
        assert!(party.try_lock().await);
        assert_ttl(pair.redis(), pair.name(), 15_000..=30_000);
        party.unlock().await;
    }
}

async fn a_hold_with_a_lease_has_its_ttl(pair: &Pair) {
    let lease = Duration::from_secs(60);
    for party in [pair.a("one"), pair.b("other")] {
        party.lock_for(lease).await;
        assert_ttl(pair.redis(), pair.name(), 45_000..=60_000);
        party.unlock().await;
        assert!(party.try_lock_for(lease).await);
        assert_ttl(pair.redis(), pair.name(), 45_000..=60_000);
        party.unlock().await;
        party.start_try_lock_for(SLACK, lease).granted().await;
        assert_ttl(pair.redis(), pair.name(), 45_000..=60_000);
        party.unlock().await;
    }
}

async fn a_watchdog_keeps_a_hold_alive(pair: &Pair) {
    pair.java_may_stay_subscribed_for(&[&pair.b("other")]);
    let pair = pair.with(|args| args.watchdog(SHORT_WATCHDOG)).await;
    let (holder, other) = (pair.a("holder"), pair.b("other"));
    holder.lock().await;
    let before = pair.holder();
    let end = std::time::Instant::now() + SHORT_WATCHDOG.mul_f32(2.5);
    while std::time::Instant::now() < end {
        assert_ttl(pair.redis(), pair.name(), 1..=SHORT_WATCHDOG.as_millis() as i64);
        assert!(
            !other
                .start_try_lock(Duration::from_millis(200))
                .answer()
                .await
                .expect("an answer")
                .is_granted()
        );
    }
    assert_eq!(pair.holder(), before);
    assert!(holder.is_held().await);
    holder.unlock().await;
}

/// The lease is longer than the pause between two renewals, of which there must be none.
async fn a_lease_ends_by_itself_and_its_unlock_is_refused(pair: &Pair) {
    let pair = pair.with(|args| args.watchdog(SHORT_WATCHDOG)).await;
    let (holder, heir) = (pair.a("holder"), pair.b("heir"));
    let lease = SHORT_WATCHDOG.mul_f32(0.8);
    let asked = epoch_micros();
    holder.lock_for(lease).await;
    let inherited = heir.start_lock().granted_within(lease + SLACK).await;
    let after = Duration::from_micros(inherited.at - asked);
    assert!(after >= lease, "{after:?}");

    let seen = pair.holder();
    assert!(!holder.is_held().await);
    assert_eq!(holder.unlock_refused().await, "not_held");
    assert_eq!(pair.holder(), seen);
    heir.unlock().await;
}

/// Redisson re-enters with the TTL of the last lease, not with the watchdog's, and renews a third of a watchdog later:
/// the lease has to be longer than that.
async fn a_re_entry_without_a_lease_keeps_a_leased_hold_alive(pair: &Pair) {
    let pair = pair.with(|args| args.watchdog(SHORT_WATCHDOG)).await;
    let (holder, other) = (pair.a("holder"), pair.b("other"));
    holder.lock_for(SHORT_WATCHDOG.mul_f32(0.8)).await;
    holder.lock().await;
    let refusal = other.start_try_lock(2 * SHORT_WATCHDOG).answer().await.expect("an answer");
    assert!(!refusal.is_granted());
    assert_eq!(pair.holder().expect("a holder").count, 2);
    assert!(other.force_unlock().await);
}

fn assert_ttl(redis: &Inspector, name: &str, expected: std::ops::RangeInclusive<i64>) {
    let ttl = redis.pttl(name);
    assert!(expected.contains(&ttl), "{ttl} is not in {expected:?}");
}
