//! The read/write lock: with all rules no schedule fails, and without one rule some schedule does.

use harness::RedisServer;

use super::ReadWrite;
use crate::fuzz::{Fuzz, schedules, tell_how_often};
use crate::model::Rules;

schedules!(ReadWrite {
    all kept: with_all_rules_kept_no_schedule_of_a_read_write_lock_goes_wrong;
    all kept, with Redisson: with_all_rules_kept_no_schedule_of_a_read_write_lock_with_redisson_goes_wrong;
    read_write_a_reused_id_lets_two_hold: FreshIds, TwoHolders;
    read_write_an_acquire_without_a_not_after_comes_when_nobody_waits_for_it: NotAfter, Orphan;
    read_write_without_a_janitor_what_is_given_up_stays: Janitor, Orphan;
    read_write_trust_that_begins_with_the_answer_lets_two_hold: TrustFromSending, TwoHolders;
    read_write_trust_without_a_drift_lets_a_slow_clock_believe_too_long: Drift, Vanished;
    read_write_who_reads_under_a_strangers_write_is_not_alone: OnlyOwnReads, TwoHolders;
    read_write_a_a_read_release_that_keeps_the_ttl_lets_a_dead_reader_stay: ReleaseRecomputes, TtlTooLong;
    read_write_a_a_timeout_key_for_each_re_entry_is_cut_off: OneTimeoutKey, TtlTooShort;
    read_write_b_a_read_release_that_recomputes_under_a_write_shortens_the_write: WriteModeKeeps, Vanished;
    read_write_c_a_renewal_that_sets_the_ttl_shortens_other_reads: RenewalRaises, Vanished;
    read_write_d_a_timeout_key_that_expired_has_to_be_set_anew: RenewalSetsAnew, FalseAnswer;
    read_write_e_a_write_release_that_leaves_reads_has_to_wake_readers: DowngradeWakes, NotWoken;
    read_write_e_a_write_release_that_leaves_reads_has_to_take_their_ttl: DowngradeRecomputes, TtlTooLong;
    read_write_f_a_plain_lock_of_that_name_is_not_shared: KnowsItsKind, TwoHolders;
    read_write_a_write_re_entry_that_adds_its_lease_piles_up: NoPileUp, TtlTooLong;
    read_write_a_read_hold_becomes_a_write_hold_only_if_nobody_else_reads: UpgradeIsAlone, TwoHolders;
    read_write_a_write_hold_that_may_still_be_made_of_a_read_hold_is_undone: UpgradeIsUnclear, Orphan;
    read_write_who_makes_a_read_hold_of_a_write_hold_wakes_readers: DowngradeTells, NotWoken;
    read_write_a_read_hold_that_was_a_write_hold_has_a_timeout_key: DowngradeHasKey, FalseAnswer;
    read_write_a_write_hold_that_becomes_a_read_hold_is_not_renewed_meanwhile: DowngradePauses, FalseAlarm;
    read_write_what_is_unclear_under_readers_is_not_undone_while_they_trust_it: DowngradeIsKeptUp, Vanished;
    read_write_c_a_fixed_read_that_is_not_upheld_falls_to_redissons_renewal: FixedReadsAreUpheld, TtlTooShort, with Redisson;
});

/// For the record: what Redisson's own scripts do with nobody else there.
#[test]
fn read_write_redisson_is_counted() {
    let redis = RedisServer::builder().unix_socket().start();
    let fuzz =
        Fuzz::<ReadWrite>::with(&redis, Rules::all(), "read_write_redisson_is_counted", true);
    let Some(mut fuzz) = fuzz else { return };
    fuzz.scripts.ours = false;
    tell_how_often(&mut fuzz, "Redisson alone");
}
