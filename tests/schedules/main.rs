//! Random schedules of copies that come twice, late or never, on a real server: the five rules of "exactly once", proved
//! by leaving them out one by one.
//!
//! Each test with a rule left out prints the shortest counter-example it found (`--nocapture` shows it).
//!
//! - `FUZZ_SCHEDULES=100000 cargo test --release --test schedules with_all` runs longer than the default.
//! - `FUZZ_SEED=…` begins with that seed; a failure prints the command that does its schedule again.

mod fuzz;
mod read_write;
mod reentrant;
mod sim;

use harness::RedisServer;

use fuzz::{Fuzz, count_all, is_found, is_found_by, is_found_near, run_all};
use read_write::BothSides;
use read_write::Rule as RwRule;
use reentrant::{Fenced, Overheard, Plain, Rule, overhear};
use sim::Kind;

#[test]
fn with_all_rules_kept_no_schedule_goes_wrong() {
    let redis = RedisServer::builder().unix_socket().start();
    run_all(&mut Fuzz::<Plain>::new(&redis, None), "with_all_rules_kept_no_schedule_goes_wrong");
}

#[test]
fn with_all_rules_kept_no_schedule_with_redisson_goes_wrong() {
    const NAME: &str = "with_all_rules_kept_no_schedule_with_redisson_goes_wrong";
    let redis = RedisServer::builder().unix_socket().start();
    let Some(theirs) = overhear(&redis, NAME, "lock") else { return };
    let mut fuzz = Fuzz::<Plain>::new(&redis, None).with(|plain| plain.invite(theirs));
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
    let mut fuzz = Fuzz::<Plain>::new(&redis, None);
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
        &mut Fuzz::<Fenced>::new(&redis, None),
        "with_all_rules_kept_no_schedule_of_a_fenced_lock_goes_wrong",
    );
}

#[test]
fn with_all_rules_kept_no_schedule_of_a_fenced_lock_with_redisson_goes_wrong() {
    const NAME: &str = "with_all_rules_kept_no_schedule_of_a_fenced_lock_with_redisson_goes_wrong";
    let redis = RedisServer::builder().unix_socket().start();
    let Some(theirs) = overhear(&redis, NAME, "fenced") else { return };
    run_all(&mut Fuzz::<Fenced>::new(&redis, None).with(|fenced| fenced.invite(theirs)), NAME);
}

#[test]
fn fenced_a_repeat_that_counts_gives_a_hold_two_tokens() {
    is_found::<Fenced>(Rule::RepeatsKeepTheirToken, Kind::BadToken);
}

#[test]
fn fenced_a_counter_that_expires_with_the_lock_begins_anew() {
    is_found::<Fenced>(Rule::CounterLasts, Kind::BadToken);
}

#[test]
fn with_all_rules_kept_no_schedule_of_a_read_write_lock_goes_wrong() {
    let redis = RedisServer::builder().unix_socket().start();
    run_all(
        &mut Fuzz::<BothSides>::new(&redis, None),
        "with_all_rules_kept_no_schedule_of_a_read_write_lock_goes_wrong",
    );
}

#[test]
fn with_all_rules_kept_no_schedule_of_a_read_write_lock_with_redisson_goes_wrong() {
    const NAME: &str =
        "with_all_rules_kept_no_schedule_of_a_read_write_lock_with_redisson_goes_wrong";
    let redis = RedisServer::builder().unix_socket().start();
    let Some(theirs) = both_sides(&redis, NAME) else { return };
    run_all(&mut Fuzz::<BothSides>::new(&redis, None).with(|both| both.invite(theirs)), NAME);
}

#[test]
fn what_goes_wrong_when_redisson_is_alone_with_a_read_write_lock() {
    const NAME: &str = "what_goes_wrong_when_redisson_is_alone_with_a_read_write_lock";
    let redis = RedisServer::builder().unix_socket().start();
    let Some(theirs) = both_sides(&redis, NAME) else { return };
    let mut fuzz = Fuzz::<BothSides>::new(&redis, None).with(|both| {
        both.invite(theirs);
        both.leave_alone();
    });
    let kinds = [Kind::TwoHolders, Kind::Vanished, Kind::FalseAlarm, Kind::NotWoken];
    count_all(&mut fuzz, &kinds);
}

