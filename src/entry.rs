//! What all handles to one lock share within a client.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, Weak,
        atomic::{AtomicUsize, Ordering},
    },
};

use dashmap::DashMap;

use crate::{
    engine::Engine,
    error::Error,
    hold::Hold,
    owner::OwnerKey,
    protocol::{Protocol, Reentrant},
    queue::Queue,
    wire::{Invocation, Reply},
};

/// One lock of one client.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) engine: Arc<Engine>,
    pub(crate) protocol: Box<dyn Protocol>,
    /// Who in this process waits for the lock.
    pub(crate) queue: Queue,
    /// How many holds on it this client has.
    pub(crate) held: AtomicUsize,
    owned: Mutex<HashMap<OwnerKey, Weak<Hold>>>,
    entries: Arc<Entries>,
}

impl Entry {
    /// The lock's key, for people to read.
    pub(crate) fn name(&self) -> &str {
        std::str::from_utf8(self.protocol.key()).expect("made of a str")
    }

    /// The hold this owner has on the lock.
    pub(crate) fn hold_of(&self, owner: OwnerKey) -> Option<Arc<Hold>> {
        self.owned().get(&owner)?.upgrade()
    }

    pub(crate) fn remember(&self, owner: OwnerKey, hold: &Arc<Hold>) {
        self.owned().insert(owner, Arc::downgrade(hold));
    }

    /// Forgets the owner's hold, unless it is a newer one by now.
    pub(crate) fn forget(&self, owner: OwnerKey) {
        let mut owned = self.owned();
        if owned.get(&owner).is_some_and(|hold| hold.strong_count() == 0) {
            owned.remove(&owner);
        }
    }

    /// Asks once, for questions that may be asked again by whoever wants to know.
    pub(crate) async fn ask(&self, call: Invocation) -> Result<Reply, Error> {
        self.engine.check_open()?;
        self.engine.transport.call(call).await.map_err(|error| error.into_error(self.name()))
    }

    fn owned(&self) -> MutexGuard<'_, HashMap<OwnerKey, Weak<Hold>>> {
        self.owned.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(crate) fn holds_here(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        // A newer entry of that name may stand there by now.
        self.entries.by_name.remove_if(self.name(), |_, entry| entry.strong_count() == 0);
    }
}

/// The locks of one client that are in use.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    by_name: DashMap<String, Weak<Entry>>,
}

impl Entries {
    /// The one entry of that name: all who ask share its queue.
    pub(crate) fn reentrant(
        self: &Arc<Self>,
        engine: &Arc<Engine>,
        name: &str,
    ) -> Result<Arc<Entry>, Error> {
        if name.is_empty() {
            return Err(Error::Invalid("a lock needs a name".into()));
        }
        let key = format!("{}{name}", engine.settings.prefix);
        let mut place = self.by_name.entry(key).or_default();
        if let Some(entry) = place.upgrade() {
            return Ok(entry);
        }
        let entry = Arc::new(Entry {
            engine: engine.clone(),
            protocol: Box::new(Reentrant::new(place.key())),
            queue: Queue::default(),
            held: AtomicUsize::new(0),
            owned: Mutex::default(),
            entries: self.clone(),
        });
        *place = Arc::downgrade(&entry);
        Ok(entry)
    }
}
