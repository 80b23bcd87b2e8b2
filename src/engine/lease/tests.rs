use super::*;
use crate::{config::Config, observer::LockKind, owner::Identity, protocol::Renewed};

pub(super) const LEASE: Duration = Duration::from_secs(30);

pub(super) fn lease() -> Lease {
    of(LockKind::Reentrant, LEASE)
}

fn of(kind: LockKind, lease: Duration) -> Lease {
    watched_for(LEASE, kind, lease)
}

fn watched_for(watchdog: Duration, kind: LockKind, lease: Duration) -> Lease {
    let (_, settings) = Config::default().into_settings().unwrap();
    let id = Identity::new().next();
    Lease::new(&*kind.protocol("l", &settings), id, Instant::now(), lease, watchdog, None)
}

/// A hold that is renewed so seldom that its trust ends before.
fn seldom() -> Lease {
    watched_for(30 * LEASE, LockKind::Reentrant, LEASE)
}

fn look(lease: &Lease) -> Check {
    let now = Instant::now();
    let scheduled = lease.schedule(now);
    match lease.check(now, now) {
        Check::Over if scheduled.is_some_and(|scheduled| scheduled > now) => Check::Wait,
        look => look,
    }
}

fn is_due(lease: &Lease) -> bool {
    matches!(look(lease), Check::Renew(_))
}

