//! Fencing tokens grow, for every holder and every end of a hold.

use std::time::Duration;

use harness::redis::cmd;
use harness::{Lang, token_key};

use crate::kind::FENCED;
use crate::pair::Pair;
use crate::scenario::scenarios;
use crate::shared::{SHORT_WATCHDOG, SLACK};

scenarios! {
    tokens_grow_from_hold_to_hold_across_languages: FENCED;
    a_refused_try_costs_no_token: FENCED;
    tokens_grow_over_expiry_and_forced_unlock: FENCED;
    tokens_grow_over_a_killed_holder: FENCED;
    a_re_entry_and_its_token: FENCED;
    the_counter_outlives_the_lock_for_ever: FENCED;
    a_plain_waiter_knows_a_fenced_lock: FENCED;
}

async fn tokens_grow_from_hold_to_hold_across_languages(pair: &Pair) {
    let mut last = 0;
    for i in 0..8 {
        for party in [pair.a("one"), pair.b("other")] {
            let taken = match i % 2 {
                0 => party.lock().await,
                _ => party.start_try_lock(SLACK).granted().await,
            };
            let token = taken.number();
            assert!(token > last, "{party}: {token} after {last}");
            last = token;
            for asked in [pair.a("asker"), pair.b("asker")] {
                assert_eq!(asked.token().await, token);
            }
            party.unlock().await;
        }
    }
}

async fn a_refused_try_costs_no_token(pair: &Pair) {
    let (holder, other) = (pair.a("holder"), pair.b("other"));
    let token = holder.lock().await.number();
    assert!(!other.try_lock().await);
    assert!(!pair.a("beside").try_lock().await);
    assert_eq!(other.token().await, token);
    holder.unlock().await;
    assert_eq!(holder.token().await, token);
}

async fn tokens_grow_over_expiry_and_forced_unlock(pair: &Pair) {
    let (holder, heir) = (pair.a("holder"), pair.b("heir"));
    let lease = Duration::from_millis(600);
    let overdue = holder.lock_for(lease).await.number();
    let inherited = heir.start_lock().granted_within(lease + SLACK).await.number();
    assert!(inherited > overdue, "{inherited} after {overdue}");
    assert_eq!(holder.unlock_refused().await, "not_held");
    let turn = pair.start_asleep(&holder).await;
    assert!(pair.b("officer").force_unlock().await);
    let taken = turn.granted_within(SLACK).await.number();
    assert!(taken > inherited, "{taken} after {inherited}");
    assert_eq!(heir.unlock_refused().await, "not_held");
    holder.unlock().await;
}

async fn tokens_grow_over_a_killed_holder(pair: &Pair) {
    let (holder, heir) = (pair.doomed("holder").await, pair.b("heir"));
    let token = holder.lock().await.number();
    let turn = heir.start_lock();
    pair.listening(1).await;
    holder.peer().kill().await;
    let inherited = turn.granted_within(SHORT_WATCHDOG + SLACK).await.number();
    assert!(inherited > token, "{inherited} after {token}");
    heir.unlock().await;
}

/// Redisson counts a re-entry as another hold; to this crate it is the hold that there is.
async fn a_re_entry_and_its_token(pair: &Pair) {
    for party in [pair.a("one"), pair.b("other")] {
        let outer = party.lock().await.number();
        let inner = party.lock().await.number();
        match party.peer().lang() {
            Lang::Rust => assert_eq!(inner, outer),
            _ => assert!(inner > outer, "{inner} in {outer}"),
        }
        assert_eq!(pair.holder().expect("a holder").count, 2);
        assert_eq!(party.token().await, inner);
        party.unlock().await;
        party.unlock().await;
    }
}

async fn the_counter_outlives_the_lock_for_ever(pair: &Pair) {
    let key = token_key(pair.name());
    for party in [pair.a("one"), pair.b("other")] {
        party.lock_for(Duration::from_secs(20)).await;
        assert_eq!(pair.redis().pttl(&key), -1, "{party}");
        party.unlock().await;
        assert!(pair.redis().exists(&key), "{party}");
        // As it is for one who comes to a server that has lost it.
        pair.redis().query::<()>(cmd("DEL").arg(&key));
    }
}

async fn a_plain_waiter_knows_a_fenced_lock(pair: &Pair) {
    let (holder, waiter) = (pair.a("holder"), pair.b("waiter").of_kind("lock"));
    let token = holder.lock().await.number();
    let turn = pair.start_asleep(&waiter).await;
    holder.unlock().await;
    let plain = turn.granted_within(SLACK).await;
    assert!(plain.is_true(), "{plain:?}");
    assert!(!holder.try_lock().await);
    waiter.unlock().await;
    assert_eq!(holder.token().await, token);
}
