//! The read/write lock: with all rules no schedule fails, and without one rule some schedule does.

use harness::RedisServer;

use super::{ReadWrite, Rule};
use crate::clients::{CapturedScripts, capture_scripts};
use crate::fuzz::{Fuzz, is_found, is_found_by, run_all, tell_how_often};
use crate::model::{Kind, Rules};

#[test]
fn with_all_rules_kept_no_schedule_of_a_read_write_lock_goes_wrong() {
    let redis = RedisServer::builder().unix_socket().start();
    run_all(
        &mut Fuzz::<ReadWrite>::new(&redis, Rules::all()),
        "with_all_rules_kept_no_schedule_of_a_read_write_lock_goes_wrong",
    );
}

#[test]
fn with_all_rules_kept_no_schedule_of_a_read_write_lock_with_redisson_goes_wrong() {
    const NAME: &str =
        "with_all_rules_kept_no_schedule_of_a_read_write_lock_with_redisson_goes_wrong";
    let redis = RedisServer::builder().unix_socket().start();
    let Some(theirs) = both_sides(&redis, NAME) else { return };
    let mut fuzz = Fuzz::<ReadWrite>::new(&redis, Rules::all());
    fuzz.scripts.theirs = Some(theirs);
    run_all(&mut fuzz, NAME);
}

/// For the record: what Redisson's own scripts do with nobody else there.
#[test]
fn read_write_redisson_is_counted() {
    let redis = RedisServer::builder().unix_socket().start();
    let Some(theirs) = both_sides(&redis, "read_write_redisson_is_counted") else { return };
    let mut fuzz = Fuzz::<ReadWrite>::new(&redis, Rules::all());
    (fuzz.scripts.theirs, fuzz.scripts.ours) = (Some(theirs), false);
    tell_how_often(&mut fuzz, "Redisson alone");
}

/// Redisson's scripts for reading, and for writing.
fn both_sides(redis: &RedisServer, test: &str) -> Option<[CapturedScripts; 2]> {
    Some([capture_scripts(redis, test, "read")?, capture_scripts(redis, test, "write")?])
}

#[test]
fn read_write_a_reused_id_lets_two_hold() {
    is_found::<ReadWrite>(Rule::FreshIds, Kind::TwoHolders);
}

#[test]
fn read_write_an_acquire_without_a_not_after_comes_when_nobody_waits_for_it() {
    is_found::<ReadWrite>(Rule::NotAfter, Kind::Orphan);
}

#[test]
fn read_write_without_a_janitor_what_is_given_up_stays() {
    is_found::<ReadWrite>(Rule::Janitor, Kind::Orphan);
}

#[test]
fn read_write_trust_that_begins_with_the_answer_lets_two_hold() {
    is_found::<ReadWrite>(Rule::TrustFromSending, Kind::TwoHolders);
}

#[test]
fn read_write_trust_without_a_drift_lets_a_slow_clock_believe_too_long() {
    is_found::<ReadWrite>(Rule::Drift, Kind::Vanished);
}

#[test]
fn read_write_who_reads_under_a_strangers_write_is_not_alone() {
    is_found::<ReadWrite>(Rule::OnlyOwnReads, Kind::TwoHolders);
}

#[test]
fn read_write_a_a_read_release_that_keeps_the_ttl_lets_a_dead_reader_stay() {
    is_found::<ReadWrite>(Rule::ReleaseRecomputes, Kind::TtlTooLong);
}

#[test]
fn read_write_a_a_timeout_key_for_each_re_entry_is_cut_off() {
    is_found::<ReadWrite>(Rule::OneTimeoutKey, Kind::TtlTooShort);
}

#[test]
fn read_write_b_a_read_release_that_recomputes_under_a_write_shortens_the_write() {
    is_found::<ReadWrite>(Rule::WriteModeKeeps, Kind::Vanished);
}

#[test]
fn read_write_c_a_renewal_that_sets_the_ttl_shortens_other_reads() {
    is_found::<ReadWrite>(Rule::RenewalRaises, Kind::Vanished);
}

#[test]
fn read_write_d_a_timeout_key_that_expired_has_to_be_set_anew() {
    is_found::<ReadWrite>(Rule::RenewalSetsAnew, Kind::FalseAnswer);
}

#[test]
fn read_write_e_a_write_release_that_leaves_reads_has_to_wake_readers() {
    is_found::<ReadWrite>(Rule::DowngradeWakes, Kind::NotWoken);
}

#[test]
fn read_write_e_a_write_release_that_leaves_reads_has_to_take_their_ttl() {
    is_found::<ReadWrite>(Rule::DowngradeRecomputes, Kind::TtlTooLong);
}

#[test]
fn read_write_f_a_plain_lock_of_that_name_is_not_shared() {
    is_found::<ReadWrite>(Rule::KnowsItsKind, Kind::TwoHolders);
}

#[test]
fn read_write_a_write_re_entry_that_adds_its_lease_piles_up() {
    is_found::<ReadWrite>(Rule::NoPileUp, Kind::TtlTooLong);
}

#[test]
fn read_write_c_a_fixed_read_that_is_not_upheld_falls_to_redissons_renewal() {
    const NAME: &str = "read_write_c_a_fixed_read_that_is_not_upheld_falls_to_redissons_renewal";
    let redis = RedisServer::builder().unix_socket().start();
    let Some(theirs) = both_sides(&redis, NAME) else { return };
    let rule = Rule::FixedReadsAreUpheld;
    let mut fuzz = Fuzz::<ReadWrite>::new(&redis, Rules::without(rule));
    fuzz.scripts.theirs = Some(theirs);
    is_found_by(&mut fuzz, 0, rule, Kind::TtlTooShort);
}
