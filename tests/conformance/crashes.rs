//! Processes that die, or that seem to be dead.

use std::time::Duration;

use harness::{PATIENCE, epoch_micros, eventually};

use crate::kind::{Kind, MAIN};
use crate::pair::Pair;
use crate::scenario::scenarios;
use crate::shared::{SHORT_WATCHDOG, SLACK};

scenarios! {
    a_killed_holders_lock_is_inherited_when_its_ttl_ends: MAIN;
    a_killed_waiter_costs_nobody_the_lock: ONE_MESSAGE;
    a_holder_that_slept_through_its_ttl_does_no_harm: MAIN;
}

/// One message for all who wait, be they dead or not. Of a fair lock's waiters a dead one has its turn.
const ONE_MESSAGE: &[Kind] = &[Kind::Lock, Kind::Write];

async fn a_killed_holders_lock_is_inherited_when_its_ttl_ends(pair: &Pair) {
    let (holder, heir) = (pair.doomed("holder").await, pair.b("heir"));
    holder.lock().await;
    let turn = heir.start_lock();
    pair.listening(1).await;
    holder.peer().kill().await;

    let now = epoch_micros();
    let ttl = pair.redis().pttl(pair.name());
    assert!((0..=SHORT_WATCHDOG.as_millis() as i64).contains(&ttl), "{ttl}");
    let inherited = turn.granted_within(SHORT_WATCHDOG + SLACK).await;
    // The server counts in whole milliseconds.
    let after = inherited.at.saturating_sub(now) + 2_000;
    assert!(
        after >= u64::try_from(ttl).expect("a time") * 1_000,
        "inherited after {after} µs of {ttl} ms"
    );
    heir.unlock().await;
}

async fn a_killed_waiter_costs_nobody_the_lock(pair: &Pair) {
    let (waiter, holder, other) = (pair.doomed("waiter").await, pair.b("holder"), pair.b("other"));
    holder.lock().await;
    let (_never, turn) = (waiter.start_lock(), other.start_lock());
    pair.listening(2).await;
    waiter.peer().kill().await;
    pair.listening(1).await;
    holder.unlock().await;
    turn.granted_within(SLACK).await;
    other.unlock().await;
}

async fn a_holder_that_slept_through_its_ttl_does_no_harm(pair: &Pair) {
    let (sleeper, heir) = (pair.doomed("sleeper").await, pair.b("heir"));
    sleeper.lock().await;
    let turn = heir.start_lock();
    pair.listening(1).await;
    sleeper.peer().pause();
    turn.granted_within(SHORT_WATCHDOG + SLACK).await;
    let seen = pair.holder();
    sleeper.peer().resume();
    assert_eq!(sleeper.unlock_refused().await, "not_held");
    // Its renewals, if any were on their way, did not revive it either.
    let a_renewal_later = std::time::Instant::now() + SHORT_WATCHDOG / 2;
    eventually(PATIENCE, "a renewal's time", || {
        (std::time::Instant::now() > a_renewal_later).then_some(())
    })
    .await;
    assert_eq!(pair.holder(), seen);
    let ttl = Duration::from_millis(pair.redis().pttl(pair.name()).try_into().expect("a TTL"));
    assert!(ttl > SHORT_WATCHDOG, "{ttl:?} is not the heir's");
    heir.unlock().await;
}
