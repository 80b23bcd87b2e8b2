//! The fair lock: nothing goes wrong, and without a rule something does.

use harness::RedisServer;

use super::{Fair, Rule, overhear};
use crate::fuzz::{Fuzz, is_found, is_found_near, run_all, tell_how_often};
use crate::sim::{Kind, Rules};

#[test]
fn fair_no_schedule_goes_wrong() {
    let redis = RedisServer::builder().unix_socket().start();
    run_all(&mut Fuzz::<Fair>::new(&redis, Rules::all()), "fair_no_schedule_goes_wrong");
}

#[test]
fn fair_no_schedule_with_redisson_goes_wrong() {
    const NAME: &str = "fair_no_schedule_with_redisson_goes_wrong";
    let redis = RedisServer::builder().unix_socket().start();
    let Some(theirs) = overhear(&redis, NAME) else { return };
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
    is_found_near::<Fair>(770, Rule::CountsGrants, Kind::Evicted);
}

#[test]
fn fair_a_raise_that_leaves_those_behind_makes_their_time_short() {
    is_found::<Fair>(Rule::RaisesBehind, Kind::WrongDeadline);
}

/// For the record: what Redisson's own scripts do with nobody else there, and what its asynchronous give-up does to all.
#[test]
fn fair_redisson_is_counted() {
    let redis = RedisServer::builder().unix_socket().start();
    let Some(theirs) = overhear(&redis, "fair_redisson_is_counted") else { return };
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
fn fair_a_dead_head_with_a_late_deadline_holds_up_the_others() {
    is_found::<Fair>(Rule::HeadShows, Kind::DeadAtHead);
}

#[test]
fn fair_a_grant_that_subtracts_nothing_lets_deadlines_drift() {
    is_found::<Fair>(Rule::GrantSubtracts, Kind::WrongDeadline);
}

#[test]
fn fair_a_withdrawal_that_subtracts_nothing_lets_deadlines_drift() {
    is_found::<Fair>(Rule::WithdrawalSubtracts, Kind::WrongDeadline);
}

#[test]
fn fair_one_that_is_dropped_and_takes_nothing_along_leaves_a_dead_process_in_line() {
    is_found::<Fair>(Rule::DropTakesAlong, Kind::WrongDeadline);
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
