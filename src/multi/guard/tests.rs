//! What is said of a guard whose locks are lost, and are joined by another, at the same moment. An observer of
//! losses stands for the other thread on which that happens.

use std::cell::RefCell;

use super::*;
use crate::{
    locking::request::Bounds,
    observer::{HoldEnd, HoldEnded, Observer},
    run::sealed::Held,
    sim::{Sim, World},
};

const SHORT: Duration = Duration::from_millis(100);
const LONG: Duration = Duration::from_secs(10);

thread_local! {
    /// What happens as the next loss is noted.
    static MEANWHILE: RefCell<Option<Box<dyn FnOnce()>>> = RefCell::default();
}

struct AtALoss;

impl Observer for AtALoss {
    fn hold_ended(&self, hold: &HoldEnded<'_>) {
        if let (HoldEnd::Lost(_), Some(happens)) = (hold.end, MEANWHILE.take()) {
            happens();
        }
    }
}

async fn sim() -> Sim {
    Sim::with(&World::new(), |config| config.observer(AtALoss)).await
}

/// Holds on locks of these names.
async fn shares<const N: usize>(sim: &Sim, locks: [(&str, Duration); N]) -> Vec<Share> {
    let mut shares = Vec::new();
    for (name, lease) in locks {
        let bounds = Bounds::answer_by(Instant::now() + LONG);
        let share = sim.client.lock(name).handle().acquire(None, Some(lease), bounds).await;
        shares.push(share.unwrap().unwrap());
    }
    shares
}

/// Nobody else is polled meanwhile.
fn let_short_leases_end() {
    assert!(tokio::time::advance(SHORT).now_or_never().is_none());
}

/// A guard that needs three of its four locks. As the loss of the first is noted, a fifth joins, and the second
/// is lost.
async fn one_joins_as_two_are_lost(sim: &Sim) -> MultiGuard {
    let locks = [("a", SHORT), ("b", LONG), ("c", LONG), ("d", LONG), ("late", LONG)];
    let mut shares = shares(sim, locks).await;
    let late = shares.pop().unwrap();
    let second = shares[1].hold().lease.clone();
    let guard = MultiGuard::new(shares, 3);
    let door = guard.door();
    MEANWHILE.set(Some(Box::new(move || {
        door.upgrade().unwrap().join(late);
        second.lose(Loss::Removed);
    })));
    let_short_leases_end();
    guard
}

#[tokio::test(start_paused = true)]
async fn a_guard_is_not_said_to_be_lost_where_a_late_grant_has_made_up_for_a_loss() {
    let sim = sim().await;
    let guard = one_joins_as_two_are_lost(&sim).await;
    assert_eq!(guard.known_loss(), None);
    assert_eq!(guard.held_members(), 3, "the late one has joined");
    guard.unlock().await.unwrap();

    let guard = one_joins_as_two_are_lost(&sim).await;
    assert_eq!(guard.lost().now_or_never(), None);
    guard.unlock().await.unwrap();

    let guard = one_joins_as_two_are_lost(&sim).await;
    guard.check().await.unwrap();
    guard.unlock().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn no_late_grant_joins_a_guard_that_was_said_to_be_lost() {
    let sim = sim().await;
    let locks = [("a", SHORT), ("b", LONG), ("c", LONG), ("late", LONG), ("later", LONG)];
    let mut shares = shares(&sim, locks).await;
    let (later, late) = (shares.pop().unwrap(), shares.pop().unwrap());
    let guard = MultiGuard::new(shares, 3);
    let door = guard.door();
    MEANWHILE.set(Some(Box::new(move || door.upgrade().unwrap().join(late))));
    let_short_leases_end();
    assert_eq!(guard.known_loss(), Some(Loss::Expired));
    guard.members.join(later);
    assert_eq!((guard.known_loss(), guard.held_members()), (Some(Loss::Expired), 2));
}

/// One of five was lost before. Two more are, the second as the loss of the first is noted.
#[tokio::test(start_paused = true)]
async fn a_loss_at_the_very_moment_at_which_a_guard_begins_to_wait_for_one_is_told() {
    let sim = sim().await;
    let locks = [("a", LONG), ("b", LONG), ("c", LONG), ("d", LONG), ("e", SHORT)];
    let shares = shares(&sim, locks).await;
    shares[0].hold().lease.lose(Loss::Removed);
    let second = shares[1].hold().lease.clone();
    let guard = MultiGuard::new(shares, 3);
    MEANWHILE.set(Some(Box::new(move || second.lose(Loss::Removed))));
    let_short_leases_end();
    assert_eq!(guard.lost().now_or_never(), Some(Loss::Removed));
}

#[tokio::test(start_paused = true)]
async fn a_guard_that_is_shown_notes_no_loss() {
    let sim = sim().await;
    let shares = shares(&sim, [("a", SHORT), ("b", LONG), ("c", LONG)]).await;
    let all = MultiGuard::new(shares, 3);
    let held = format!("{all:?}");
    assert!(held.contains("held: 3, needed: 3"), "{held}");
    MEANWHILE.set(Some(Box::new(|| ())));
    let_short_leases_end();
    let lost = format!("{all:?}");
    assert!(lost.contains("held: 2, needed: 3, remaining: 0ns"), "{lost}");
    assert!(MEANWHILE.take().is_some(), "a loss was noted");
    assert!(!all.is_held());
}
