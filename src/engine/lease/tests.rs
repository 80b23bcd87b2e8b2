use super::*;
use crate::{config::Config, owner::Identity, protocol::Kind};

const LEASE: Duration = Duration::from_secs(30);

fn lease() -> Lease {
    of(Kind::Reentrant, LEASE)
}

fn of(kind: Kind, lease: Duration) -> Lease {
    let (_, settings) = Config::default().into_settings().unwrap();
    let id = Identity::new().next();
    Lease::new(&*kind.on("l", &settings), id, Instant::now(), lease, LEASE, None)
}

fn look(lease: &Lease) -> Check {
    let now = Instant::now();
    let scheduled = lease.schedule(now, LEASE);
    match lease.check(now, now, LEASE) {
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

#[tokio::test(start_paused = true)]
async fn an_unanswered_renewal_is_due_again_soon_and_is_no_loss() {
    let lease = lease();
    lease.watch(Instant::now() + LEASE / 3);
    assert!(!is_due(&lease));
    tokio::time::advance(LEASE / 3).await;
    assert!(is_due(&lease));
    assert!(!is_due(&lease), "one at a time");
    lease.not_renewed(LEASE);
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
    lease.end();
    assert!(!is_due(&lease));
}

#[tokio::test(start_paused = true)]
async fn a_fixed_lease_that_others_may_cut_short_is_upheld_for_what_is_left_of_it() {
    let lease = of(Kind::Read, 10 * LEASE);
    tokio::time::advance(LEASE / 3).await;
    let left = 10 * LEASE - LEASE / 3;
    assert_eq!(look(&lease), Check::Renew(left));
    let until = Instant::now() + lease.trusted_for();
    lease.renewed(Renewed::Yes, Instant::now(), left);
    assert!(Instant::now() + lease.trusted_for() <= until + LEASE / 100, "not prolonged");
    assert!(!is_due(&lease));
}
