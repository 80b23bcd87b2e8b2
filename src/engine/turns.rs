//! [`Turns`]: who observes a hold, and its `tracing` span.
//!
//! A turn is the time for which one caller has the hold. It begins and ends exactly once. A hold that
//! is handed off locally has several turns.

use std::{
    fmt,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use tokio::time::Instant;
use tracing::{Span, debug_span, field};

use crate::{
    error::{Error, Loss},
    names,
    observer::{
        HoldBegun, HoldEnd, HoldEnded, LockKind, Observed, Observer, ReleaseFailed, Renewal,
    },
    owner::HoldId,
};

/// The turns of one hold. Of a hold that nobody observes, nothing is kept.
#[derive(Debug, Default)]
pub(crate) struct Turns(Option<Box<Seen>>);

struct Seen {
    observed: Option<Observed>,
    key: Bytes,
    kind: LockKind,
    id: HoldId,
    /// More than one while readers share the hold.
    current: Mutex<Vec<Turn>>,
    begun: AtomicU64,
}

struct Turn {
    number: u64,
    begun: Instant,
    span: Span,
}

impl fmt::Debug for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seen")
    }
}

impl Turns {
    /// Those of a hold whose acquisition is observed.
    pub(crate) fn of(
        observed: Option<&Observed>,
        key: &Bytes,
        kind: LockKind,
        id: &HoldId,
    ) -> Self {
        let (observed, key, id) = (observed.cloned(), key.clone(), id.clone());
        let (current, begun) = Default::default();
        Self(Some(Box::new(Seen { observed, key, kind, id, current, begun })))
    }

    pub(crate) fn are_seen(&self) -> bool {
        self.0.is_some()
    }

    /// A caller has the hold from now on. Returns the number of its turn, or 0 if nobody sees it. If
    /// the hold was lost before, the turn has to be ended.
    pub(crate) fn begin(&self) -> u64 {
        let Some(seen) = &self.0 else { return 0 };
        let (lock, kind, holder) = seen.names();
        let span = debug_span!(target: "redisson_lock", "hold", lock, kind = kind.as_str(), holder, end = field::Empty);
        let begun = Instant::now();
        // Told before there is a turn to be ended, so that no end is told first.
        seen.tell(|observer| observer.hold_begun(&HoldBegun { lock, kind, holder }));
        let number = seen.begun.fetch_add(1, Ordering::Relaxed) + 1;
        seen.current().push(Turn { number, begun, span });
        number
    }

    /// One reader of several has released the hold.
    pub(crate) fn end_one(&self, number: u64) {
        let Some(seen) = &self.0 else { return };
        let ended = {
            let mut turns = seen.current();
            let at = turns.iter().position(|turn| turn.number == number);
            at.map(|at| turns.swap_remove(at))
        };
        seen.ended(ended, HoldEnd::Released);
    }

    /// The turns that have not ended before end.
    pub(crate) fn end(&self, end: HoldEnd) {
        if let Some(seen) = &self.0 {
            seen.end(end);
        }
    }

    /// The last share was released, with this result for its caller. After an error of Redis the
    /// release goes on, and with it the turn.
    pub(crate) fn released(&self, result: Result<(), &Error>) {
        let Some(seen) = &self.0 else { return };
        match result {
            Ok(()) => seen.end(HoldEnd::Released),
            Err(Error::NotHeld { why }) => seen.end(HoldEnd::Lost(*why)),
            Err(Error::Closed) => seen.end(HoldEnd::Lost(Loss::Closed)),
            Err(error @ Error::Redis(_)) => seen.release_failed(error, false),
            Err(error) => self.not_released(error),
        }
    }

    /// The release is given up.
    pub(crate) fn not_released(&self, error: &Error) {
        if let Some(seen) = &self.0 {
            seen.release_failed(error, true);
            seen.end(HoldEnd::NotReleased);
        }
    }

    /// The hold is lost. `log` says so in the log: within the span of the turn.
    pub(crate) fn lost(&self, why: Loss, log: impl FnOnce()) {
        let Some(seen) = &self.0 else { return log() };
        let span = seen.current().first().map_or_else(Span::none, |turn| turn.span.clone());
        span.in_scope(log);
        seen.end(HoldEnd::Lost(why));
    }

    /// The server has confirmed a renewal, when the hold would have been trusted for so long.
    pub(crate) fn renewed(&self, margin: Option<Duration>) {
        if let (Some(seen), Some(margin)) = (&self.0, margin)
            && !seen.current().is_empty()
        {
            let (lock, kind, holder) = seen.names();
            seen.tell(|observer| observer.renewed(&Renewal { lock, kind, holder, margin }));
        }
    }
}

impl Seen {
    fn current(&self) -> MutexGuard<'_, Vec<Turn>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn names(&self) -> (&str, LockKind, &str) {
        (names::text(&self.key), self.kind, self.id.as_str())
    }

    fn tell(&self, event: impl FnOnce(&dyn Observer)) {
        if let Some(observed) = &self.observed {
            observed.tell(event);
        }
    }

    fn end(&self, end: HoldEnd) {
        let turns = std::mem::take(&mut *self.current());
        self.ended(turns, end);
    }

    fn ended(&self, turns: impl IntoIterator<Item = Turn>, end: HoldEnd) {
        for Turn { begun, span, .. } in turns {
            span.record("end", end.as_str());
            let (lock, kind, holder) = self.names();
            let duration = begun.elapsed();
            let ended = HoldEnded { lock, kind, holder, end, duration };
            self.tell(|observer| observer.hold_ended(&ended));
        }
    }

    fn release_failed(&self, error: &Error, given_up: bool) {
        let (lock, kind, holder) = self.names();
        let failure = ReleaseFailed { lock, kind, holder, error, given_up };
        self.tell(|observer| observer.release_failed(&failure));
    }
}
