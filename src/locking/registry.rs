//! [`Registry`]: the locks of one client that are in use, and the holds of its owners.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, atomic::AtomicUsize};

use tokio::time::Instant;

use crate::{
    determinism::{DashMap, HashMap},
    engine::{Engine, Subscriptions},
    error::Error,
    locking::{
        baton::{Baton, Home},
        handoff::Handoff,
        hold::{
            Hold,
            registration::{OwnedHolds, Register, Registration},
            target::Target,
        },
        line::{Awaited, LocalLine, minder::Minder},
        sharing::Sharing,
    },
    names,
    observer::LockKind,
    owner::OwnerId,
    protocol::Side,
};

/// The state that all handles to one lock of one client share: its target, hand-off and owners. It lives
/// as long as a handle, an acquisition or a guard.
#[derive(Debug)]
pub(crate) struct LockState {
    pub(crate) target: Arc<Target>,
    pub(crate) handoff: Handoff<Baton>,
    owners: Arc<Owners>,
}

impl LockState {
    /// The lock's key, as text.
    pub(crate) fn name(&self) -> &str {
        &self.owners.name
    }

    /// The hold this owner has on the lock.
    pub(crate) fn hold_of(&self, owner: OwnerId) -> Option<Arc<Hold>> {
        self.hold_on(self.target.kind.side(), owner)
    }

    /// The hold this owner has on a side of the lock of this name.
    pub(crate) fn hold_on(&self, side: Side, owner: OwnerId) -> Option<Arc<Hold>> {
        self.owners.holds().get(&(owner, side))?.upgrade()
    }

    /// The lock in which an owner's hold is handed off: the one that granted it, perhaps of another
    /// kind with this name.
    pub(crate) fn home_of(self: &Arc<Self>, hold: &Hold) -> Arc<Self> {
        let grants = |lock: &Arc<Self>| Arc::ptr_eq(&lock.target, &hold.target);
        if grants(self) {
            return self.clone();
        }
        let locks = &self.owners.registry.locks;
        let of_kind = |kind| locks.get(&(kind, self.name().to_owned()))?.upgrade();
        LockKind::ALL.into_iter().filter_map(of_kind).find(grants).unwrap_or_else(|| self.clone())
    }

    /// What the two sides of this lock know of each other.
    pub(crate) fn sharing(&self) -> &Sharing {
        &self.owners.sharing
    }

    /// There may be news for the readers of this name.
    pub(crate) fn nudge_readers(&self) {
        if let Some(readers) = self.readers() {
            readers.target.line.nudge();
        }
    }

    fn readers(&self) -> Option<Arc<Self>> {
        self.owners.registry.locks.get(&(LockKind::Read, self.name().to_owned()))?.upgrade()
    }

    /// Where this owner will find the hold that it is granted.
    pub(crate) fn registration(&self, owner: OwnerId) -> Registration<Hold> {
        Registration::new(self.owners.clone(), owner, self.target.kind.side())
    }
}

impl Home for LockState {
    fn target(&self) -> &Target {
        &self.target
    }

    fn handoff(&self) -> &Handoff<Baton> {
        &self.handoff
    }

    fn sharing(&self) -> &Sharing {
        LockState::sharing(self)
    }

    fn has_waiting_readers(&self) -> bool {
        let readers = (self.target.kind.side() == Side::Write).then(|| self.readers()).flatten();
        readers.is_some_and(|readers| !readers.target.line.is_empty())
    }

    fn freed(&self) {
        if self.target.kind.side() == Side::Write {
            self.sharing().writer_released();
            self.nudge_readers();
        }
    }
}

impl Awaited for Arc<LockState> {
    type Offer = Baton;

    fn line(&self) -> &LocalLine {
        &self.target.line
    }

    fn name(&self) -> &str {
        LockState::name(self)
    }

    fn holds_here(&self) -> usize {
        self.target.holds_here()
    }

    fn subscriptions(&self) -> &Arc<Subscriptions> {
        &self.target.engine.subscriptions
    }

    fn check_open(&self) -> Result<(), Error> {
        self.target.engine.check_open()
    }

