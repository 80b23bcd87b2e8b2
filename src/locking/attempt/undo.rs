//! What an [`Attempt`] that is dropped undoes: what it did, and what it may still do.

use std::{sync::Arc, time::Duration};

use futures::future::join;

use super::{Attempt, Source, State};
use crate::{
    error::Error,
    locking::{
        hold::{
            Hold,
            cleanup::{sweep, take_back},
        },
        registry::LockState,
    },
    observer::HoldEnd,
    owner::HoldId,
    protocol::{AcquireReply::Granted, Timely::InTime},
    sometimes::sometimes,
    wire::WireError,
};

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        let state = std::mem::replace(&mut self.state, State::Nothing);
        let unanswered = self.unanswered.take();
        if matches!(state, State::Nothing) && unanswered.is_none() && !self.stands {
            // The hold that it was to replace goes to the next caller.
            return;
        }
        let leftover = Leftover {
            lock: self.lock.clone(),
            id: self.id.clone(),
            lease: self.request.lease,
            stands: self.stands,
            state,
            source: self.source.take(),
            unanswered,
        };
        let janitor = leftover.lock.target.engine.janitor.clone();
        janitor.spawn(leftover.undo());
    }
}

/// What an attempt leaves behind.
struct Leftover {
    lock: Arc<LockState>,
    id: HoldId,
    lease: Duration,
    /// Whether it may have entered the server's line.
    stands: bool,
    state: State,
    source: Source,
    unanswered: Option<u64>,
}

impl Leftover {
    async fn undo(mut self) {
        let (holds, granted) = self.await_copy().await;
        // The source first: no copy can then replace it.
        if granted {
            self.source = self.source.take().replaced();
        }
        let swaps = !matches!(self.source, Source::None);
        let replaced = self.release_source().await;
        let Self { lock, id, lease, unanswered, .. } = self;
        let target = &lock.target;
        // With a copy that has no answer, too: what it took is free sooner than by the sweep alone.
        let is_to_be_undone = holds || self.stands || swaps || unanswered.is_some();
        let undone = async {
            if !is_to_be_undone {
                return;
            }
            let done = take_back(target, &id, lease).await;
            if let Some(hold) = replaced {
                // No caller has what it was swapped for: its turn ends with that.
                let end = if done { HoldEnd::Released } else { HoldEnd::ReleaseGivenUp };
                hold.lease.turns.end(end);
            }
        };
        let swept = async {
            if let Some(not_after) = unanswered {
                sweep(target.clone(), id.clone(), lease, not_after).await;
            }
        };
        join(undone, swept).await;
    }

    /// Waits for the answer to a copy in flight. Returns whether the attempt may hold the lock, and
    /// whether the server has just said so.
    async fn await_copy(&mut self) -> (bool, bool) {
        let copy = match std::mem::replace(&mut self.state, State::Nothing) {
            State::Nothing => return (false, false),
            State::MayHold | State::Granted { .. } => return (true, false),
            State::InFlight(copy) => copy,
        };
        let answer = copy.reply.await.map(|reply| reply.split().0);
        match answer.and_then(|reply| self.lock.target.protocol.acquired(reply)) {
            Ok(InTime(Granted { .. })) => {
                sometimes!("undo: it had been granted");
                (true, true)
            }
            Err(error) if error.is_unclear() => {
                self.unanswered = self.unanswered.max(Some(copy.not_after));
                (false, false)
            }
            Err(error) if error.did_nothing() => {
                self.stands = copy.stood;
                (false, false)
            }
            Err(error) => (matches!(error, WireError::Refused(_)), false),
            Ok(_) => (false, false),
        }
    }

    /// Releases the hold that was to be replaced. Returns it if it was replaced before, or may have been.
    async fn release_source(&mut self) -> Option<Arc<Hold>> {
        match self.source.take() {
            Source::None => None,
            Source::Replaced { hold, .. } => Some(hold),
            Source::Hold { baton, .. } => {
                // A copy without an answer may have replaced it.
                if self.unanswered.is_none() {
                    drop(baton.release().await);
                    return None;
                }
                let hold = baton.hold().clone();
                hold.lease.mark_may_be_replaced();
                let released = baton.release().await;
                matches!(released, Err(Error::NotHeld { .. })).then_some(hold)
            }
        }
    }
}
