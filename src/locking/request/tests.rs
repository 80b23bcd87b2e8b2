use super::*;
use crate::config::Config;

const NS: Duration = Duration::from_nanos(1);

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

#[test]
fn a_lease_is_from_10_ms_to_10_years() {
    let years = Duration::from_secs(315_360_000);
    assert_eq!(checked_lease(ms(10)).unwrap(), ms(10));
    assert_eq!(checked_lease(years).unwrap(), years);
    assert!(checked_lease(ms(10) - NS).is_err());
    assert!(checked_lease(years + NS).is_err());
}

#[test]
fn pauses_grow_from_a_tenth_of_a_ms_to_a_minute_at_most() {
    let pauses = |first, most| checked_pauses(SpinBackoff { first, most }).is_ok();
    let (shortest, longest) = (Duration::from_micros(100), Duration::from_secs(60));
    assert!(pauses(shortest, longest) && pauses(ms(1), ms(1)));
    assert!(!pauses(shortest - NS, longest));
    assert!(!pauses(shortest, longest + NS));
    assert!(!pauses(ms(1), ms(1) - NS));
}

#[tokio::test(start_paused = true)]
async fn a_wait_has_a_deadline_and_is_10_years_at_most() {
    let (now, years) = (Instant::now(), Duration::from_secs(315_360_000));
    let deadline = |wait| Bounds::of(wait).map(Bounds::deadline).ok();
    assert_eq!(deadline(ms(5)), Some(Some(now + ms(5))));
    assert_eq!(deadline(years), Some(Some(now + years)));
    assert_eq!(deadline(years + NS), None, "refused");
    assert_eq!(deadline(Duration::ZERO), Some(None));
    assert!(Bounds::of(Duration::ZERO).unwrap().is_one_answer());
    assert!(!Bounds::of(ms(5)).unwrap().is_one_answer());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_answer_is_asked_again_only_for_some_time() {
    let (_, settings) = Config::default().into_settings().unwrap();
    let (begun, most) = (Instant::now(), settings.retry_timeout);
    let until = |bounds: Bounds| bounds.retry_until(begun, &settings);
    assert!(settings.command_timeout < most);
    assert_eq!(until(Bounds::FOREVER), begun + most);
    assert_eq!(until(Bounds::of(Duration::ZERO).unwrap()), begun + settings.command_timeout);
    assert_eq!(until(Bounds::until(begun + ms(5))), begun + ms(5));
    assert_eq!(until(Bounds::until(begun + 2 * most)), begun + most);
    assert_eq!(until(Bounds::answer_by(begun + ms(5))), begun + ms(5));
    let glance = Bounds::until(begun + ms(5)).without_waiting();
    assert!(glance.is_one_answer());
    assert_eq!((until(glance), glance.deadline()), (begun + ms(5), None));
}

#[test]
fn what_a_caller_asks_for_decides_who_renews_and_who_confirms() {
    let (_, settings) = Config::default().into_settings().unwrap();
    let checked =
        |options, lease| Request::checked(&settings, options, None, lease, Bounds::FOREVER, false);
    let watched = checked(LockOptions::default(), None).unwrap();
    assert!(watched.watched && watched.lease == settings.watchdog);
    assert_eq!(watched.replicas, settings.replicas);
    let fixed = checked(
        LockOptions { replicas: Some(Replicas::All), ..LockOptions::default() },
        Some(ms(50)),
    );
    let fixed = fixed.unwrap();
    assert!(!fixed.watched && fixed.lease == ms(50));
    assert_eq!(fixed.replicas, Replicas::All);
    assert!(checked(LockOptions::default(), Some(ms(1))).is_err());
}
