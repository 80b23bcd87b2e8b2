//! Local readers that share a hold. One of them has it from the server or from another caller; others
//! join it. The last one releases it, or hands it off.
//!
//! A writer never shares a hold. While readers share a write hold, it may become a read hold: its
//! successor. All readers of the write hold together then are one reader of the successor.

use std::sync::{Arc, atomic::Ordering};

use tokio::time::{Instant, timeout_at};

use super::Hold;
use crate::{
    determinism::select,
    error::{Error, Loss},
};

impl Hold {
    /// Its only caller is a reader, and others may join it.
    pub(crate) fn begin_reading(&self) {
        self.readers.store(1, Ordering::Release);
    }

    /// Whether readers share it.
    pub(crate) fn is_read(&self) -> bool {
        self.readers.load(Ordering::Acquire) > 0
    }

    /// One more reader shares it, if others do. Otherwise a writer may have it.
    pub(crate) fn join(&self) -> bool {
        let one_more = |readers| (readers > 0).then_some(readers + 1);
        self.readers.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more).is_ok()
    }

    /// A caller leaves it. Returns whether nobody shares it any more.
    pub(crate) fn leave(&self) -> bool {
        let one_less = |readers: u32| readers.checked_sub(1);
        let before = self.readers.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_less);
        !matches!(before, Ok(2..))
    }

    /// Whether it is fit for one more reader. A reader that listens to questions releases for the
    /// sake of those that ask.
    pub(crate) fn admits_readers(&self, now: Instant) -> bool {
        let watchdog = self.target.engine.settings.watchdog;
        self.listener.get().is_none() && self.lease.suits_a_reader(now, watchdog)
    }

    /// The hold that its readers have now.
    pub(crate) fn latest(self: &Arc<Self>) -> &Arc<Self> {
        self.successor.get().unwrap_or(self)
    }

    pub(crate) fn successor(&self) -> Option<Arc<Self>> {
        self.successor.get().cloned()
    }

    /// Completes when the hold is lost, or the successor that its readers have by then.
    pub(crate) async fn lost(&self) -> Loss {
        select! {
            why = self.lease.lost() => if self.successor.get().is_none() { return why },
            _ = self.open.acquire() => {}
        }
        self.or_successor().lease.lost().await
    }

    pub(super) fn or_successor(&self) -> &Self {
        self.successor.get().map_or(self, |successor| successor)
    }

    /// Asks the server whether the hold is there. It is not replaced meanwhile.
    pub(crate) async fn check_shared(self: &Arc<Self>) -> Result<(), Error> {
        let unchanged = match self.is_read() {
            true => {
                let timeout = self.target.engine.settings.command_timeout;
                let by = Instant::now() + timeout;
                Some(timeout_at(by, self.count.lock()).await.map_err(|_| Error::timed_out())?)
            }
            false => None,
        };
        let checked = self.latest().check().await;
        drop(unchanged);
        checked
    }
}
