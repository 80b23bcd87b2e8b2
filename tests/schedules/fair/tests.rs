//! The fair lock: with all rules no schedule fails, and without one rule some schedule does.

use harness::RedisServer;

use super::{Fair, Rule};
use crate::clients::capture_scripts;
use crate::fuzz::{Fuzz, is_found, is_found_by, is_found_near, run_all, tell_how_often};
use crate::model::{Kind, Rules};

#[test]
fn fair_no_schedule_goes_wrong() {
    let redis = RedisServer::builder().unix_socket().start();
    run_all(&mut Fuzz::<Fair>::new(&redis, Rules::all()), "fair_no_schedule_goes_wrong");
}

#[test]
fn fair_no_schedule_with_redisson_goes_wrong() {
    const NAME: &str = "fair_no_schedule_with_redisson_goes_wrong";
    let redis = RedisServer::builder().unix_socket().start();
    let Some(theirs) = capture_scripts(&redis, NAME, "fair") else { return };
    let mut fuzz = Fuzz::<Fair>::new(&redis, Rules::all());
    fuzz.scripts.theirs = Some(theirs);
    run_all(&mut fuzz, NAME);
}

#[test]
fn fair_a_grant_of_a_held_lock_lets_two_hold() {
    is_found::<Fair>(Rule::FreeOnly, Kind::TwoHolders);
}

#[test]
fn fair_a_waiter_that_does_not_withdraw_leaves_its_place() {
    is_found::<Fair>(Rule::Withdraw, Kind::Orphan);
}

#[test]
fn fair_an_acquire_without_a_not_after_comes_when_nobody_waits_for_it() {
    is_found::<Fair>(Rule::NotAfter, Kind::Orphan);
}

#[test]
fn fair_a_grant_without_a_ttl_never_ends() {
    is_found::<Fair>(Rule::Ttl, Kind::NoTtl);
}

#[test]
fn fair_a_grant_to_whoever_comes_breaks_the_order() {
    is_found::<Fair>(Rule::HeadOnly, Kind::OutOfOrder);
}

#[test]
fn fair_a_deadline_that_does_not_count_grants_costs_the_place() {
    is_found_with_redisson(
        "fair_a_deadline_that_does_not_count_grants_costs_the_place",
        Rule::CountsGrants,
        Kind::Evicted,
    );
}

#[test]
fn fair_a_deadline_that_is_not_raised_costs_the_place() {
    is_found::<Fair>(Rule::LooksAhead, Kind::Evicted);
}

#[test]
fn fair_a_waiter_that_does_not_say_that_it_was_there_loses_its_place() {
    is_found::<Fair>(Rule::Marks, Kind::Evicted);
}

#[test]
fn fair_a_raise_that_leaves_redisson_behind_makes_its_time_short() {
    is_found_with_redisson(
        "fair_a_raise_that_leaves_redisson_behind_makes_its_time_short",
        Rule::KeepsDistance,
        Kind::WrongDeadline,
    );
}

/// With Redisson's waiters beside ours; nothing, when there is no Java.
fn is_found_with_redisson(test: &str, rule: Rule, kind: Kind) {
    let redis = RedisServer::builder().unix_socket().start();
    let Some(theirs) = capture_scripts(&redis, test, "fair") else { return };
    let mut fuzz = Fuzz::<Fair>::new(&redis, Rules::without(rule));
    fuzz.scripts.theirs = Some(theirs);
    is_found_by(&mut fuzz, 0, rule, kind);
}

/// For the record: what Redisson's own scripts do with nobody else there, and what its asynchronous give-up does to all.
#[test]
fn fair_redisson_is_counted() {
    let redis = RedisServer::builder().unix_socket().start();
    let Some(theirs) = capture_scripts(&redis, "fair_redisson_is_counted", "fair") else { return };
    let mut fuzz = Fuzz::<Fair>::new(&redis, Rules::all());
    fuzz.scripts.theirs = Some(theirs);
    for (ours, asynchronous, who) in [
        (false, false, "Redisson alone"),
        (false, true, "Redisson alone, asynchronous"),
        (true, true, "Redisson, asynchronous, and ours"),
    ] {
        (fuzz.scripts.ours, fuzz.scripts.asynchronous) = (ours, asynchronous);
        tell_how_often(&mut fuzz, who);
    }
}

#[test]
fn fair_each_of_several_that_died_together_holds_up_the_others() {
    is_found::<Fair>(Rule::UnseenGo, Kind::DeadAtHead);
}

#[test]
fn fair_a_head_keeps_what_redissons_grants_did_not_use() {
    is_found_with_redisson(
        "fair_a_head_keeps_what_redissons_grants_did_not_use",
        Rule::HeadIsLevel,
        Kind::WrongDeadline,
    );
}

#[test]
fn fair_a_grant_leaves_to_those_behind_what_redissons_grants_did_not_use() {
    is_found_with_redisson(
        "fair_a_grant_leaves_to_those_behind_what_redissons_grants_did_not_use",
        Rule::GrantLevels,
        Kind::WrongDeadline,
    );
}

#[test]
fn fair_a_short_lease_of_which_the_next_is_not_told() {
    is_found::<Fair>(Rule::GrantTells, Kind::NotWoken);
}

#[test]
fn fair_a_withdrawal_from_the_queue_alone_leaves_a_deadline() {
    is_found::<Fair>(Rule::LeavesBoth, Kind::QueueTorn);
}

#[test]
fn fair_a_release_that_wakes_nobody() {
    is_found::<Fair>(Rule::ReleaseWakes, Kind::NotWoken);
}

#[test]
fn fair_a_withdrawal_of_the_head_that_wakes_nobody() {
    is_found::<Fair>(Rule::WithdrawalWakes, Kind::NotWoken);
}

#[test]
fn fair_a_dropped_head_that_wakes_nobody() {
    is_found::<Fair>(Rule::DropWakes, Kind::NotWoken);
}

#[test]
fn fair_a_stranger_that_releases_takes_the_hold() {
    is_found::<Fair>(Rule::HolderReleases, Kind::Vanished);
}

#[test]
fn fair_a_hold_that_is_gone_may_have_become_a_place() {
    is_found_near::<Fair>(2_950, Rule::GoneIsWithdrawn, Kind::Orphan);
}
