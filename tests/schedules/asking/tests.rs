//! Questions to holders: with all rules no schedule fails, and without one rule some schedule does.

use super::Asking;
use crate::fuzz::schedules;

schedules!(Asking {
    all kept: asking_no_schedule_goes_wrong;
    asking_a_hold_with_the_id_of_an_earlier_one_is_asked_for_that_one: OneIdAHold, FalseAnswer;
    asking_a_holder_that_is_passed_over_is_not_asked: AsksEach, FalseAnswer;
    asking_what_is_never_forgotten_stays: ForgetsTheOld, Orphan;
    asking_questions_without_an_end_stay: Expires, NoTtl;
    asking_a_question_that_tells_nothing_wakes_nobody: Tells, NotWoken;
});
