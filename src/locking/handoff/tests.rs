use std::time::Duration;

use tokio::time::advance;

use super::*;
use crate::{
    engine::scripted::engine,
    locking::{
        budget::Others,
        hold::{Grant, target::Target},
    },
    observer::LockKind,
};

const LEASE: Duration = Duration::from_secs(30);

fn target() -> Arc<Target> {
    let engine = engine(&Arc::default());
    let protocol = LockKind::Reentrant.protocol("lock", &engine.settings).into();
    Arc::new(Target::new(engine, protocol, LockKind::Reentrant, Arc::default()))
}

/// A hold that the server has just granted. `swapped`: as for [`Handoff::granted`].
fn granted(handoff: &Handoff<Arc<Hold>>, target: &Arc<Target>, swapped: Option<bool>) -> Arc<Hold> {
    let hold = Hold::begin(target, Grant::of(target, LEASE), None, false);
    handoff.granted(&hold, swapped);
    hold
}

/// One other process waits, and has the message of the release.
fn told() -> Option<Told> {
    let others = Others { count: 1, heard: Some(0), messages: 1 };
    Some(Told { sent: Instant::now(), freed: true, others })
}

#[tokio::test(start_paused = true)]
async fn when_another_process_had_the_lock_the_turns_are_as_short_as_at_first() {
    let ms = Duration::from_millis;
    for seen in [false, true] {
        let (handoff, target) = (Handoff::default(), target());
        let first = granted(&handoff, &target, None);
        advance(ms(10)).await;
        assert!(handoff.released(&first, told()));
        assert!(handoff.yields_until(Some(0)).is_some(), "the other one may come");
        advance(ms(200)).await;
        assert!(handoff.yields_until(Some(0)).is_none(), "it did not come");
        // The next turns may be twice as long.
        let second = granted(&handoff, &target, None);
        advance(ms(1)).await;
        assert!(handoff.released(&second, told()));
        if seen {
            handoff.seen_elsewhere();
        }
        let third = granted(&handoff, &target, None);
        advance(Duration::from_micros(2_500)).await;
        let next = if seen { Plan::Release } else { Plan::Ask };
        assert_eq!(handoff.plan(&third, Instant::now()), next, "seen elsewhere: {seen}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_hold_that_has_replaced_the_current_one_goes_on_and_no_other() {
    let (handoff, target) = (Handoff::default(), target());
    let first = granted(&handoff, &target, None);
    // Another hold has replaced it.
    assert!(handoff.released(&first, None) && !handoff.is_here());
    let second = granted(&handoff, &target, Some(true));
    assert!(handoff.is_here());
    assert_eq!(handoff.plan(&second, Instant::now()), Plan::HandOff);
    let stray = granted(&handoff, &target, Some(false));
    assert_eq!(handoff.plan(&stray, Instant::now()), Plan::Release);
    assert!(!handoff.released(&stray, None) && handoff.is_here());
    assert_eq!(handoff.plan(&second, Instant::now()), Plan::HandOff);
}

#[tokio::test(start_paused = true)]
async fn a_holder_counts_while_it_has_the_lock_and_can_trust_that() {
    let (handoff, target) = (Handoff::default(), target());
    assert!(!handoff.has_trusted_guard());
    let hold = granted(&handoff, &target, None);
    assert!(!handoff.has_trusted_guard(), "nobody has it yet");
    hold.lease.add_share();
    assert!(handoff.has_trusted_guard());
    hold.lease.remove_share();
    assert!(!handoff.has_trusted_guard() && handoff.is_being_released());
    hold.lease.add_share();
    advance(LEASE).await;
    assert!(!handoff.has_trusted_guard());
}