#[test]
fn trust_ends_before_the_lease_does() {
    assert_eq!(trust(LEASE), Duration::from_millis(30_000 - 302));
    assert_eq!(trust(Duration::from_millis(1)), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_holder_is_told_when_trust_ends_and_a_confirmation_puts_that_off() {
    let lease = lease();
    tokio::time::advance(Duration::from_secs(20)).await;
    lease.confirm(Instant::now(), LEASE);
    let begun = Instant::now();
    assert_eq!(lease.lost().await, Loss::Expired);
    assert!(begun.elapsed() >= trust(LEASE), "{:?}", begun.elapsed());
    assert!(begun.elapsed() < LEASE);
    lease.confirm(Instant::now(), LEASE);
    assert_eq!(lease.loss(), Some(Loss::Expired), "what was told once stays told");
    assert_eq!(lease.trusted_for(), Duration::ZERO);
}

/// The answer to a renewal comes just after the end of the trust, and before anybody else has noted that.
#[tokio::test(start_paused = true)]
async fn a_hold_that_was_said_to_be_lost_stays_lost() {
    let lease = lease();
    let sent = Instant::now();
    tokio::time::advance(trust(LEASE)).await;
    assert_eq!(lease.trusted_for(), Duration::ZERO);
    lease.renewed(Renewed::Yes, sent + LEASE / 2, LEASE);
    assert_eq!(lease.trusted_for(), Duration::ZERO);
    assert_eq!(lease.loss(), Some(Loss::Expired));
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_renewal_is_due_again_soon_and_is_no_loss() {
    let lease = lease();
    lease.watch(Instant::now() + LEASE / 3);
    assert!(!is_due(&lease));
    tokio::time::advance(LEASE / 3).await;
    assert!(is_due(&lease));
    assert!(!is_due(&lease), "one at a time");
    lease.not_renewed();
    assert_eq!(lease.loss(), None);
    tokio::time::advance(LEASE / 30).await;
    assert!(is_due(&lease));
}

#[tokio::test(start_paused = true)]
async fn only_watched_holds_are_renewed_and_none_after_its_end() {
    let lease = lease();
    tokio::time::advance(LEASE / 2).await;
    assert!(!is_due(&lease));
    lease.watch(Instant::now());
    lease.end(Instant::now());
    assert!(!is_due(&lease));
}

#[tokio::test(start_paused = true)]
async fn a_fixed_lease_that_others_may_cut_short_is_upheld_for_what_is_left_of_it() {
    let lease = of(LockKind::Read, 10 * LEASE);
    tokio::time::advance(LEASE / 3).await;
    let left = 10 * LEASE - LEASE / 3;
    assert_eq!(look(&lease), Check::Renew(left));
    let until = Instant::now() + lease.trusted_for();
    // The task that sends it may run late.
    tokio::time::advance(LEASE / 4).await;
    let left = lease.still_wanted(Instant::now(), left);
    lease.renewed(Renewed::Yes, Instant::now(), left);
    assert!(Instant::now() + lease.trusted_for() <= until + LEASE / 100, "not prolonged");
    assert!(!is_due(&lease));
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_is_sent_late_is_for_a_full_lease_if_it_is_renewed_again() {
    let lease = lease();
    lease.watch(Instant::now());
    tokio::time::advance(LEASE / 2).await;
    assert_eq!(lease.still_wanted(Instant::now(), LEASE), LEASE);
}

/// The least time.
const NS: Duration = Duration::from_nanos(1);

fn told_at(lease: &Lease, moment: Instant) -> Option<Loss> {
    lease.loss_at(moment)
}

#[tokio::test(start_paused = true)]
async fn a_confirmation_prolongs_trust_and_lease_and_a_late_one_shortens_neither() {
    let lease = of(LockKind::Read, LEASE);
    let begun = Instant::now();
    tokio::time::advance(LEASE / 3).await;
    let later = Instant::now();
    lease.confirm(later, LEASE);
    lease.confirm(begun, LEASE);
    assert!(lease.is_trusted(later + trust(LEASE) - NS));
    assert!(!lease.is_trusted(later + trust(LEASE)));
    assert_eq!(lease.trusted_for(), trust(LEASE));
    assert_eq!(look(&lease), Check::Renew(LEASE), "all of it is left on the server");
}

#[tokio::test(start_paused = true)]
async fn a_hold_was_renewed_lately_if_it_is_renewed_at_all() {
    let (now, watched, fixed) = (Instant::now(), lease(), lease());
    watched.watch(now);
    for (lease, renewed) in [(&watched, true), (&fixed, false), (&of(LockKind::Read, LEASE), true)]
    {
        assert_eq!(lease.was_renewed(now + LEASE / 2), renewed);
        assert!(!lease.was_renewed(now + LEASE / 2 + NS));
        lease.confirm(now + LEASE / 3, LEASE);
        assert_eq!(lease.was_renewed(now + LEASE / 3 + LEASE / 2), renewed);
    }
    watched.unwatch();
    assert!(!watched.was_renewed(now));
}

#[tokio::test(start_paused = true)]
async fn a_key_outlives_its_release_by_the_longest_lease_that_was_asked_for() {
    let (now, lease) = (Instant::now(), lease());
    assert_eq!(lease.outlived_at(now), now + LEASE);
    lease.requested(now + LEASE / 3, LEASE / 2);
    assert_eq!((lease.longest(), lease.outlived_at(now)), (LEASE, now + LEASE / 3 + LEASE));
    lease.requested(now, 2 * LEASE);
    assert_eq!(lease.outlived_at(now), now + LEASE / 3 + 2 * LEASE);
    assert_eq!(lease.outlived_at(now + LEASE), now + 3 * LEASE);
}

#[tokio::test(start_paused = true)]
async fn a_read_under_a_write_asks_for_the_key_of_both() {
    let (now, write) = (Instant::now(), Arc::new(lease()));
    let (_, settings) = Config::default().into_settings().unwrap();
    let (id, protocol) = (Identity::new().next(), LockKind::Read.protocol("l", &settings));
    let read = Lease::new(&*protocol, id, now, LEASE, LEASE, Some(write.clone()));
    read.requested(now + LEASE / 3, 2 * LEASE);
    assert_eq!(write.outlived_at(now), now + LEASE / 3 + 2 * LEASE);
}

#[tokio::test(start_paused = true)]
async fn the_first_guard_that_wants_renewals_sets_when_and_the_last_ends_them() {
    let (now, lease) = (Instant::now(), lease());
    lease.watch(now + LEASE / 6);
    lease.watch(now + LEASE / 5);
    lease.unwatch();
    assert_eq!(lease.schedule(now), Some(now + LEASE / 6));
    lease.unwatch();
    tokio::time::advance(LEASE / 6).await;
    let now = Instant::now();
    assert_eq!(lease.check(now, now), Check::Wait);
}

#[tokio::test(start_paused = true)]
async fn a_hold_is_wanted_while_a_share_of_it_is_left() {
    let lease = lease();
    assert!(!lease.has_guard());
    lease.set_shares(1);
    assert!(lease.has_guard());
}

#[tokio::test(start_paused = true)]
async fn trust_is_over_at_its_end_and_the_first_loss_counts() {
    let (now, expired, removed) = (Instant::now(), lease(), lease());
    assert_eq!(told_at(&expired, now + trust(LEASE) - NS), None);
    assert_eq!(told_at(&expired, now + trust(LEASE)), Some(Loss::Expired));
    removed.lose(Loss::Removed);
    removed.lose(Loss::Taken);
    assert_eq!(told_at(&removed, now + LEASE), Some(Loss::Removed));
    assert!(!removed.is_trusted(now));
    assert_eq!(removed.trusted_for(), Duration::ZERO);
    let ended = lease();
    ended.end(Instant::now());
    ended.lose(Loss::Removed);
    assert_eq!(told_at(&ended, now), None, "who has released it is told nothing");
}

#[tokio::test(start_paused = true)]
async fn an_answer_says_how_a_hold_is_lost() {
    for (answer, loss) in [
        (Renewed::Yes, None),
        (Renewed::Gone, Some(Loss::Removed)),
        (Renewed::Taken, Some(Loss::Taken)),
    ] {
        let lease = lease();
        lease.renewed(answer, Instant::now(), LEASE);
        assert_eq!(lease.loss(), loss);
    }
    let late = lease();
    tokio::time::advance(LEASE).await;
    late.renewed(Renewed::Gone, Instant::now(), LEASE);
    assert_eq!(late.loss(), Some(Loss::Expired));
}

#[tokio::test(start_paused = true)]
async fn a_lease_suits_who_wants_about_what_is_left_of_it() {
    let lease = lease();
    let fixed = trust(LEASE).mul_f64(0.9);
    assert!(lease.adopt(LEASE, true) && lease.adopt(LEASE, false));
    assert!(!lease.adopt(LEASE - NS, true), "it is longer");
    tokio::time::advance(trust(LEASE) - fixed - Duration::from_millis(1)).await;
    assert!(lease.adopt(LEASE, false));
    tokio::time::advance(Duration::from_millis(2)).await;
    assert!(!lease.adopt(LEASE, false) && lease.adopt(LEASE, true));
    tokio::time::advance(lease.trusted_for() - LEASE / 2).await;
    assert!(lease.adopt(LEASE, true));
    tokio::time::advance(Duration::from_millis(1)).await;
    assert!(!lease.adopt(LEASE, true));
    lease.requested(Instant::now(), LEASE);
    lease.confirm(Instant::now(), LEASE);
    assert!(lease.adopt(LEASE, true));
    lease.requested(Instant::now(), 2 * LEASE);
    assert!(!lease.adopt(LEASE, true), "the server may keep it longer");
    assert!(!lease.adopt(2 * LEASE, true), "too little is trusted");
    lease.lose(Loss::Removed);
    assert!(!lease.adopt(2 * LEASE, true));
}

#[tokio::test(start_paused = true)]
async fn a_check_is_scheduled_for_what_comes_first() {
    let now = Instant::now();
    let [fixed, short, soon] = [of(LockKind::Reentrant, 10 * LEASE), seldom(), lease()];
    assert_eq!(fixed.schedule(now), Some(now + LEASE / 3), "it may be ended by then");
    assert_eq!(fixed.schedule(now), None, "it is scheduled");
    fixed.watch(now + LEASE / 6);
    assert_eq!(fixed.schedule(now), Some(now + LEASE / 6), "but may be earlier");
    assert_eq!(short.schedule(now), Some(now + trust(LEASE)));
    soon.watch(now + LEASE / 30);
    assert_eq!(soon.schedule(now), Some(now + LEASE / 30));
    let [ended, lost] = [lease(), lease()];
    ended.end(Instant::now());
    lost.lose(Loss::Removed);
    assert_eq!([ended, lost].map(|lease| lease.schedule(now)), [None, None]);
}

#[tokio::test(start_paused = true)]
async fn a_check_that_is_not_due_or_of_a_hold_that_is_gone_does_nothing() {
    let now = Instant::now();
    let [unknown, early, ended, lost] = [lease(), lease(), lease(), lease()];
    for lease in [&unknown, &early, &ended, &lost] {
        lease.watch(now);
    }
    for lease in [&early, &ended, &lost] {
        assert_eq!(lease.schedule(now), Some(now));
    }
    ended.end(Instant::now());
    lost.lose(Loss::Removed);
    assert_eq!(unknown.check(now, now), Check::Over);
    assert_eq!(ended.check(now, now), Check::Over);
    assert_eq!(lost.check(now, now), Check::Over);
    assert_eq!(early.check(now, now - NS), Check::Over);
    assert_eq!(early.check(now, now), Check::Renew(LEASE));
    assert_eq!(early.check(now, now), Check::Over, "it has to be scheduled again");
}

#[tokio::test(start_paused = true)]
async fn a_check_after_the_end_of_trust_tells_the_holder() {
    let (now, lease) = (Instant::now(), seldom());
    let end = now + trust(LEASE);
    assert_eq!(lease.schedule(now), Some(end));
    assert_eq!(lease.check(end, end), Check::Expired);
    lease.expired();
    assert_eq!(told_at(&lease, now), Some(Loss::Expired));
}

#[tokio::test(start_paused = true)]
async fn renewals_are_due_again_within_a_third_of_the_watchdog_and_not_all_at_once() {
    let now = Instant::now();
    let (least, most) = ((LEASE / 3).mul_f64(0.9), LEASE / 3);
    let dues: Vec<_> = (0..200)
        .map(|_| {
            let lease = lease();
            lease.watch(now);
            assert_eq!(look(&lease), Check::Renew(LEASE));
            lease.renewed(Renewed::Yes, now, LEASE);
            lease.schedule(now).unwrap() - now
        })
        .collect();
    assert!(dues.iter().all(|due| (least..=most).contains(due)), "{dues:?}");
    let spread = *dues.iter().max().unwrap() - *dues.iter().min().unwrap();
    assert!(spread > (most - least) / 2, "{spread:?}");
    let put_off = lease();
    put_off.watch(now);
    put_off.not_renewed();
    assert_eq!(put_off.schedule(now), Some(now + LEASE / 30));
}

#[tokio::test(start_paused = true)]
async fn a_fixed_lease_that_is_watched_too_is_renewed_to_the_longer_of_both() {
    let now = Instant::now();
    for (own, renewed) in [(2 * LEASE, 2 * LEASE), (LEASE / 2, LEASE)] {
        let lease = of(LockKind::Reentrant, own);
        lease.watch(now);
        assert_eq!(look(&lease), Check::Renew(renewed));
        assert_eq!(lease.longest(), renewed);
    }
}
