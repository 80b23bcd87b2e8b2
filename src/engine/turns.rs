//! [`Turns`]: who observes a hold, and its `tracing` span.
//!
//! A turn is the time for which one caller has the hold. It begins and ends exactly once. A hold that
//! is handed off locally has several turns.

use std::{
    fmt,
    sync::{
        Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use tokio::time::Instant;
use tracing::{Span, debug_span, field};

use crate::{
    error::{Error, Loss},
    logging::quietly,
    names,
    observer::{
        HoldBegun, HoldEnd, HoldEnded, LockKind, Observed, Observer, ReleaseFailed, Renewal,
    },
    owner::HoldId,
};

/// The turns of one hold. As long as none of its turns is observed, nothing is kept.
#[derive(Debug, Default)]
pub(crate) struct Turns(OnceLock<Box<Seen>>);

struct Seen {
    /// The observer of the client, once one turn is told to it.
    observed: OnceLock<Observed>,
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
    observed: Option<Observed>,
}

impl fmt::Debug for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seen")
    }
}

impl Turns {
    pub(crate) fn are_seen(&self) -> bool {
        self.0.get().is_some()
    }

    /// A caller whose acquisition is observed has the hold from now on. Returns the number of its turn,
    /// which is not 0. If the hold was lost before, the turn has to be ended.
    pub(crate) fn begin(
        &self,
        observed: Option<Observed>,
        key: &Bytes,
        kind: LockKind,
        id: &HoldId,
    ) -> u64 {
        let seen = self.0.get_or_init(|| {
            let (key, id) = (key.clone(), id.clone());
            let (observed, current, begun) = Default::default();
            Box::new(Seen { observed, key, kind, id, current, begun })
        });
        let (lock, kind, holder) = seen.names();
        let span = debug_span!(target: "redisson_lock", "hold", lock, kind = kind.as_str(), holder, end = field::Empty);
        let begun = Instant::now();
        // Told before there is a turn to be ended, so that no end is told first.
        if let Some(observed) = &observed {
            observed.tell(|observer| observer.hold_begun(&HoldBegun { lock, kind, holder }));
            seen.observed.get_or_init(|| observed.clone());
        }
        let number = seen.begun.fetch_add(1, Ordering::Relaxed) + 1;
        seen.current().push(Turn { number, begun, span, observed });
        number
    }

    /// One reader of several has left the hold, with this result for its caller.
    pub(crate) fn end_one(&self, number: u64, left: Result<(), &Error>) {
        let Some(seen) = self.0.get() else { return };
        let ended = {
            let mut turns = seen.current();
            let at = turns.iter().position(|turn| turn.number == number);
            at.map(|at| turns.swap_remove(at))
        };
        let end = end_of(left);
        if let (Err(error), HoldEnd::ReleaseGivenUp, Some(_)) = (left, end, &ended) {
            seen.release_failed(error, true);
        }
        seen.ended(ended, end);
    }

    /// The turns that have not ended before end.
    pub(crate) fn end(&self, end: HoldEnd) {
        if let Some(seen) = self.0.get() {
            seen.end(end);
        }
    }

    /// The last share was released, with this result for its caller. After an error of Redis the
    /// release goes on, and with it the turn.
    pub(crate) fn released(&self, result: Result<(), &Error>) {
        let Some(seen) = self.0.get() else { return };
        match (result, end_of(result)) {
            (Err(error @ Error::Redis(_)), _) => seen.release_failed(error, false),
            (Err(error), HoldEnd::ReleaseGivenUp) => self.release_given_up(error),
            (_, end) => seen.end(end),
        }
    }

    /// The release is given up.
    pub(crate) fn release_given_up(&self, error: &Error) {
        if let Some(seen) = self.0.get() {
            seen.release_failed(error, true);
            seen.end(HoldEnd::ReleaseGivenUp);
        }
    }

    /// The hold is lost. `log` says so in the log: within the span of the turn.
    pub(crate) fn lost(&self, why: Loss, log: impl FnOnce()) {
        let Some(seen) = self.0.get() else { return log() };
        let span = seen.current().first().map_or_else(Span::none, |turn| turn.span.clone());
        quietly(move || span.in_scope(log));
        seen.end(HoldEnd::Lost(why));
    }

    /// The server has confirmed a renewal, when the hold would have been trusted for so long.
    pub(crate) fn renewed(&self, margin: Option<Duration>) {
        if let (Some(seen), Some(margin)) = (self.0.get(), margin)
            && !seen.current().is_empty()
        {
            let (lock, kind, holder) = seen.names();
            seen.tell(|observer| observer.renewed(&Renewal { lock, kind, holder, margin }));
        }
    }
}

/// How a hold has ended whose caller was told this.
fn end_of(told: Result<(), &Error>) -> HoldEnd {
    match told {
        Ok(()) => HoldEnd::Released,
        Err(Error::NotHeld { why }) => HoldEnd::Lost(*why),
        Err(Error::Closed) => HoldEnd::Lost(Loss::Closed),
        Err(_) => HoldEnd::ReleaseGivenUp,
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
        if let Some(observed) = self.observed.get() {
            observed.tell(event);
        }
    }

    fn end(&self, end: HoldEnd) {
        let turns = std::mem::take(&mut *self.current());
        self.ended(turns, end);
    }

    fn ended(&self, turns: impl IntoIterator<Item = Turn>, end: HoldEnd) {
        for Turn { begun, span, observed, .. } in turns {
            quietly(|| {
                span.record("end", end.as_str());
            });
            quietly(|| drop(span));
            let (lock, kind, holder) = self.names();
            let duration = begun.elapsed();
            let ended = HoldEnded { lock, kind, holder, end, duration };
            if let Some(observed) = observed {
                observed.tell(|observer| observer.hold_ended(&ended));
            }
        }
    }

    fn release_failed(&self, error: &Error, given_up: bool) {
        let (lock, kind, holder) = self.names();
        let failure = ReleaseFailed { lock, kind, holder, error, given_up };
        self.tell(|observer| observer.release_failed(&failure));
    }
}
