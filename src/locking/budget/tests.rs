//! How often and how long a hold is handed off, and for how long the lock is left to others.

use super::*;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn others(count: u64, heard: Option<u64>) -> Others {
    Others { count, heard, messages: 1 }
}

fn handed_off(budget: &mut Budget, times: u32) {
    (0..times).for_each(|_| budget.handed_off());
}

#[test]
fn a_hold_is_handed_off_so_often_and_so_long_and_then_the_server_is_asked() {
    let begun = Instant::now();
    let mut budget = Budget::default();
    budget.won(begun, begun);
    handed_off(&mut budget, TURNS - 1);
    assert_eq!(budget.plan(begun), Plan::HandOff);
    handed_off(&mut budget, 1);
    assert_eq!(budget.plan(begun), Plan::Ask);
    assert!(budget.confirmed_by_server(begun, begun, 0));
    assert_eq!(budget.plan(begun), Plan::HandOff);
    assert_eq!(budget.plan(begun + TIME), Plan::Ask);
}

#[test]
fn a_confirmation_that_took_long_says_nothing_about_now() {
    let sent = Instant::now();
    for (late, plan) in [(STALE - ms(1), Plan::HandOff), (STALE, Plan::Ask)] {
        let mut budget = Budget::default();
        budget.won(sent + late, sent);
        assert_eq!(budget.plan(sent + late), plan, "{late:?}");
        assert_eq!(
            budget.confirmed_by_server(sent + late, sent, 0),
            plan == Plan::HandOff,
            "{late:?}"
        );
        assert_eq!(budget.plan(sent + late), plan, "{late:?}");
    }
}

#[test]
fn while_others_wait_it_is_released_and_left_to_them_until_they_had_their_turns() {
    let begun = Instant::now();
    let mut budget = Budget::default();
    budget.won(begun, begun);
    handed_off(&mut budget, TURNS);
    assert!(!budget.confirmed_by_server(begun, begun, 2));
    assert_eq!(budget.plan(begun), Plan::Release);
    budget.released(begun, ms(1), others(2, Some(11)));
    assert_eq!(budget.yields_until(begun, Some(11)), Some(begun + COURTESY), "our own message");
    let later = begun + ms(3);
    assert_eq!(budget.yields_until(later, Some(12)), Some(later + COURTESY), "one had its turn");
    assert_eq!(budget.yields_until(later, Some(12)), Some(later + COURTESY));
    assert_eq!(budget.yields_until(later, Some(13)), None, "and the other");
    budget.won(later, later);
    assert_eq!(budget.plan(later), Plan::HandOff, "a new budget");
}

/// Of this crate's writers each sends two, and Redisson's may send one.
#[test]
fn a_turn_that_sends_two_messages_is_one_turn() {
    let begun = Instant::now();
    for messages in [&[2, 4][..], &[1, 3], &[1, 2, 3]] {
        let mut budget = Budget::default();
        budget.won(begun, begun);
        handed_off(&mut budget, TURNS);
        budget.confirmed_by_server(begun, begun, 2);
        budget.released(begun, ms(1), Others { count: 2, heard: Some(12), messages: 2 });
        let [first @ .., last] = messages else { unreachable!() };
        for heard in first {
            let until = budget.yields_until(begun, Some(12 + heard));
            assert_eq!(until, Some(begun + COURTESY), "{heard} of {messages:?}");
        }
        assert_eq!(budget.yields_until(begun, Some(12 + last)), None, "{messages:?}");
        budget.won(begun, begun);
        assert_eq!(budget.plan(begun), Plan::HandOff, "they came: {messages:?}");
    }
}

#[test]
fn the_lock_is_free_for_a_moment_now_and_then_though_nobody_is_seen_to_wait() {
    let begun = Instant::now();
    let mut budget = Budget::default();
    budget.won(begun, begun);
    let late = begun + UNBROKEN;
    handed_off(&mut budget, 1);
    budget.confirmed_by_server(late - ms(3), late - ms(3), 0);
    assert_eq!(budget.plan(late), Plan::Release);
    budget.released(late, ms(1), others(0, Some(1)));
    assert_eq!(budget.yields_until(late, Some(1)), Some(late + GAP));
    let meanwhile = late + GAP / 2;
    assert_eq!(budget.yields_until(meanwhile, Some(9)), Some(late + GAP), "and no longer");
    assert_eq!(budget.yields_until(late + GAP, Some(9)), None);
    // One long hold without a waiter behind it is no reason.
    budget.won(late, late);
    budget.released(late + UNBROKEN, ms(1), others(0, Some(3)));
    assert_eq!(budget.yields_until(late + UNBROKEN, Some(2)), None);
}

#[test]
fn where_nobody_comes_turns_grow_and_shrink_again_when_somebody_does() {
    let begun = Instant::now();
    let mut budget = Budget::default();
    for vain in 0..2 * MOST_VAIN {
        budget.won(begun, begun);
        handed_off(&mut budget, TURNS << vain.min(MOST_VAIN));
        assert_ne!(budget.plan(begun), Plan::HandOff);
        assert!(!budget.confirmed_by_server(begun, begun, 1), "{vain}");
        budget.released(begun, ms(1), others(1, Some(1)));
        assert_eq!(budget.yields_until(begun + COURTESY, Some(1)), None);
    }
    budget.won(begun, begun);
    handed_off(&mut budget, TURNS);
    assert_eq!(budget.plan(begun), Plan::Ask, "the server is asked as often as ever");
    assert!(budget.confirmed_by_server(begun, begun, 1), "but goes on");
    budget.seen_elsewhere();
    budget.won(begun, begun);
    handed_off(&mut budget, TURNS);
    assert_eq!(budget.plan(begun), Plan::Release);
}

