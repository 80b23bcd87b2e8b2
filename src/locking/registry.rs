//! What all handles to one lock share within a client.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, Weak,
        atomic::{AtomicUsize, Ordering},
    },
};

use dashmap::DashMap;

use tokio::time::Instant;

use crate::{
    engine::{Engine, Released},
    error::Error,
    locking::hold::Hold,
    locking::line::Queue,
    names,
    owner::{OwnerId, OwnerKey},
    protocol::{Kind, Protocol, Side},
    replicas::Replicas,
    wire::{Invocation, Reply, WireError},
};

/// One lock of one client.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) engine: Arc<Engine>,
    pub(crate) kind: Kind,
    pub(crate) protocol: Arc<dyn Protocol>,
    /// Who in this process waits for the lock.
    pub(crate) queue: Queue,
    /// Whether holds are passed on from one caller here to the next.
    pub(crate) passes_on: bool,
    /// How many holds on it this client has.
    pub(crate) held: Arc<AtomicUsize>,
    owned: Arc<Owned>,
}

impl Entry {
    /// Server time in ms past which a request sent at this moment must have no effect.
    pub(crate) fn not_after(&self, sent: Instant) -> u64 {
        self.engine.not_after(self.protocol.key(), sent)
    }

    /// The lock's server has just told its time.
    pub(crate) fn observe(&self, now: u64) {
        self.engine.transport.observe(self.protocol.key(), now);
    }

    /// Tells those who wait here that the server has answered, or how it failed to.
    pub(crate) fn say(&self, failure: Option<&WireError>) {
        if !self.queue.is_empty() {
            self.queue.answers.say(failure, self.name(), Replicas::None);
        }
    }

    /// Tells those who wait here that a hold was given back to the server.
    pub(crate) fn say_freed(&self) {
        if !self.queue.is_empty() {
            self.queue.answers.freed();
        }
    }

    /// The lock's key, for people to read.
    pub(crate) fn name(&self) -> &str {
        &self.owned.name
    }

    /// What a caller is told of an error it met with this lock.
    pub(crate) fn told(&self, doing: &'static str) -> impl Fn(Error) -> Error {
        move |error| error.about(doing, Some(self.name()), &self.engine.settings.server)
    }

    /// The hold this owner has on the lock.
    pub(crate) fn hold_of(&self, owner: OwnerKey) -> Option<Arc<Hold>> {
        self.hold_on(self.kind.side(), owner)
    }

    /// The hold this owner has on a side of the lock of this name.
    pub(crate) fn hold_on(&self, side: Side, owner: OwnerKey) -> Option<Arc<Hold>> {
        self.owned.holds().get(&(owner, side))?.upgrade()
    }

    pub(crate) fn remember(&self, owner: OwnerKey, hold: &Arc<Hold>) {
        self.owned.holds().insert((owner, self.kind.side()), Arc::downgrade(hold));
    }

    /// The owner's hold is not its own any more.
    pub(crate) fn disown(&self, owner: OwnerKey) {
        self.owned.holds().remove(&(owner, self.kind.side()));
    }

    /// Forgets the owner's hold, unless it is a newer one by now.
    pub(crate) fn forget(&self, owner: OwnerKey) {
        let place = (owner, self.kind.side());
        let mut holds = self.owned.holds();
        if holds.get(&place).is_some_and(|hold| hold.strong_count() == 0) {
            holds.remove(&place);
        }
    }

    /// Asks once, for questions that may be asked again by whoever wants to know.
    pub(crate) async fn ask(&self, call: Invocation) -> Result<Reply, Error> {
        self.engine.check_open()?;
        self.engine.transport.call(call).await.map_err(|error| error.into_error(self.name()))
    }

    /// The same, for an answer until this moment.
    pub(crate) async fn ask_by(&self, call: Invocation, by: Instant) -> Result<Reply, Error> {
        self.engine.check_open()?;
        let answer = self.engine.transport.call_by(call, by).await;
        answer.map_err(|error| error.into_error(self.name()))
    }

    /// How many messages came on the channel of holder `id`, if it is listened to.
    pub(crate) fn heard(&self, id: &OwnerId) -> Option<u64> {
        self.engine.wakeups.heard(&self.protocol.channel(id)?)
    }

    /// See [`Engine::released`].
    pub(crate) fn released(
        &self,
        place: Option<u64>,
        id: &OwnerId,
        ends: impl FnOnce() -> Instant,
    ) {
        self.engine.released(place, || Released {
            protocol: self.protocol.clone(),
            id: id.clone(),
            held: self.held.clone(),
            ends: ends(),
        });
    }

    pub(crate) fn holds_here(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        // A newer entry may stand there by now.
        let entries = &self.owned.entries.by_kind;
        entries
            .remove_if(&(self.kind, self.name().to_owned()), |_, entry| entry.strong_count() == 0);
    }
}

/// What the owners of one client hold under one name, by whatever kind of lock.
#[derive(Debug)]
struct Owned {
    name: String,
    holds: Mutex<HashMap<(OwnerKey, Side), Weak<Hold>>>,
    entries: Arc<Entries>,
}

impl Owned {
    fn holds(&self) -> MutexGuard<'_, HashMap<(OwnerKey, Side), Weak<Hold>>> {
        self.holds.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        self.entries.owned.remove_if(&self.name, |_, owned| owned.strong_count() == 0);
    }
}

/// The locks of one client that are in use.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    by_kind: DashMap<(Kind, String), Weak<Entry>>,
    owned: DashMap<String, Weak<Owned>>,
}

impl Entries {
    /// The one entry of that kind and name: all who ask share its queue.
    pub(crate) fn get(
        self: &Arc<Self>,
        engine: &Arc<Engine>,
        kind: Kind,
        name: &str,
    ) -> Result<Arc<Entry>, Error> {
        if name.is_empty() {
            return Err(Error::Invalid("a lock needs a name".into()));
        }
        let name = format!("{}{name}", engine.settings.prefix);
        if engine.transport.is_cluster() {
            let slot = |key: &str| engine.transport.slot(key.as_bytes());
            // Of a name with a `}` before its `{` Redisson takes the slot wrongly, and hears nothing.
            if slot(&name) != slot(&names::unlock_channel(&name)) || names::is_misread(&name) {
                return Err(Error::Invalid(format!(
                    "the keys of a lock named {name:?} do not share a slot of the cluster"
                )));
            }
        }
        let mut place = self.by_kind.entry((kind, name)).or_default();
        if let Some(entry) = place.upgrade() {
            return Ok(entry);
        }
        let name = &place.key().1;
        let protocol: Arc<dyn Protocol> = kind.on(name, &engine.settings).into();
        let entry = Arc::new(Entry {
            engine: engine.clone(),
            kind,
            queue: Queue::default(),
            passes_on: engine.settings.pass_on && protocol.passing().is_some(),
            protocol,
            held: Arc::default(),
            owned: self.owned(name),
        });
        *place = Arc::downgrade(&entry);
        Ok(entry)
    }

    fn owned(self: &Arc<Self>, name: &str) -> Arc<Owned> {
        let mut place = self.owned.entry(name.to_owned()).or_default();
        if let Some(owned) = place.upgrade() {
            return owned;
        }
        let owned = Arc::new(Owned {
            name: name.to_owned(),
            holds: Mutex::default(),
            entries: self.clone(),
        });
        *place = Arc::downgrade(&owned);
        owned
    }
}
