//! The semaphore and the latch: with all rules no schedule fails, and without one rule some schedule does.

use super::subject::{Latch, Semaphore};
use crate::fuzz::schedules;

schedules!(Semaphore {
    all kept: semaphore_no_schedule_goes_wrong;
    all kept, with Redisson: semaphore_no_schedule_with_redisson_goes_wrong;
    semaphore_a_copy_without_a_not_after_comes_when_its_id_is_forgotten: NotAfter, Orphan;
    semaphore_what_is_given_up_and_not_undone_stays_out: Undo, Orphan;
    semaphore_an_id_that_is_forgotten_too_soon_counts_twice: ClearIsSettled, CountedTwice;
    semaphore_a_release_that_looks_for_no_id_counts_twice: ReleaseLooks, CountedTwice;
    semaphore_an_acquisition_that_looks_for_no_id_counts_twice: AcquireLooks, CountedTwice;
    semaphore_a_withdrawal_without_a_mark_lets_a_late_copy_take: WithdrawalMarks, CountedTwice;
    semaphore_a_release_that_tells_nothing_wakes_nobody: ReleaseTells, NotWoken;
});

schedules!(Latch {
    all kept: latch_no_schedule_goes_wrong;
    all kept, with Redisson: latch_no_schedule_with_redisson_goes_wrong;
    latch_a_countdown_that_looks_for_no_id_counts_twice: CountLooks, CountedTwice;
    latch_a_zero_that_is_not_told_wakes_nobody: ZeroTells, NotWoken;
});
