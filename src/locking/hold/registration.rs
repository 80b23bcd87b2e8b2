//! [`Registration`]: the entry of an owner's hold in the registry. The hold removes it at its end.

use std::{
    fmt,
    sync::{Arc, MutexGuard, Weak},
};

use crate::{determinism::HashMap, owner::OwnerId, protocol::Side};

/// The holds of owners on the locks of one name.
pub(crate) type OwnedHolds<H> = HashMap<(OwnerId, Side), Weak<H>>;

/// Keeps the registrations.
pub(crate) trait Register<H>: fmt::Debug + Send + Sync {
    fn holds(&self) -> MutexGuard<'_, OwnedHolds<H>>;
}

/// One entry of a [`Register`]. The hold owns it, so the entry ends with the hold.
///
/// Generic over the hold, so that this file does not use `hold/mod.rs`: files form no circle.
#[derive(Debug)]
pub(crate) struct Registration<H> {
    register: Arc<dyn Register<H>>,
    key: (OwnerId, Side),
}

impl<H> Registration<H> {
    pub(crate) fn new(register: Arc<dyn Register<H>>, owner: OwnerId, side: Side) -> Self {
        Self { register, key: (owner, side) }
    }

    /// From now on the owner finds this hold.
    pub(crate) fn enter(&self, hold: &Arc<H>) {
        self.register.holds().insert(self.key, Arc::downgrade(hold));
    }

    /// From now on the owner finds no hold.
    pub(crate) fn remove(&self) {
        self.register.holds().remove(&self.key);
    }
}

impl<H> Drop for Registration<H> {
    fn drop(&mut self) {
        let mut holds = self.register.holds();
        // A newer hold of the owner stays.
        if holds.get(&self.key).is_some_and(|hold| hold.strong_count() == 0) {
            holds.remove(&self.key);
        }
    }
}