/// Redisson's scripts for reading, and for writing.
fn both_sides(redis: &RedisServer, test: &str) -> Option<[Overheard; 2]> {
    Some([overhear(redis, test, "read")?, overhear(redis, test, "write")?])
}

#[test]
fn read_write_a_reused_id_lets_two_hold() {
    is_found::<BothSides>(RwRule::FreshIds, Kind::TwoHolders);
}

#[test]
fn read_write_an_acquire_without_a_not_after_comes_when_nobody_waits_for_it() {
    is_found::<BothSides>(RwRule::NotAfter, Kind::Orphan);
}

#[test]
fn read_write_without_a_janitor_what_is_given_up_stays() {
    is_found::<BothSides>(RwRule::Janitor, Kind::Orphan);
}

#[test]
fn read_write_trust_that_begins_with_the_answer_lets_two_hold() {
    is_found::<BothSides>(RwRule::TrustFromSending, Kind::TwoHolders);
}

#[test]
fn read_write_trust_without_a_drift_lets_a_slow_clock_believe_too_long() {
    is_found::<BothSides>(RwRule::Drift, Kind::Vanished);
}

#[test]
fn read_write_who_reads_under_a_strangers_write_is_not_alone() {
    is_found::<BothSides>(RwRule::OnlyOwnReads, Kind::TwoHolders);
}

#[test]
fn read_write_a_a_read_release_that_keeps_the_ttl_lets_a_dead_reader_stay() {
    is_found::<BothSides>(RwRule::ReleaseRecomputes, Kind::TtlTooLong);
}

#[test]
fn read_write_a_a_timeout_key_for_each_re_entry_is_cut_off() {
    is_found::<BothSides>(RwRule::OneTimeoutKey, Kind::TtlTooShort);
}

#[test]
fn read_write_b_a_read_release_that_recomputes_under_a_write_shortens_the_write() {
    is_found::<BothSides>(RwRule::WriteModeKeeps, Kind::Vanished);
}

#[test]
fn read_write_c_a_renewal_that_sets_the_ttl_shortens_other_reads() {
    is_found::<BothSides>(RwRule::RenewalRaises, Kind::Vanished);
}

#[test]
fn read_write_d_a_timeout_key_that_expired_has_to_be_set_anew() {
    is_found::<BothSides>(RwRule::RenewalSetsAnew, Kind::FalseAnswer);
}

#[test]
fn read_write_e_a_write_release_that_leaves_reads_has_to_wake_readers() {
    is_found::<BothSides>(RwRule::DowngradeWakes, Kind::NotWoken);
}

#[test]
fn read_write_e_a_write_release_that_leaves_reads_has_to_take_their_ttl() {
    is_found::<BothSides>(RwRule::DowngradeRecomputes, Kind::TtlTooLong);
}

#[test]
fn read_write_f_a_plain_lock_of_that_name_is_not_shared() {
    is_found::<BothSides>(RwRule::KnowsItsKind, Kind::TwoHolders);
}

#[test]
fn read_write_a_write_re_entry_that_adds_its_lease_piles_up() {
    is_found::<BothSides>(RwRule::NoPileUp, Kind::TtlTooLong);
}

#[test]
fn read_write_c_a_fixed_read_that_is_not_upheld_falls_to_redissons_renewal() {
    const NAME: &str = "read_write_c_a_fixed_read_that_is_not_upheld_falls_to_redissons_renewal";
    let redis = RedisServer::builder().unix_socket().start();
    let Some(theirs) = both_sides(&redis, NAME) else { return };
    let rule = RwRule::FixedReadsAreUpheld;
    let mut fuzz = Fuzz::<BothSides>::new(&redis, Some(rule)).with(|both| both.invite(theirs));
    is_found_by(&mut fuzz, 0, rule, Kind::TtlTooShort);
}
