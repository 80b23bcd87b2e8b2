//! The fair lock: with all rules no schedule fails, and without one rule some schedule does.

use harness::RedisServer;

use super::Fair;
use crate::fuzz::{Fuzz, schedules, tell_how_often};
use crate::model::Rules;

schedules!(Fair {
    all kept: fair_no_schedule_goes_wrong;
    all kept, with Redisson: fair_no_schedule_with_redisson_goes_wrong;
    fair_a_grant_of_a_held_lock_lets_two_hold: FreeOnly, TwoHolders;
    fair_a_waiter_that_does_not_withdraw_leaves_its_place: Withdraw, Orphan;
    fair_an_acquire_without_a_not_after_comes_when_nobody_waits_for_it: NotAfter, Orphan;
    fair_a_grant_without_a_ttl_never_ends: Ttl, NoTtl;
    fair_a_grant_to_whoever_comes_breaks_the_order: HeadOnly, OutOfOrder;
    fair_a_deadline_that_does_not_count_grants_costs_the_place: CountsGrants, Evicted, with Redisson;
    fair_a_deadline_that_is_not_raised_costs_the_place: LooksAhead, Evicted;
    fair_a_waiter_that_does_not_say_that_it_was_there_loses_its_place: Marks, Evicted;
    fair_a_raise_that_leaves_redisson_behind_makes_its_time_short: KeepsDistance, WrongDeadline, with Redisson;
    fair_each_of_several_that_died_together_holds_up_the_others: UnseenGo, DeadAtHead;
    fair_a_head_keeps_what_redissons_grants_did_not_use: HeadIsLevel, WrongDeadline, with Redisson;
    fair_a_grant_leaves_to_those_behind_what_redissons_grants_did_not_use: GrantLevels, WrongDeadline, with Redisson;
    fair_a_short_lease_of_which_the_next_is_not_told: GrantTells, NotWoken;
    fair_a_withdrawal_from_the_queue_alone_leaves_a_deadline: LeavesBoth, QueueTorn;
    fair_a_release_that_wakes_nobody: ReleaseWakes, NotWoken;
    fair_a_withdrawal_of_the_head_that_wakes_nobody: WithdrawalWakes, NotWoken;
    fair_a_dropped_head_that_wakes_nobody: DropWakes, NotWoken;
    fair_a_stranger_that_releases_takes_the_hold: HolderReleases, Vanished;
    fair_a_hold_that_is_gone_may_have_become_a_place: GoneIsWithdrawn, Orphan, from 2_950;
});

/// For the record: what Redisson's own scripts do with nobody else there, and what its asynchronous give-up does to all.
#[test]
fn fair_redisson_is_counted() {
    let redis = RedisServer::builder().unix_socket().start();
    let fuzz = Fuzz::<Fair>::with(&redis, Rules::all(), "fair_redisson_is_counted", true);
    let Some(mut fuzz) = fuzz else { return };
    for (ours, asynchronous, who) in [
        (false, false, "Redisson alone"),
        (false, true, "Redisson alone, asynchronous"),
        (true, true, "Redisson, asynchronous, and ours"),
    ] {
        (fuzz.scripts.ours, fuzz.scripts.asynchronous) = (ours, asynchronous);
        tell_how_often(&mut fuzz, who);
    }
}
