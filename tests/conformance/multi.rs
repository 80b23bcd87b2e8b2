//! Several plain locks taken as one: all of them, or a majority.

use std::time::Duration;

use harness::redis::cmd;
use harness::{Load, PATIENCE, Party, Pending, eventually, member_names};

use crate::kind::{MAJORITY, MULTI, SEVERAL};
use crate::pair::Pair;
use crate::scenario::scenarios;
use crate::shared::SLACK;

scenarios! {
    several_exclude_each_other_and_unlock_frees_all: SEVERAL;
    several_exclude_with_a_counter: SEVERAL;
    several_are_counted_by_an_owner_as_one_is: SEVERAL;
    a_waiter_for_several_is_granted_when_they_are_free: SEVERAL;
    a_fixed_lease_is_that_of_every_member: SEVERAL;
    a_member_that_another_holds_refuses_all_and_the_others_are_given_back: MULTI;
    a_member_that_becomes_free_in_time_lets_all_be_taken: MULTI;
    callers_in_opposite_order_exclude_each_other_and_none_hangs: MULTI;
    a_majority_is_enough: MAJORITY;
    a_minority_is_given_back: MAJORITY;
}

const WAIT: Duration = Duration::from_millis(700);

/// The same owner at one of the locks, by itself.
fn at(pair: &Pair, party: &Party, member: usize) -> Party {
    party.of_kind("lock").at(member_names(pair.name())[member].as_str())
}

/// Its waits for one of several are short ones, and some end while it subscribes.
fn java_may_stay_subscribed(pair: &Pair) {
    pair.java_may_stay_subscribed_for(&[&pair.a("any"), &pair.b("any")]);
}

async fn is_granted(turn: Pending) -> bool {
    turn.within(PATIENCE).await.expect("an answer").is_granted()
}

fn held(pair: &Pair) -> [bool; 3] {
    member_names(pair.name()).map(|name| pair.redis().exists(&name))
}

/// What is given back may take a moment.
async fn until_held(pair: &Pair, wanted: [bool; 3]) {
    let what = format!("the members to be held so: {wanted:?}");
    eventually(PATIENCE, &what, || (held(pair) == wanted).then_some(())).await;
}

async fn several_exclude_each_other_and_unlock_frees_all(pair: &Pair) {
    java_may_stay_subscribed(pair);
    for (holder, other) in [(pair.a("one"), pair.b("two")), (pair.b("three"), pair.a("four"))] {
        holder.lock().await;
        until_held(pair, [true; 3]).await;
        assert!(!other.try_lock().await);
        assert!(!is_granted(other.start_try_lock(WAIT)).await);
        for member in 0..3 {
            assert!(!at(pair, &other, member).try_lock().await);
        }
        assert_eq!(held(pair), [true; 3], "the other gave back nothing of the holder's");
        holder.unlock().await;
        until_held(pair, [false; 3]).await;
        assert!(other.try_lock().await);
        other.unlock().await;
        until_held(pair, [false; 3]).await;
    }
}

async fn several_exclude_with_a_counter(pair: &Pair) {
    java_may_stay_subscribed(pair);
    let key = pair.key("counter");
    let load = Load::new(2, Duration::from_millis(1_500)).counter(&key);
    let (a, b) = (pair.a("crowd"), pair.b("crowd"));
    let (a, b) = tokio::join!(a.run(&load), b.run(&load));
    counted(pair, &key, a.acquired + b.acquired);
    assert_eq!((a.errors, b.errors), (0, 0), "{a:#?} {b:#?}");
    assert!(a.acquired + b.acquired > 0, "{a:#?} {b:#?}");
}

async fn several_are_counted_by_an_owner_as_one_is(pair: &Pair) {
    java_may_stay_subscribed(pair);
    let (owner, other) = (pair.a("owner"), pair.b("other"));
    owner.lock().await;
    until_held(pair, [true; 3]).await;
    owner.lock().await;
    let counts = || member_names(pair.name()).map(|name| pair.redis().holder(&name).unwrap().count);
    eventually(PATIENCE, "two holds on each", || (counts() == [2; 3]).then_some(())).await;
    owner.unlock().await;
    eventually(PATIENCE, "one hold on each", || (counts() == [1; 3]).then_some(())).await;
    assert!(!other.try_lock().await);
    owner.unlock().await;
    until_held(pair, [false; 3]).await;
}