#[test]
fn a_slow_release_is_no_reason_to_yield_for_long() {
    let begun = Instant::now();
    for (took, courtesy) in [(ms(10), ms(40)), (ms(3_000), MOST_COURTESY)] {
        let mut budget = Budget::default();
        budget.won(begun, begun);
        handed_off(&mut budget, TURNS);
        budget.released(begun, took, others(1, Some(1)));
        assert_eq!(budget.yields_until(begun, Some(1)), Some(begun + courtesy), "{took:?}");
        assert_eq!(budget.yields_until(begun + courtesy, Some(1)), None, "{took:?}");
    }
}

#[test]
fn a_release_before_the_time_is_over_is_no_reason_to_yield() {
    let begun = Instant::now();
    let mut budget = Budget::default();
    budget.won(begun, begun);
    budget.released(begun, ms(1), others(3, None));
    assert_eq!(budget.yields_until(begun, None), None);
    budget.won(begun + TIME, begun + TIME);
    budget.released(begun + TIME, ms(1), others(3, None));
    assert!(budget.yields_until(begun + TIME, None).is_some(), "both were one budget");
}

#[test]
fn a_budget_that_has_grown_lasts_longer_too() {
    let begun = Instant::now();
    let mut budget = Budget::default();
    budget.won(begun, begun);
    handed_off(&mut budget, TURNS);
    budget.released(begun, ms(1), others(1, Some(1)));
    assert_eq!(budget.yields_until(begun + COURTESY, Some(1)), None, "nobody came");
    budget.won(begun, begun);
    assert!(budget.confirmed_by_server(begun + TIME, begun + TIME, 1));
    assert!(!budget.confirmed_by_server(begun + 2 * TIME, begun + 2 * TIME, 1));
}

#[test]
fn a_lock_that_is_left_to_others_is_theirs_until_the_very_end_of_that_time() {
    let begun = Instant::now();
    let mut budget = Budget::default();
    assert!(!budget.is_yielding());
    budget.won(begun, begun);
    handed_off(&mut budget, TURNS);
    budget.released(begun, ms(1), others(1, Some(1)));
    assert!(budget.is_yielding());
    // As many messages as before: nobody came.
    let late = begun + COURTESY - Duration::from_nanos(1);
    assert_eq!(budget.yields_until(late, Some(1)), Some(begun + COURTESY));
    assert_eq!(budget.yields_until(begun + COURTESY, Some(1)), None);
    assert!(!budget.is_yielding());
}

#[test]
fn the_server_is_asked_only_while_the_lock_has_not_been_kept_too_long() {
    let begun = Instant::now();
    let mut budget = Budget::default();
    budget.won(begun, begun);
    let last = begun + UNBROKEN - Duration::from_nanos(1);
    assert_eq!(budget.plan(last), Plan::Ask);
    assert_eq!(budget.plan(begun + UNBROKEN), Plan::Release);
}

/// A server with nobody who subscribes is asked again and again, and its answers begin the budget anew.
#[test]
fn the_lock_is_free_now_and_then_however_often_nobody_came_before() {
    const STEP: Duration = Duration::from_micros(100);
    for vain in 0..=MOST_VAIN {
        let begun = Instant::now();
        let mut budget = Budget { vain, ..Budget::default() };
        budget.won(begun, begun);
        let mut now = begun;
        while budget.plan(now) != Plan::Release {
            assert!(now <= begun + UNBROKEN + ms(2), "vain {vain}: the lock is never free");
            match budget.plan(now) {
                Plan::Ask if !budget.confirmed_by_server(now, now, 0) => break,
                _ => budget.handed_off(),
            }
            now += STEP;
        }
        budget.released(now, ms(1), others(0, Some(1)));
        assert_eq!(budget.yields_until(now, Some(1)), Some(now + GAP), "vain {vain}");
        assert_eq!(budget.yields_until(now + GAP, Some(1)), None);
        assert_eq!(budget.vain, vain, "a gap for those who poll says nothing of those who listen");
    }
}

/// The gap is due, and the release finds that somebody has subscribed.
#[test]
fn who_subscribes_just_before_a_gap_is_left_the_lock() {
    let begun = Instant::now();
    let mut budget = Budget { vain: MOST_VAIN, ..Budget::default() };
    budget.won(begun, begun);
    handed_off(&mut budget, 1);
    let late = begun + UNBROKEN;
    assert!(!budget.confirmed_by_server(late, late, 0));
    budget.released(late, ms(1), others(1, Some(1)));
    assert_eq!(budget.yields_until(late, Some(1)), Some(late + COURTESY));
}

#[test]
fn after_the_others_had_their_turns_the_next_budget_is_as_short_as_at_first() {
    let begun = Instant::now();
    let mut budget = Budget::default();
    let yields = |budget: &mut Budget, heard| {
        budget.won(begun, begun);
        handed_off(budget, TURNS << budget.vain);
        assert!(!budget.confirmed_by_server(begun, begun, 1));
        budget.released(begun, ms(1), others(1, Some(1)));
        assert_eq!(budget.yields_until(begun + COURTESY, heard), None);
    };
    yields(&mut budget, Some(1));
    yields(&mut budget, Some(1));
    yields(&mut budget, Some(2));
    budget.won(begun, begun);
    handed_off(&mut budget, TURNS);
    assert_eq!(budget.plan(begun), Plan::Release);
}
