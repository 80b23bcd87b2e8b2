//! The expirable semaphore: with all rules no schedule fails, and without one rule some schedule does.

use super::Leased;
use crate::fuzz::schedules;

schedules!(Leased {
    all kept: expirable_no_schedule_goes_wrong;
    all kept, with Redisson: expirable_no_schedule_with_redisson_goes_wrong;
    expirable_an_acquisition_without_a_not_after_takes_what_was_returned: NotAfter, Orphan;
    expirable_what_is_given_up_and_not_withdrawn_stays_out: Undo, Orphan;
    expirable_a_withdrawal_without_a_mark_lets_a_late_copy_take: WithdrawalMarks, CountedTwice;
    expirable_an_acquisition_that_finds_nothing_takes_twice: AcquireFinds, WrongCount;
    expirable_a_change_that_looks_for_no_id_counts_twice: ChangeLooks, CountedTwice;
    expirable_permits_whose_lease_has_ended_are_told: SweepTells, NotWoken;
    expirable_a_release_of_what_is_not_out_adds_a_permit: ReleaseFinds, WrongCount;
    expirable_permits_without_the_ttl_of_the_number_stay: KeepsTtl, TtlChanged;
});