async fn a_waiter_for_several_is_granted_when_they_are_free(pair: &Pair) {
    java_may_stay_subscribed(pair);
    let (holder, waiter) = (pair.a("holder"), pair.b("waiter"));
    holder.lock().await;
    until_held(pair, [true; 3]).await;
    let turn = waiter.start_lock();
    tokio::time::sleep(WAIT).await;
    assert!(turn.is_pending());
    holder.unlock().await;
    turn.granted_within(SLACK).await;
    assert!(!holder.try_lock().await);
    waiter.unlock().await;
    until_held(pair, [false; 3]).await;
}

async fn a_fixed_lease_is_that_of_every_member(pair: &Pair) {
    java_may_stay_subscribed(pair);
    for holder in [pair.a("one"), pair.b("two")] {
        let lease = Duration::from_secs(25);
        assert!(is_granted(holder.start_try_lock_for(SLACK, lease)).await);
        until_held(pair, [true; 3]).await;
        for name in member_names(pair.name()) {
            let left = pair.redis().pttl(&name);
            assert!((20_001..=25_000).contains(&left), "{name}: {left}");
        }
        holder.unlock().await;
        until_held(pair, [false; 3]).await;
    }
}

async fn a_member_that_another_holds_refuses_all_and_the_others_are_given_back(pair: &Pair) {
    java_may_stay_subscribed(pair);
    for member in 0..3 {
        let (holder, other) = (at(pair, &pair.a("holder"), member), pair.b("other"));
        let mut alone = [false; 3];
        alone[member] = true;
        holder.lock().await;
        assert!(!other.try_lock().await);
        until_held(pair, alone).await;
        assert!(!is_granted(other.start_try_lock(WAIT)).await);
        until_held(pair, alone).await;
        assert!(holder.is_held().await);
        holder.unlock().await;
    }
}

async fn a_member_that_becomes_free_in_time_lets_all_be_taken(pair: &Pair) {
    java_may_stay_subscribed(pair);
    for member in 0..3 {
        let (holder, waiter) = (at(pair, &pair.a("holder"), member), pair.b("waiter"));
        holder.lock().await;
        let turn = waiter.start_try_lock(2 * SLACK);
        tokio::time::sleep(WAIT).await;
        assert!(turn.is_pending());
        holder.unlock().await;
        turn.granted_within(2 * SLACK).await;
        until_held(pair, [true; 3]).await;
        waiter.unlock().await;
        until_held(pair, [false; 3]).await;
    }
}

async fn callers_in_opposite_order_exclude_each_other_and_none_hangs(pair: &Pair) {
    java_may_stay_subscribed(pair);
    let key = pair.key("counter");
    let load = Load::new(1, Duration::from_secs(2)).counter(&key).hold(Duration::from_millis(3));
    let names = member_names(pair.name());
    let (a, b) = (pair.a("one"), pair.b("two").of_members(names.into_iter().rev()));
    // It panics if it does not end.
    let (a, b) = tokio::join!(a.run(&load), b.run(&load));
    counted(pair, &key, a.acquired + b.acquired);
    assert_eq!((a.errors, b.errors), (0, 0), "{a:#?} {b:#?}");
    assert!(a.acquired > 0 && b.acquired > 0, "{a:#?} {b:#?}");
}

async fn a_majority_is_enough(pair: &Pair) {
    java_may_stay_subscribed(pair);
    let (loner, one, other) = (pair.a("loner"), pair.a("one"), pair.b("other"));
    for member in 0..3 {
        let loner = at(pair, &loner, member);
        let mut alone = [false; 3];
        alone[member] = true;
        loner.lock().await;
        for (holder, other) in [(&one, &other), (&other, &one)] {
            assert!(holder.try_lock().await, "two of three are free");
            until_held(pair, [true; 3]).await;
            assert!(!other.try_lock().await);
            holder.unlock().await;
            until_held(pair, alone).await;
        }
        loner.unlock().await;
    }
}

async fn a_minority_is_given_back(pair: &Pair) {
    java_may_stay_subscribed(pair);
    let holder = pair.a("holder");
    let other = pair.b("other");
    for member in [0, 1] {
        at(pair, &holder, member).lock().await;
    }
    assert!(!other.try_lock().await);
    until_held(pair, [true, true, false]).await;
    assert!(!is_granted(other.start_try_lock(WAIT)).await);
    until_held(pair, [true, true, false]).await;
    for member in [0, 1] {
        assert!(at(pair, &holder, member).is_held().await);
        at(pair, &holder, member).unlock().await;
    }
}

/// The counter says how often it was counted.
fn counted(pair: &Pair, key: &str, times: u64) {
    let count: Option<u64> = pair.redis().query(cmd("GET").arg(key));
    pair.redis().query::<()>(cmd("DEL").arg(key));
    assert_eq!(count.unwrap_or(0), times, "updates were lost");
}
