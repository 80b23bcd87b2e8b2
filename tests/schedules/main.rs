//! Random schedules of copies that come twice, late or never, on a real server: the five rules of "exactly once", proved
//! by leaving them out one by one.
//!
//! Each test with a rule left out prints the shortest counter-example it found (`--nocapture` shows it).
//!
//! - `FUZZ_SCHEDULES=100000 cargo test --release --test schedules with_all` runs longer than the default.
//! - `FUZZ_SEED=…` begins with that seed; a failure prints the command that does its schedule again.

mod ear;
mod fair;
mod fuzz;
mod reentrant;
mod sim;

use harness::RedisServer;

use fair::{Fair, Rule as FairRule};
use fuzz::{Fuzz, is_found, is_found_near, run_all, tell_how_often};
use reentrant::{Reentrant, Rule, overhear};
use sim::{Kind, Rules};

#[test]
fn with_all_rules_kept_no_schedule_goes_wrong() {
    let redis = RedisServer::builder().unix_socket().start();
    run_all(
        &mut Fuzz::<Reentrant>::new(&redis, Rules::all()),
        "with_all_rules_kept_no_schedule_goes_wrong",
    );
}

#[test]
fn with_all_rules_kept_no_schedule_with_redisson_goes_wrong() {
    const NAME: &str = "with_all_rules_kept_no_schedule_with_redisson_goes_wrong";
    let redis = RedisServer::builder().unix_socket().start();
    let Some(theirs) = overhear(&redis, NAME) else { return };
    let mut fuzz = Fuzz::<Reentrant>::new(&redis, Rules::all());
    fuzz.scripts.theirs = Some(theirs);
    run_all(&mut fuzz, NAME);
}

#[test]
fn rule_1_a_reused_id_lets_two_hold() {
    is_found::<Reentrant>(Rule::FreshIds, Kind::TwoHolders);
}

#[test]
fn rule_2_a_count_that_decides_leaves_the_lock_stuck() {
    is_found::<Reentrant>(Rule::ExistenceDecides, Kind::Orphan);
}

#[test]
fn rule_3_an_acquire_without_a_not_after_comes_when_nobody_waits_for_it() {
    is_found::<Reentrant>(Rule::NotAfter, Kind::Orphan);
}

#[test]
fn rule_4_without_a_janitor_what_is_given_up_stays() {
    is_found::<Reentrant>(Rule::Janitor, Kind::Orphan);
}

#[test]
fn rule_4_a_repeated_release_that_says_gone_is_no_loss() {
    is_found::<Reentrant>(Rule::GoneIsReleased, Kind::FalseAlarm);
}

#[test]
fn rule_4_one_copy_of_a_release_in_time_is_enough() {
    is_found_near::<Reentrant>(1_250, Rule::OneCopyInTime, Kind::FalseAlarm);
}

#[test]
fn rule_4_a_hand_over_given_up_is_undone_from_its_source() {
    is_found::<Reentrant>(Rule::SourceFirst, Kind::Orphan);
}

#[test]
fn rule_4_an_answer_that_comes_after_the_release_was_sent_clears_nothing() {
    is_found_near::<Reentrant>(850, Rule::AnswersInTime, Kind::Orphan);
}

#[test]
fn rule_4_an_acquire_never_answered_may_have_run_before_its_not_after() {
    is_found::<Reentrant>(Rule::UnansweredIsUnclear, Kind::Orphan);
}

#[test]
fn rule_5_a_swap_from_an_unclear_id_leaves_an_orphan() {
    is_found_near::<Reentrant>(3_550, Rule::ClearSwaps, Kind::Orphan);
}

#[test]
fn rule_5_a_swap_that_takes_mine_out_first_loses_the_ttl() {
    is_found::<Reentrant>(Rule::TheirsInFirst, Kind::NoTtl);
}

#[test]
fn trust_that_begins_with_the_answer_lets_two_hold() {
    is_found::<Reentrant>(Rule::TrustFromSending, Kind::TwoHolders);
}

#[test]
fn trust_without_a_drift_lets_a_slow_clock_believe_too_long() {
    is_found::<Reentrant>(Rule::Drift, Kind::Vanished);
}

