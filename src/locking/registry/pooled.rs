//! The callers of a read/write lock that share holds.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicUsize, Ordering},
};

use super::{LockState, Pool};
use crate::{
    locking::{baton::Home, hold::target::Target, pool, share::Share},
    observer::LockKind,
    options::Replicas,
    protocol::{Protocol, Side},
};

impl LockState {
    /// The same lock for callers without an owner, whose holds the watchdog renews: they stand in one
    /// line for both sides, hand their holds off, and readers share one. `None`: not of this kind, or
    /// not with these settings.
    pub(crate) fn pooled(&self) -> Option<&Arc<Self>> {
        let make = || {
            let Target { engine, kind, .. } = &*self.target;
            let engine = engine.clone();
            let protocol: Arc<dyn Protocol> = kind.pooled_on(self.name())?.into();
            if !engine.settings.pass_on
                || !engine.settings.share_reads
                || engine.settings.replicas != Replicas::None
            {
                return None;
            }
            let Pool { line, handoff, strangers } = self.owners.pool();
            let target = |protocol, kind| {
                let (line, strangers) = (line.clone(), strangers.clone());
                Arc::new(Target::new(engine.clone(), protocol, kind, line, strangers))
            };
            let own = target(protocol, *kind);
            let reading = match kind.side() {
                Side::Read => own.clone(),
                _ => target(LockKind::Read.pooled_on(self.name())?.into(), LockKind::Read),
            };
            Some(Arc::new(Self {
                target: own,
                handoff: handoff.clone(),
                owners: self.owners.clone(),
                pooled: OnceLock::from(None),
                reading: Some(reading),
            }))
        };
        self.pooled.get_or_init(make).as_ref()
    }

    /// Lets one more reader share the hold that local readers have.
    pub(crate) fn join(self: &Arc<Self>) -> Option<Share> {
        if !self.is_of_readers() {
            return None;
        }
        let home: Arc<dyn Home> = self.clone();
        pool::join(&home)
    }

    /// Whether a reader leaves the lock to local readers that are inside.
    pub(crate) fn is_read(&self) -> bool {
        self.is_of_readers() && self.handoff.is_read()
    }

    /// Whether a local writer has the lock.
    pub(crate) fn is_written(&self) -> bool {
        self.handoff.is_wanted() && !self.handoff.is_read()
    }

    /// Whether its callers are readers that share holds.
    pub(crate) fn is_of_readers(&self) -> bool {
        self.reading.is_some() && self.target.kind.side() == Side::Read
    }

    /// A caller that shares no hold waits, until the value is dropped.
    pub(crate) fn stranger(&self) -> Option<Stranger> {
        let is_shared = self.target.kind.side() != Side::Whole;
        is_shared.then(|| Stranger::new(self.owners.pool().strangers.clone()))
    }
}

/// A caller that waits beside those that share holds.
#[derive(Debug)]
pub(crate) struct Stranger(Arc<AtomicUsize>);

impl Stranger {
    fn new(count: Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
