//! [`Acquisition`]: an acquisition that is observed, from its first poll to its end.

use std::{
    fmt,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use tokio::time::Instant;
use tracing::{Span, debug_span, field};

use crate::{
    error::Error,
    logging::quietly,
    names,
    observer::{AcquireEnded, LockKind, Observed, Outcome, WaitBegun},
};

/// If it is dropped before its end, it was cancelled.
pub(crate) struct Acquisition {
    observed: Option<Observed>,
    key: Bytes,
    kind: LockKind,
    span: Span,
    begun: Instant,
    waited: AtomicBool,
    /// How it is granted, if not by the server.
    granted: OnceLock<Outcome>,
    ended: bool,
}

impl fmt::Debug for Acquisition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Acquisition")
    }
}

impl Acquisition {
    pub(crate) fn begin(observed: Option<Observed>, key: &Bytes, kind: LockKind) -> Self {
        let lock = names::text(key);
        let (holder, outcome) = (field::Empty, field::Empty);
        Self {
            span: debug_span!(target: "redisson_lock", "acquire", lock, kind = kind.as_str(), holder, outcome),
            observed,
            key: key.clone(),
            kind,
            begun: Instant::now(),
            waited: AtomicBool::new(false),
            granted: OnceLock::new(),
            ended: false,
        }
    }

    pub(crate) fn span(&self) -> &Span {
        &self.span
    }

    /// It begins to wait for others.
    pub(crate) fn waits(&self) {
        if let Some(observed) = &self.observed
            && !self.waited.swap(true, Ordering::Relaxed)
        {
            let (lock, kind) = (names::text(&self.key), self.kind);
            observed.tell(|observer| observer.wait_begun(&WaitBegun { lock, kind }));
        }
    }

    /// It is granted, but not by the server.
    pub(crate) fn granted(&self, how: Outcome) {
        let _ = self.granted.set(how);
    }

    /// The acquisition has ended. `Ok`: with the id of the hold, if it was granted. Returns whether a
    /// hold begins.
    pub(crate) fn end(mut self, result: Result<Option<&str>, &Error>) -> bool {
        let granted = self.granted.take().unwrap_or(Outcome::Granted);
        let (outcome, holder, error) = match result {
            Ok(Some(holder)) => (granted, Some(holder), None),
            Ok(None) => (Outcome::Busy, None, None),
            Err(error) => (Outcome::Failed, None, Some(error)),
        };
        self.tell(outcome, holder, error);
        matches!(outcome, Outcome::Granted | Outcome::HandedOff | Outcome::Joined)
    }

    fn tell(&mut self, outcome: Outcome, holder: Option<&str>, error: Option<&Error>) {
        self.ended = true;
        quietly(|| {
            self.span.record("outcome", outcome.as_str());
            if let Some(holder) = holder {
                self.span.record("holder", holder);
            }
        });
        if let Some(observed) = &self.observed {
            let (lock, kind) = (names::text(&self.key), self.kind);
            let (waited, duration) = (*self.waited.get_mut(), self.begun.elapsed());
            let ended = AcquireEnded { lock, kind, outcome, holder, error, waited, duration };
            observed.tell(|observer| observer.acquire_ended(&ended));
        }
    }
}

impl Drop for Acquisition {
    fn drop(&mut self) {
        if !self.ended {
            self.tell(Outcome::Cancelled, None, None);
        }
    }
}
