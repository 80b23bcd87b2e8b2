//! A fair lock serves in the order of arrival, even if waiters disappear.

use std::time::Duration;

use harness::redis::cmd;
use harness::{Lang, Party, Pending};
use serde_json::Value;

use crate::kind::{FAIR, Kind};
use crate::mix::Mix;
use crate::pair::Pair;
use crate::scenario::scenarios;
use crate::shared::{PROMPT, SHORT_WATCHDOG, SLACK, WATCHDOG};

scenarios! {
    waiters_are_served_in_the_order_of_their_arrival: FAIR;
    the_line_outlives_a_killed_holder: ONLY_FAIR;
    a_cancelled_head_is_passed_over: FAIR, in Mix::A_IS_RUST;
    a_cancelled_waiter_leaves_the_line_in_order: ONLY_FAIR, in Mix::A_IS_RUST;
    an_interrupted_redisson_waiter_costs_no_more_than_its_place: ONLY_FAIR, in Mix::A_IS_JAVA;
    a_head_whose_time_is_over_is_passed_over: FAIR;
    a_head_that_leaves_a_free_lock_wakes_the_next: ONLY_FAIR, in Mix::A_IS_RUST;
    a_killed_head_costs_the_others_no_more_than_its_place: ONLY_FAIR;
    a_free_lock_with_a_line_is_not_for_passers_by: FAIR;
    a_forced_unlock_wakes_the_head_alone: ONLY_FAIR;
    a_release_tells_the_head_alone: ONLY_FAIR;
    a_lease_that_runs_out_is_the_turn_of_the_next: ONLY_FAIR, in Mix::A_IS_RUST;
    an_unlock_of_a_free_fair_lock: ONLY_FAIR;
    the_line_is_seen_across_languages: ONLY_FAIR, in Mix::WITH_RUST;
}

const ONLY_FAIR: &[Kind] = &[Kind::Fair];
/// How long a Java waiter keeps its place, where somebody waits for the end of that.
const PLACE: Duration = Duration::from_secs(4);
/// Redisson counts a place from the end of the hold it waits for, as it looks when the waiter comes, and its waiters behind
/// a head that does not move sleep for as long: the hold has to be short, and to end by itself.
const TTL: Duration = Duration::from_secs(4);
/// How long a Rust waiter keeps its place unseen, and how often it is seen.
const RUST_PLACE: Duration = Duration::from_secs(10);
const HEARTBEAT: Duration = Duration::from_secs(3);

/// `CONFORMANCE_LINE` makes the line longer.
async fn waiters_are_served_in_the_order_of_their_arrival(pair: &Pair) {
    let length = std::env::var("CONFORMANCE_LINE").map_or(8, |n| n.parse().expect("a number"));
    let holder = pair.a("holder");
    holder.lock().await;
    let mut line = Vec::new();
    for i in 0..length {
        // Not strictly by turns, so that neighbours are at times of one language.
        let party = if i % 3 == 1 { pair.a(i) } else { pair.b(i) };
        line.push(stand(pair, party, i + 1).await);
    }
    let ids = pair.redis().line(pair.name());
    holder.unlock().await;
    let mut line = line.into_iter();
    for id in ids {
        let (party, turn) = line.next().expect("a waiter for each place");
        turn.granted_within(SLACK).await;
        assert_eq!(pair.holder().expect("a holder").id(), id);
        assert!(line.as_slice().iter().all(|(_, turn)| turn.is_pending()));
        party.unlock().await;
    }
}

async fn the_line_outlives_a_killed_holder(pair: &Pair) {
    let holder = pair.doomed("holder").await;
    holder.lock().await;
    let (one, ones_turn) = stand(pair, pair.b("one"), 1).await;
    let (two, twos_turn) = stand(pair, pair.a("two"), 2).await;
    holder.peer().kill().await;
    ones_turn.granted_within(SHORT_WATCHDOG + SLACK).await;
    assert!(twos_turn.is_pending());
    one.unlock().await;
    twos_turn.granted_within(PROMPT).await;
    two.unlock().await;
}

async fn a_cancelled_head_is_passed_over(pair: &Pair) {
    let holder = pair.b("holder");
    holder.lock().await;
    let watch = pair.watch();
    let quitter = pair.a("quitter");
    let quitters_turn = quitter.start_lock();
    watch.refused_twice().await;
    let (next, turn) = stand(pair, pair.b("next"), 2).await;
    give_up(&quitter, quitters_turn).await;
    pair.standing(1).await;
    assert!(turn.is_pending());
    holder.unlock().await;
    turn.granted_within(PROMPT).await;
    next.unlock().await;
}