#[test]
fn the_same_seed_is_the_same_schedule() {
    let redis = RedisServer::builder().unix_socket().start();
    let mut fuzz = Fuzz::<Reentrant>::new(&redis, Rules::all());
    for seed in 0..20 {
        let (steps, violation) = fuzz.random(seed, None);
        let (again, _) = fuzz.random(seed, None);
        assert!(violation.is_none());
        assert_eq!(format!("{steps:?}"), format!("{again:?}"));
        assert_eq!(fuzz.trace(&steps, None), fuzz.trace(&again, None));
    }
}

#[test]
fn fair_no_schedule_goes_wrong() {
    let redis = RedisServer::builder().unix_socket().start();
    run_all(&mut Fuzz::<Fair>::new(&redis, Rules::all()), "fair_no_schedule_goes_wrong");
}

#[test]
fn fair_no_schedule_with_redisson_goes_wrong() {
    const NAME: &str = "fair_no_schedule_with_redisson_goes_wrong";
    let redis = RedisServer::builder().unix_socket().start();
    let Some(theirs) = fair::overhear(&redis, NAME) else { return };
    let mut fuzz = Fuzz::<Fair>::new(&redis, Rules::all());
    fuzz.scripts.theirs = Some(theirs);
    run_all(&mut fuzz, NAME);
}

#[test]
fn fair_a_grant_of_a_held_lock_lets_two_hold() {
    is_found::<Fair>(FairRule::FreeOnly, Kind::TwoHolders);
}

#[test]
fn fair_a_waiter_that_does_not_withdraw_leaves_its_place() {
    is_found::<Fair>(FairRule::Withdraw, Kind::Orphan);
}

#[test]
fn fair_an_acquire_without_a_not_after_comes_when_nobody_waits_for_it() {
    is_found::<Fair>(FairRule::NotAfter, Kind::Orphan);
}

#[test]
fn fair_a_grant_without_a_ttl_never_ends() {
    is_found::<Fair>(FairRule::Ttl, Kind::NoTtl);
}

#[test]
fn fair_a_grant_to_whoever_comes_breaks_the_order() {
    is_found::<Fair>(FairRule::HeadOnly, Kind::OutOfOrder);
}

#[test]
fn fair_a_deadline_that_does_not_count_grants_costs_the_place() {
    is_found_near::<Fair>(770, FairRule::CountsGrants, Kind::Evicted);
}

#[test]
fn fair_a_raise_that_leaves_those_behind_makes_their_time_short() {
    is_found::<Fair>(FairRule::RaisesBehind, Kind::WrongDeadline);
}

/// For the record: what Redisson's own scripts do with nobody else there, and what its asynchronous give-up does to all.
#[test]
fn fair_redisson_is_counted() {
    let redis = RedisServer::builder().unix_socket().start();
    let Some(theirs) = fair::overhear(&redis, "fair_redisson_is_counted") else { return };
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
    is_found::<Fair>(FairRule::HeadShows, Kind::DeadAtHead);
}

#[test]
fn fair_a_grant_that_subtracts_nothing_lets_deadlines_drift() {
    is_found::<Fair>(FairRule::GrantSubtracts, Kind::WrongDeadline);
}

#[test]
fn fair_a_withdrawal_that_subtracts_nothing_lets_deadlines_drift() {
    is_found::<Fair>(FairRule::WithdrawalSubtracts, Kind::WrongDeadline);
}

#[test]
fn fair_one_that_is_dropped_and_takes_nothing_along_leaves_a_dead_process_in_line() {
    is_found::<Fair>(FairRule::DropTakesAlong, Kind::WrongDeadline);
}

#[test]
fn fair_a_withdrawal_from_the_queue_alone_leaves_a_deadline() {
    is_found::<Fair>(FairRule::LeavesBoth, Kind::QueueTorn);
}

#[test]
fn fair_a_release_that_wakes_nobody() {
    is_found::<Fair>(FairRule::ReleaseWakes, Kind::NotWoken);
}

#[test]
fn fair_a_withdrawal_of_the_head_that_wakes_nobody() {
    is_found::<Fair>(FairRule::WithdrawalWakes, Kind::NotWoken);
}

#[test]
fn fair_a_dropped_head_that_wakes_nobody() {
    is_found::<Fair>(FairRule::DropWakes, Kind::NotWoken);
}

#[test]
fn fair_a_stranger_that_releases_takes_the_hold() {
    is_found::<Fair>(FairRule::HolderReleases, Kind::Vanished);
}

#[test]
fn fair_a_hold_that_is_gone_may_have_become_a_place() {
    is_found_near::<Fair>(2_950, FairRule::GoneIsWithdrawn, Kind::Orphan);
}