    async fn closing(&self) -> Error {
        self.target.engine.closing().await
    }

    fn start_minder(&self) {
        self.target.engine.janitor.spawn(Minder::new(self.clone()).run());
    }

    fn take_offer(&self) -> Option<Baton> {
        self.handoff.take()
    }

    fn is_offered(&self) -> bool {
        self.handoff.is_offered()
    }

    fn may_be_offered(&self) -> bool {
        self.target.hands_off && self.handoff.is_here()
            || self.target.shares && self.sharing().is_local_turn()
    }

    fn yields_until(&self, heard: Option<u64>) -> Option<Instant> {
        match self.target.shares {
            true => self.sharing().yields_until(heard),
            false => self.handoff.yields_until(heard),
        }
    }

    fn emptied(&self) {
        self.target.line.answers.forget();
        if self.target.shares {
            self.sharing().nobody_is_kept_out();
        }
        drop(self.handoff.take());
    }
}

impl Drop for LockState {
    fn drop(&mut self) {
        // A newer one may have replaced it.
        let locks = &self.owners.registry.locks;
        locks.remove_if(&(self.target.kind, self.name().to_owned()), |_, lock| {
            lock.strong_count() == 0
        });
    }
}

/// The holds of one client's owners under one name, by any kind of lock, and what its readers share.
#[derive(Debug)]
struct Owners {
    name: String,
    holds: Mutex<OwnedHolds<Hold>>,
    sharing: Sharing,
    /// How many of this client's holds there are.
    count: Arc<AtomicUsize>,
    registry: Arc<Registry>,
}

impl Register<Hold> for Owners {
    fn holds(&self) -> MutexGuard<'_, OwnedHolds<Hold>> {
        self.holds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Owners {
    fn drop(&mut self) {
        self.registry.owners.remove_if(&self.name, |_, owners| owners.strong_count() == 0);
    }
}

/// The locks of one client that are in use.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    locks: DashMap<(LockKind, String), Weak<LockState>>,
    owners: DashMap<String, Weak<Owners>>,
}

impl Registry {
    /// The one lock of this kind and name. All callers share its line.
    pub(crate) fn lock(
        self: &Arc<Self>,
        engine: &Arc<Engine>,
        kind: LockKind,
        name: &str,
    ) -> Result<Arc<LockState>, Error> {
        if name.is_empty() {
            return Err(Error::Invalid("the name of a lock must not be empty".into()));
        }
        let name = format!("{}{name}", engine.settings.prefix);
        if engine.transport.is_cluster() {
            let slot = |key: &str| engine.transport.slot(key.as_bytes());
            // For a name with a `}` before its `{`, Redisson computes the wrong slot and gets no
            // messages.
            if slot(&name) != slot(&names::unlock_channel(&name)) || names::is_misread(&name) {
                return Err(Error::Invalid(format!(
                    "the keys of a lock named {name:?} would not share a slot of the cluster: use a name without braces, or with one {{tag}}"
                )));
            }
        }
        let mut place = self.locks.entry((kind, name)).or_default();
        if let Some(lock) = place.upgrade() {
            return Ok(lock);
        }
        let name = &place.key().1;
        let protocol = kind.protocol(name, &engine.settings).into();
        let owners = self.owners(name);
        let target = Target::new(engine.clone(), protocol, kind, owners.count.clone());
        let (target, handoff) = (Arc::new(target), Handoff::default());
        let lock = Arc::new(LockState { target, handoff, owners });
        *place = Arc::downgrade(&lock);
        Ok(lock)
    }

    fn owners(self: &Arc<Self>, name: &str) -> Arc<Owners> {
        let mut place = self.owners.entry(name.to_owned()).or_default();
        if let Some(owners) = place.upgrade() {
            return owners;
        }
        let owners = Arc::new(Owners {
            name: name.to_owned(),
            holds: Mutex::new(HashMap::default()),
            sharing: Sharing::default(),
            count: Arc::default(),
            registry: self.clone(),
        });
        *place = Arc::downgrade(&owners);
        owners
    }
}

#[cfg(test)]
mod tests;
