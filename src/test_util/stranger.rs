//! [`Stranger`]: a holder that is none of the test's clients.

use std::{fmt, sync::Arc};

use super::host::Host;

/// A holder that is none of the test's clients, such as a Java service. [`TestServer::hold`] and its
/// like make it.
///
/// It holds the lock until this value is dropped, and renews it as Redisson does: every 10 s, for 30 s.
/// Dropping it releases the lock and wakes a waiter. Faults of the server do not concern it, but its hold
/// can be [taken away](super::TestServer::take_away).
///
/// [`TestServer::hold`]: super::TestServer::hold
#[must_use = "the stranger releases the lock as soon as this is dropped: keep it, `let stranger = …`"]
pub struct Stranger {
    host: Arc<Host>,
    number: u64,
    id: String,
}

impl Stranger {
    pub(super) fn new(host: Arc<Host>, number: u64, id: String) -> Self {
        Self { host, number, id }
    }

    /// Returns the holder id, `<client uuid>:<number>`.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Ends the process of the stranger without a release. The lock stays held until its lease ends:
    /// for 20 s to 30 s.
    pub fn crash(self) {
        self.host.with(|state| state.forget(self.number));
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.host.with(|state| state.release(self.number));
    }
}

impl fmt::Debug for Stranger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stranger").field("id", &self.id).finish_non_exhaustive()
    }
}
