//! The reentrant lock, the fenced one and the plain one: with all rules no schedule fails, and without one rule some schedule does.

use harness::RedisServer;

use super::subject::{Fenced, Plain, Simple};
use crate::fuzz::{Fuzz, schedules};
use crate::model::Rules;

schedules!(Simple {
    all kept: with_all_rules_kept_no_schedule_goes_wrong;
    all kept, with Redisson: with_all_rules_kept_no_schedule_with_redisson_goes_wrong;
    rule_1_a_reused_id_lets_two_hold: FreshIds, TwoHolders;
    rule_2_a_count_that_decides_leaves_the_lock_stuck: ExistenceDecides, Orphan;
    rule_3_an_acquire_without_a_not_after_comes_when_nobody_waits_for_it: NotAfter, Orphan;
    rule_4_without_a_janitor_what_is_given_up_stays: Janitor, Orphan;
    rule_4_a_repeated_release_that_says_gone_is_no_loss: GoneIsReleased, FalseAlarm;
    rule_4_one_copy_of_a_release_in_time_is_enough: OneCopyInTime, FalseAlarm, from 1_250;
    rule_4_a_hand_over_given_up_is_undone_from_its_source: SourceFirst, Orphan;
    rule_4_an_answer_that_comes_after_the_release_was_sent_clears_nothing: AnswersInTime, Orphan, from 850;
    rule_4_an_acquire_never_answered_may_have_run_before_its_not_after: UnansweredIsUnclear, Orphan;
    rule_5_a_swap_from_an_unclear_id_leaves_an_orphan: ClearSwaps, Orphan, from 3_550;
    rule_5_a_swap_that_takes_mine_out_first_loses_the_ttl: TheirsInFirst, NoTtl;
    trust_that_begins_with_the_answer_lets_two_hold: TrustFromSending, TwoHolders;
    trust_without_a_drift_lets_a_slow_clock_believe_too_long: Drift, Vanished;
});

schedules!(Fenced {
    all kept: with_all_rules_kept_no_schedule_of_a_fenced_lock_goes_wrong;
    all kept, with Redisson: with_all_rules_kept_no_schedule_of_a_fenced_lock_with_redisson_goes_wrong;
    fenced_a_repeat_that_counts_gives_a_hold_two_tokens: RepeatsKeepTheirToken, BadToken;
    fenced_a_counter_that_expires_with_the_lock_begins_anew: CounterLasts, BadToken;
});

schedules!(Plain {
    all kept: plain_no_schedule_goes_wrong;
    all kept, with Redisson: plain_no_schedule_with_other_clients_goes_wrong;
    plain_a_token_that_is_used_again_lets_two_hold: FreshIds, TwoHolders;
    plain_a_request_without_a_not_after_comes_when_nobody_waits_for_it: NotAfter, Orphan;
    plain_without_a_janitor_what_is_given_up_stays: Janitor, Orphan;
    plain_a_repeated_release_that_says_gone_is_no_loss: GoneIsReleased, FalseAlarm;
    plain_an_answer_that_comes_after_the_release_was_sent_clears_nothing: AnswersInTime, Orphan;
    plain_a_request_never_answered_may_have_run_before_its_not_after: UnansweredIsUnclear, Orphan;
    plain_trust_that_begins_with_the_answer_lets_two_hold: TrustFromSending, TwoHolders;
    plain_trust_without_a_drift_lets_a_slow_clock_believe_too_long: Drift, Vanished;
    plain_a_release_that_compares_no_token_frees_the_lock_of_another: ReleaseByToken, Vanished;
    plain_a_renewal_that_compares_no_token_tells_no_loss: RenewalByToken, FalseAnswer;
});

#[test]
fn the_same_seed_is_the_same_schedule() {
    let redis = RedisServer::builder().unix_socket().start();
    let mut fuzz = Fuzz::<Simple>::new(&redis, Rules::all());
    for seed in 0..20 {
        let (steps, violation) = fuzz.random(seed, None);
        let (again, _) = fuzz.random(seed, None);
        assert!(violation.is_none());
        assert_eq!(format!("{steps:?}"), format!("{again:?}"));
        assert_eq!(fuzz.trace(&steps, None), fuzz.trace(&again, None));
    }
}
