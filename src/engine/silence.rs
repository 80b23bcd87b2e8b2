//! Whether a server has lately left those without an answer who ask several at a time.

use std::{
    sync::{Mutex, MutexGuard},
    time::Duration,
};

use tokio::time::Instant;

/// How long a silent server is left alone.
const PAUSE: Duration = Duration::from_millis(500);

/// Keeps those who need only a majority of servers from piling up requests at one that hangs.
#[derive(Debug, Default)]
pub(crate) struct Silence {
    until: Mutex<Option<Instant>>,
}

impl Silence {
    fn until(&self) -> MutexGuard<'_, Option<Instant>> {
        self.until.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Whether it is too early to ask again.
    pub(crate) fn lasts(&self) -> bool {
        self.until().is_some_and(|until| Instant::now() < until)
    }

    /// It has left somebody without an answer.
    pub(crate) fn begin(&self) {
        *self.until() = Some(Instant::now() + PAUSE);
    }

    /// It has answered.
    pub(crate) fn end(&self) {
        *self.until() = None;
    }
}
