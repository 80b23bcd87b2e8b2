//! A lock that its holder cannot re-enter.

use std::time::Duration;

use serde_json::json;

use crate::kind::NON_REENTRANT;
use crate::pair::Pair;
use crate::scenario::scenarios;
use crate::shared::PROMPT;

scenarios! {
    a_re_entry_is_refused_and_changes_nothing: NON_REENTRANT;
    after_a_refused_re_entry_the_hold_ends_as_ever: NON_REENTRANT;
}

async fn a_re_entry_is_refused_and_changes_nothing(pair: &Pair) {
    for holder in [pair.a("one"), pair.b("other")] {
        holder.lock_for(Duration::from_secs(20)).await;
        let before = pair.redis().hash(pair.name());
        for op in ["lock", "try_lock"] {
            assert_eq!(holder.lock_fails(op).await, "would_deadlock");
            let longer = holder.ask(op, json!({ "lease_ms": 60_000 })).await;
            assert_eq!(longer.expect_err(op).code(), Some("would_deadlock"));
        }
        let waiting = holder.ask("try_lock", json!({ "wait_ms": 100 })).await;
        assert_eq!(waiting.expect_err("a wait for oneself").code(), Some("would_deadlock"));
        assert_eq!(pair.redis().hash(pair.name()), before);
        assert!((1..=20_000).contains(&pair.redis().pttl(pair.name())));
        assert_eq!(pair.redis().line(pair.name()), [""; 0]);
        assert_eq!(holder.hold_count().await, 1);
        holder.unlock().await;
        assert!(!pair.redis().exists(pair.name()));
    }
}

async fn after_a_refused_re_entry_the_hold_ends_as_ever(pair: &Pair) {
    let (holder, waiter) = (pair.a("holder"), pair.b("waiter"));
    holder.lock().await;
    let turn = pair.start_asleep(&waiter).await;
    assert_eq!(holder.lock_fails("lock").await, "would_deadlock");
    assert_eq!(holder.lock_fails("try_lock").await, "would_deadlock");
    assert!(turn.is_pending());
    holder.unlock().await;
    turn.granted_within(PROMPT).await;
    waiter.unlock().await;
    assert!(holder.try_lock().await);
    holder.unlock().await;
}