async fn a_cancelled_waiter_leaves_the_line_in_order(pair: &Pair) {
    let holder = pair.b("holder");
    holder.lock().await;
    let (one, ones_turn) = stand(pair, pair.b("one"), 1).await;
    let (quitter, quitters_turn) = stand(pair, pair.a("quitter"), 2).await;
    let (two, twos_turn) = stand(pair, pair.a("two"), 3).await;
    let before = pair.redis().line(pair.name());
    give_up(&quitter, quitters_turn).await;
    pair.standing(2).await;
    assert_eq!(pair.redis().line(pair.name()), [before[0].clone(), before[2].clone()]);
    holder.unlock().await;
    ones_turn.granted_within(PROMPT).await;
    assert!(twos_turn.is_pending());
    one.unlock().await;
    twos_turn.granted_within(PROMPT).await;
    two.unlock().await;
}

async fn a_head_whose_time_is_over_is_passed_over(pair: &Pair) {
    let (holder, quitter) = (pair.b("holder"), pair.a("quitter"));
    pair.java_may_stay_subscribed_for(&[&quitter]);
    holder.lock().await;
    let quitters_turn = quitter.start_try_lock(Duration::from_millis(1_500));
    pair.standing(1).await;
    let (next, turn) = stand(pair, pair.b("next"), 2).await;
    assert!(!quitters_turn.answer().await.expect("an answer").is_granted());
    pair.standing(1).await;
    holder.unlock().await;
    turn.granted_within(PROMPT).await;
    next.unlock().await;
}

/// Interrupted, it forgets that it stands in line.
async fn an_interrupted_redisson_waiter_costs_no_more_than_its_place(pair: &Pair) {
    let pair = pair.with(|args| args.fair_wait(PLACE)).await;
    let (holder, quitter) = (pair.b("holder"), pair.a("quitter"));
    holder.lock_for(TTL).await;
    let quitters_turn = pair.start_asleep(&quitter).await;
    let (next, turn) = stand(&pair, pair.b("next"), 2).await;
    give_up(&quitter, quitters_turn).await;
    assert_eq!(pair.redis().line(pair.name()).len(), 2);
    turn.granted_within(TTL + PLACE + HEARTBEAT + PROMPT).await;
    assert_eq!(holder.unlock_refused().await, "not_held");
    next.unlock().await;
}

/// Redisson leaves without a word, and the next sleeps for as long as the lock was to live.
async fn a_head_that_leaves_a_free_lock_wakes_the_next(pair: &Pair) {
    let holder = pair.b("holder");
    holder.lock_for(WATCHDOG).await;
    let watch = pair.watch();
    let quitter = pair.a("quitter");
    let quitters_turn = quitter.start_lock();
    watch.refused_twice().await;
    let (next, turn) = stand(pair, pair.b("next"), 2).await;
    pair.redis().query::<()>(cmd("DEL").arg(pair.name()));
    give_up(&quitter, quitters_turn).await;
    turn.granted_within(PROMPT).await;
    next.unlock().await;
}

async fn a_killed_head_costs_the_others_no_more_than_its_place(pair: &Pair) {
    let pair = pair.with(|args| args.fair_wait(PLACE)).await;
    let (holder, head) = (pair.b("holder"), pair.doomed("head").await);
    holder.lock_for(TTL).await;
    let _never = head.start_lock();
    pair.standing(1).await;
    let next = pair.b("next");
    let turn = next.start_lock();
    pair.standing(2).await;
    head.peer().kill().await;
    let place = match head.peer().lang() {
        Lang::Rust => RUST_PLACE,
        _ => TTL + PLACE,
    };
    turn.granted_within(place + HEARTBEAT + PROMPT).await;
    assert_eq!(holder.unlock_refused().await, "not_held");
    next.unlock().await;
}

async fn a_free_lock_with_a_line_is_not_for_passers_by(pair: &Pair) {
    let (holder, passer_by) = (pair.b("holder"), pair.b("passer-by"));
    holder.lock().await;
    let watch = pair.watch();
    let head = pair.a("head");
    let turn = head.start_lock();
    watch.refused_twice().await;
    pair.redis().query::<()>(cmd("DEL").arg(pair.name()));
    assert!(!passer_by.try_lock().await);
    assert_eq!(pair.redis().line(pair.name()).len(), 1);
    assert_eq!(pair.wake(), 1);
    turn.granted_within(PROMPT).await;
    assert_eq!(holder.unlock_refused().await, "not_held");
    head.unlock().await;
}

