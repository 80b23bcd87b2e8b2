//! [`Registry`]: the locks of one client that are in use, and the holds of its owners.

mod awaited;
mod pooled;

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak, atomic::AtomicUsize};

use crate::{
    determinism::{DashMap, HashMap},
    engine::Engine,
    error::Error,
    locking::{
        baton::Baton,
        handoff::Handoff,
        hold::{
            Hold,
            registration::{OwnedHolds, Register, Registration},
            target::Target,
        },
        line::LocalLine,
    },
    names,
    observer::LockKind,
    owner::OwnerId,
    protocol::Side,
};

/// One lock of one client. All handles to it share this state. It lives as long as a handle, an
/// acquisition or a guard.
#[derive(Debug)]
pub(crate) struct LockState {
    pub(crate) target: Arc<Target>,
    pub(crate) handoff: Arc<Handoff<Baton>>,
    owners: Arc<Owners>,
    /// The same lock for callers that share holds: see [`LockState::pooled`].
    pooled: OnceLock<Option<Arc<Self>>>,
    /// The read side of a lock whose callers share holds.
    reading: Option<Arc<Target>>,
}

/// What both sides of a read/write lock have in common, for local callers that share holds. They stand
/// in one line.
#[derive(Debug, Default)]
struct Pool {
    line: Arc<LocalLine>,
    handoff: Arc<Handoff<Baton>>,
    /// How many callers that do not share holds wait.
    strangers: Arc<AtomicUsize>,
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

    /// Where this owner will find the hold that it is granted.
    pub(crate) fn registration(&self, owner: OwnerId) -> Registration<Hold> {
        Registration::new(self.owners.clone(), owner, self.target.kind.side())
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

/// The holds of one client's owners under one name, by any kind of lock.
#[derive(Debug)]
struct Owners {
    name: String,
    holds: Mutex<OwnedHolds<Hold>>,
    pool: OnceLock<Pool>,
    registry: Arc<Registry>,
}

impl Owners {
    fn pool(&self) -> &Pool {
        self.pool.get_or_init(Pool::default)
    }
}

impl Register<Hold> for Owners {
    fn holds(&self) -> MutexGuard<'_, OwnedHolds<Hold>> {
        self.holds.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
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
        let protocol = kind.on(name, &engine.settings).into();
        let lock = Arc::new(LockState {
            target: Arc::new(Target::new(
                engine.clone(),
                protocol,
                kind,
                Arc::default(),
                Arc::default(),
            )),
            handoff: Arc::default(),
            owners: self.owners(name),
            pooled: OnceLock::new(),
            reading: None,
        });
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
            pool: OnceLock::new(),
            registry: self.clone(),
        });
        *place = Arc::downgrade(&owners);
        owners
    }
}

#[cfg(test)]
mod tests;
