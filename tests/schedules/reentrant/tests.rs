//! The reentrant lock, plain and fenced: with all rules no schedule fails, and without one rule some schedule does.

use harness::RedisServer;

use super::rules::Rule;
use super::subject::{Fenced, Plain};
use crate::clients::capture_scripts;
use crate::fuzz::{Fuzz, is_found, is_found_near, run_all};
use crate::model::{Kind, Rules};

#[test]
fn with_all_rules_kept_no_schedule_goes_wrong() {
    let redis = RedisServer::builder().unix_socket().start();
    run_all(
        &mut Fuzz::<Plain>::new(&redis, Rules::all()),
        "with_all_rules_kept_no_schedule_goes_wrong",
    );
}

#[test]
fn with_all_rules_kept_no_schedule_with_redisson_goes_wrong() {
    const NAME: &str = "with_all_rules_kept_no_schedule_with_redisson_goes_wrong";
    let redis = RedisServer::builder().unix_socket().start();
    let Some(theirs) = capture_scripts(&redis, NAME, "lock") else { return };
    let mut fuzz = Fuzz::<Plain>::new(&redis, Rules::all());
    fuzz.scripts.theirs = Some(theirs);
    run_all(&mut fuzz, NAME);
}

#[test]
fn rule_1_a_reused_id_lets_two_hold() {
    is_found::<Plain>(Rule::FreshIds, Kind::TwoHolders);
}

#[test]
fn rule_2_a_count_that_decides_leaves_the_lock_stuck() {
    is_found::<Plain>(Rule::ExistenceDecides, Kind::Orphan);
}

#[test]
fn rule_3_an_acquire_without_a_not_after_comes_when_nobody_waits_for_it() {
    is_found::<Plain>(Rule::NotAfter, Kind::Orphan);
}

#[test]
fn rule_4_without_a_janitor_what_is_given_up_stays() {
    is_found::<Plain>(Rule::Janitor, Kind::Orphan);
}

#[test]
fn rule_4_a_repeated_release_that_says_gone_is_no_loss() {
    is_found::<Plain>(Rule::GoneIsReleased, Kind::FalseAlarm);
}

#[test]
fn rule_4_one_copy_of_a_release_in_time_is_enough() {
    is_found_near::<Plain>(1_250, Rule::OneCopyInTime, Kind::FalseAlarm);
}

#[test]
fn rule_4_a_hand_over_given_up_is_undone_from_its_source() {
    is_found::<Plain>(Rule::SourceFirst, Kind::Orphan);
}

#[test]
fn rule_4_an_answer_that_comes_after_the_release_was_sent_clears_nothing() {
    is_found_near::<Plain>(850, Rule::AnswersInTime, Kind::Orphan);
}

#[test]
fn rule_4_an_acquire_never_answered_may_have_run_before_its_not_after() {
    is_found::<Plain>(Rule::UnansweredIsUnclear, Kind::Orphan);
}

#[test]
fn rule_5_a_swap_from_an_unclear_id_leaves_an_orphan() {
    is_found_near::<Plain>(3_550, Rule::ClearSwaps, Kind::Orphan);
}

#[test]
fn rule_5_a_swap_that_takes_mine_out_first_loses_the_ttl() {
    is_found::<Plain>(Rule::TheirsInFirst, Kind::NoTtl);
}

#[test]
fn trust_that_begins_with_the_answer_lets_two_hold() {
    is_found::<Plain>(Rule::TrustFromSending, Kind::TwoHolders);
}

#[test]
fn trust_without_a_drift_lets_a_slow_clock_believe_too_long() {
    is_found::<Plain>(Rule::Drift, Kind::Vanished);
}

#[test]
fn the_same_seed_is_the_same_schedule() {
    let redis = RedisServer::builder().unix_socket().start();
    let mut fuzz = Fuzz::<Plain>::new(&redis, Rules::all());
    for seed in 0..20 {
        let (steps, violation) = fuzz.random(seed, None);
        let (again, _) = fuzz.random(seed, None);
        assert!(violation.is_none());
        assert_eq!(format!("{steps:?}"), format!("{again:?}"));
        assert_eq!(fuzz.trace(&steps, None), fuzz.trace(&again, None));
    }
}

#[test]
fn with_all_rules_kept_no_schedule_of_a_fenced_lock_goes_wrong() {
    let redis = RedisServer::builder().unix_socket().start();
    run_all(
        &mut Fuzz::<Fenced>::new(&redis, Rules::all()),
        "with_all_rules_kept_no_schedule_of_a_fenced_lock_goes_wrong",
    );
}

#[test]
fn with_all_rules_kept_no_schedule_of_a_fenced_lock_with_redisson_goes_wrong() {
    const NAME: &str = "with_all_rules_kept_no_schedule_of_a_fenced_lock_with_redisson_goes_wrong";
    let redis = RedisServer::builder().unix_socket().start();
    let Some(theirs) = capture_scripts(&redis, NAME, "fenced") else { return };
    let mut fuzz = Fuzz::<Fenced>::new(&redis, Rules::all());
    fuzz.scripts.theirs = Some(theirs);
    run_all(&mut fuzz, NAME);
}

#[test]
fn fenced_a_repeat_that_counts_gives_a_hold_two_tokens() {
    is_found::<Fenced>(Rule::RepeatsKeepTheirToken, Kind::BadToken);
}

#[test]
fn fenced_a_counter_that_expires_with_the_lock_begins_anew() {
    is_found::<Fenced>(Rule::CounterLasts, Kind::BadToken);
}
