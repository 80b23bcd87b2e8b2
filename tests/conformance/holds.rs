//! What a hold is, and what each peer sees of it.

use std::time::Instant;

use harness::redis::cmd;
use harness::{Lang, PATIENCE, Party};
use serde_json::Value;

use crate::kind::{EVERY, EXCLUSIVE, Kind, NOT_FAIR, REENTRANT};
use crate::pair::Pair;
use crate::scenario::scenarios;
use crate::shared::SLACK;

scenarios! {
    a_hold_is_counted_where_the_other_side_sees_it: REENTRANT;
    a_re_entry_does_not_wait_behind_a_waiter: REENTRANT;
    an_unlock_of_a_free_lock_is_refused: NOT_FAIR;
    a_strangers_unlock_changes_nothing: EXCLUSIVE;
    the_questions_have_the_same_answers_on_both_sides: EVERY;
    a_forced_unlock_wakes_a_waiter_and_fails_the_holders: EXCLUSIVE;
    a_key_of_another_type_is_left_alone: EVERY;
}

async fn a_hold_is_counted_where_the_other_side_sees_it(pair: &Pair) {
    let (holder, other, beside) = (pair.a("holder"), pair.b("other"), pair.a("beside"));
    let mut thread = None;
    for count in 1..=3 {
        holder.lock().await;
        let seen = pair.holder().expect("a holder");
        assert_eq!((seen.client.as_str(), seen.count), (holder.peer().client(), count));
        assert_eq!(*thread.get_or_insert(seen.thread), seen.thread);
    }
    for count in [2, 1] {
        holder.unlock().await;
        assert_eq!(pair.holder().expect("a holder").count, count);
        assert_eq!(holder.hold_count().await, count);
        assert!(!other.try_lock().await);
        assert!(!beside.try_lock().await);
    }
    holder.unlock().await;
    assert_eq!(pair.holder(), None);
    assert!(other.try_lock().await);
    assert_eq!(pair.holder().expect("a holder").client, other.peer().client());
    other.unlock().await;
}

async fn a_re_entry_does_not_wait_behind_a_waiter(pair: &Pair) {
    let (holder, waiter) = (pair.a("holder"), pair.b("waiter"));
    holder.lock().await;
    let turn = pair.start_asleep(&waiter).await;
    holder.lock().await;
    holder.unlock().await;
    assert_eq!(pair.holder().expect("a holder").client, holder.peer().client());
    assert!(turn.is_pending());
    holder.unlock().await;
    turn.granted().await;
    waiter.unlock().await;
}

async fn an_unlock_of_a_free_lock_is_refused(pair: &Pair) {
    let (holder, stranger) = (pair.a("holder"), pair.b("stranger"));
    for party in [&holder, &stranger] {
        assert_eq!(party.unlock_refused().await, "not_held");
        assert!(!pair.redis().exists(pair.name()));
    }
    holder.lock().await;
    holder.unlock().await;
    assert_eq!(holder.unlock_refused().await, "not_held");
}

async fn a_strangers_unlock_changes_nothing(pair: &Pair) {
    let (holder, beside, stranger) = (pair.a("holder"), pair.a("beside"), pair.b("stranger"));
    pair.lock_deeply(&holder).await;
    let before = pair.holder();
    for party in [&beside, &stranger] {
        assert_eq!(party.unlock_refused().await, "not_held");
        assert_eq!(pair.holder(), before);
    }
    pair.unlock_deeply(&holder).await;
}

async fn the_questions_have_the_same_answers_on_both_sides(pair: &Pair) {
    let (holder, beside, other) = (pair.a("holder"), pair.a("beside"), pair.b("other"));
    let everybody = [&holder, &beside, &other];

    for party in everybody {
        assert_eq!(view(party).await, (false, false, 0), "{party}");
        assert_eq!(party.remaining_ms().await, -2, "{party}");
    }
    pair.lock_deeply(&holder).await;
    assert_eq!(view(&holder).await, (true, true, pair.kind().depth()));
    for party in [&beside, &other] {
        assert_eq!(view(party).await, (true, false, 0), "{party}");
    }
    for party in everybody {
        let remaining = party.remaining_ms().await;
        // To a writer's TTL Redisson adds a lease for each re-entry.
        let most = if pair.kind() == Kind::Write { 60_000 } else { 30_000 };
        assert!((1..=most).contains(&remaining), "{party}: {remaining}");
    }
    // A renewal may come between: a JVM renews all its holds together, young ones too.
    let mut said = [0; 3];
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        let _: bool = pair.redis().query(cmd("PERSIST").arg(pair.name()));
        for (said, party) in said.iter_mut().zip(everybody) {
            *said = party.remaining_ms().await;
        }
        if said == [-1; 3] {
            break;
        }
    }
    assert_eq!(said, [-1; 3]);
    pair.unlock_deeply(&holder).await;
    for party in everybody {
        assert_eq!(view(party).await, (false, false, 0), "{party}");
    }
}

/// Whether it is locked, whether by this one, and how many times.
async fn view(party: &Party) -> (bool, bool, i64) {
    (party.is_locked().await, party.is_held().await, party.hold_count().await)
}

async fn a_forced_unlock_wakes_a_waiter_and_fails_the_holders(pair: &Pair) {
    let (holder, waiter, officer) = (pair.a("holder"), pair.b("waiter"), pair.b("officer"));
    assert!(!officer.force_unlock().await);
    pair.lock_deeply(&holder).await;
    let turn = pair.start_asleep(&waiter).await;
    assert!(officer.force_unlock().await);
    turn.granted_within(SLACK).await;

    let heir = pair.holder();
    assert_eq!(holder.unlock_refused().await, "not_held");
    assert_eq!(pair.holder(), heir);
    waiter.unlock().await;
}

async fn a_key_of_another_type_is_left_alone(pair: &Pair) {
    pair.redis().query::<()>(cmd("SET").arg(pair.name()).arg("an answer"));
    for party in [pair.a("one"), pair.b("other")] {
        for op in ["lock", "try_lock"] {
            let error = party.ask(op, Value::Null).await.expect_err(op);
            let code = error.code();
            // To Redisson every failure of a non-reentrant lock is a re-entry.
            let is_misread = pair.kind().depth() == 1 && party.peer().lang() == Lang::Java;
            let expected = match code {
                Some("would_deadlock") => is_misread,
                code => matches!(code, Some("redis" | "wrong_kind")),
            };
            assert!(expected, "{party}: {op}: {error}");
        }
        // This crate knows that there is nothing to give back, Redisson asks the server.
        let code = party.unlock_refused().await;
        assert!(matches!(&*code, "redis" | "not_held"), "{party}: {code}");
        assert_eq!(pair.redis().query::<String>(cmd("GET").arg(pair.name())), "an answer");
    }
    pair.redis().query::<()>(cmd("DEL").arg(pair.name()));
}