async fn a_forced_unlock_wakes_the_head_alone(pair: &Pair) {
    let (holder, officer) = (pair.b("holder"), pair.a("officer"));
    holder.lock().await;
    let (one, ones_turn) = stand(pair, pair.a("one"), 1).await;
    let (two, twos_turn) = stand(pair, pair.b("two"), 2).await;
    assert!(officer.force_unlock().await);
    ones_turn.granted_within(PROMPT).await;
    assert!(twos_turn.is_pending());
    assert_eq!(holder.unlock_refused().await, "not_held");
    one.unlock().await;
    twos_turn.granted_within(PROMPT).await;
    two.unlock().await;
}

async fn a_release_tells_the_head_alone(pair: &Pair) {
    let holder = pair.a("holder");
    holder.lock().await;
    let (one, ones_turn) = stand(pair, pair.b("one"), 1).await;
    let (two, twos_turn) = stand(pair, pair.b("two"), 2).await;
    let channels = pair.redis().line(pair.name());
    let channels = channels.iter().map(|id| format!("{}:{id}", pair.kind().channel(pair.name())));
    let mut messages: Vec<_> = channels.map(|channel| pair.messages(&channel)).collect();
    holder.unlock().await;
    ones_turn.granted_within(PROMPT).await;
    let heard: Vec<_> = messages.iter_mut().map(|one| one.so_far(pair.redis())).collect();
    assert_eq!(heard, [vec!["0".to_owned()], vec![]]);
    one.unlock().await;
    twos_turn.granted_within(PROMPT).await;
    two.unlock().await;
}

/// Redisson does not tell the next in line for how long a waiter of its has the lock.
async fn a_lease_that_runs_out_is_the_turn_of_the_next(pair: &Pair) {
    const LEASE: Duration = Duration::from_millis(500);
    let holder = pair.b("holder");
    holder.lock().await;
    let one = pair.a("one");
    let ones_turn = one.start_try_lock_for(WATCHDOG, LEASE);
    pair.standing(1).await;
    let (two, twos_turn) = stand(pair, pair.b("two"), 2).await;
    holder.unlock().await;
    ones_turn.granted_within(PROMPT).await;
    twos_turn.granted_within(LEASE + PROMPT).await;
    assert_eq!(one.unlock_refused().await, "not_held");
    two.unlock().await;
}

/// Redisson takes it for a repeated unlock and is content; this crate knows better.
async fn an_unlock_of_a_free_fair_lock(pair: &Pair) {
    for party in [pair.a("one"), pair.b("other")] {
        let unlocked = party.ask("unlock", Value::Null).await;
        match party.peer().lang() {
            Lang::Rust => {
                assert_eq!(unlocked.expect_err("a refusal").code(), Some("not_held"));
            }
            _ => assert!(unlocked.is_ok(), "{unlocked:?}"),
        }
    }
}

async fn the_line_is_seen_across_languages(pair: &Pair) {
    let (holder, observer) = (pair.a("holder"), pair.rust("observer"));
    holder.lock().await;
    let mut line = Vec::new();
    for (i, party) in [pair.b("one"), pair.a("two"), pair.b("three")].into_iter().enumerate() {
        line.push(stand(pair, party, i + 1).await);
    }
    let seen = observer.inspect().await;
    let client = observer.peer().client();
    let holders = seen["holders"].as_array().expect("holders");
    assert_eq!(holders.len(), 1, "{seen}");
    assert_eq!(holders[0]["id"], pair.holder().expect("a holder").id());
    assert_eq!(holders[0]["ours"], holder.peer().client() == client);
    let queue = seen["queue"].as_array().expect("a queue");
    let ids: Vec<_> = queue.iter().filter_map(|waiter| waiter["id"].as_str()).collect();
    assert_eq!(ids, pair.redis().line(pair.name()), "{seen}");
    for (waiter, (party, _)) in queue.iter().zip(&line) {
        assert_eq!(waiter["ours"], party.peer().client() == client, "{seen}");
        assert!(waiter["kept_for_ms"].as_i64().is_some_and(|ms| ms > 0), "{seen}");
    }
    holder.unlock().await;
    for (party, turn) in line {
        turn.granted_within(SLACK).await;
        party.unlock().await;
    }
}

/// Lets this one take its place at the end of the line, as the so manieth.
async fn stand(pair: &Pair, party: Party, place: usize) -> (Party, Pending) {
    let turn = party.start_lock();
    pair.standing(place).await;
    (party, turn)
}

async fn give_up(party: &Party, turn: Pending) {
    party.cancel().await;
    let error = turn.answer().await.expect_err("a cancelled acquisition");
    assert_eq!(error.code(), Some("cancelled"), "{error}");
}
