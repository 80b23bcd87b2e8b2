use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::*;
use crate::{
    engine::scripted::engine,
    error::Loss,
    locking::hold::{
        Grant, Target,
        registration::{OwnedHolds, Register, Registration},
    },
    observer::LockKind,
    owner::{Owner, OwnerId},
};

const LEASE: Duration = Duration::from_secs(30);

/// The holds of all owners.
#[derive(Debug, Default)]
struct Holds(Mutex<OwnedHolds<Hold>>);

impl Register<Hold> for Holds {
    fn holds(&self) -> MutexGuard<'_, OwnedHolds<Hold>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The locks of one client, and who holds them.
struct Client {
    target: Arc<Target>,
    holds: Arc<Holds>,
}

impl Client {
    fn new(kind: LockKind) -> Self {
        let engine = engine(&Arc::default());
        let protocol = kind.protocol("lock", &engine.settings).into();
        let target = Arc::new(Target::new(engine, protocol, kind, Arc::default()));
        Self { target, holds: Arc::default() }
    }

    /// A hold that the server has just granted.
    fn granted(&self, owner: Option<OwnerId>, unanswered: Option<u64>) -> Arc<Hold> {
        let target = &self.target;
        let grant = Grant { unanswered, ..Grant::of(target, LEASE) };
        let side = target.kind.side();
        let registration = owner.map(|owner| Registration::new(self.holds.clone(), owner, side));
        Hold::begin(target, grant, registration, false)
    }

    /// The hold that the owner finds.
    fn hold_of(&self, owner: OwnerId) -> Option<Arc<Hold>> {
        self.holds.holds().get(&(owner, self.target.kind.side()))?.upgrade()
    }
}

#[tokio::test(start_paused = true)]
async fn a_hold_goes_to_no_other_caller_while_one_has_or_changes_it_or_when_it_is_in_doubt() {
    let (client, me) = (Client::new(LockKind::Reentrant), Owner::new().id());
    let free = || client.granted(None, None);
    assert!(free().may_be_handed_off(Instant::now()));
    assert!(client.granted(Some(me), None).may_be_handed_off(Instant::now()));

    let used = free();
    used.lease.add_share();
    assert!(!used.may_be_handed_off(Instant::now()), "it has a guard");
    assert!(
        !client.granted(None, Some(1)).may_be_handed_off(Instant::now()),
        "a late copy may take it again"
    );

    let asked_for = free();
    assert!(!asked_for.is_asked_to_release());
    assert!(!asked_for.may_be_handed_off(Instant::now()), "it is released for those who ask");

    let prolonged = free();
    let prolonging = prolonged.clone().prolong(LEASE, Instant::now() + LEASE);
    assert!(!prolonged.may_be_handed_off(Instant::now()), "it is being prolonged");
    drop(prolonging);
    assert!(prolonged.may_be_handed_off(Instant::now()));

    let lost = free();
    lost.lease.lose(Loss::Removed);
    assert!(!lost.may_be_handed_off(Instant::now()), "it is lost");

    let writers = Client::new(LockKind::Write);
    assert!(writers.granted(None, None).may_be_handed_off(Instant::now()));
    assert!(
        !writers.granted(Some(me), None).may_be_handed_off(Instant::now()),
        "its owner may read under it"
    );
}

#[tokio::test(start_paused = true)]
async fn an_owner_lets_go_of_a_hold_that_it_has_entered_once() {
    let (client, me) = (Client::new(LockKind::Reentrant), Owner::new().id());
    let hold = client.granted(Some(me), None);
    let changes = hold.count.lock().await;
    assert!(!hold.detach(), "its count is being changed");
    drop(changes);
    *hold.count.lock().await = 2;
    assert!(!hold.detach() && client.hold_of(me).is_some(), "it has entered it twice");
    assert_eq!(*hold.count.lock().await, 2);
    *hold.count.lock().await = 1;
    assert!(hold.detach() && client.hold_of(me).is_none());
    assert_eq!((*hold.count.lock().await, hold.count()), (0, 0));
    assert!(
        hold.until_over(Instant::now() + LEASE).await.unwrap(),
        "its owner does not wait for it"
    );
}

#[tokio::test(start_paused = true)]
async fn an_owner_finds_its_latest_hold_as_long_as_there_is_one() {
    let (client, me) = (Client::new(LockKind::Reentrant), Owner::new().id());
    let first = client.granted(Some(me), None);
    let second = client.granted(Some(me), None);
    drop(first);
    assert!(client.hold_of(me).is_some_and(|hold| Arc::ptr_eq(&hold, &second)));
    drop(second);
    assert!(client.holds.holds().is_empty(), "nothing is left of them");
}
