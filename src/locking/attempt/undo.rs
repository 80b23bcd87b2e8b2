//! What an [`Attempt`] that is dropped undoes: what it did, and what it may still do.

use std::{sync::Arc, time::Duration};

use super::{Attempt, Source, State};
use crate::{
    locking::{
        hold::cleanup::{sweep, take_back},
        registry::LockState,
    },
    observer::HoldEnd,
    owner::HoldId,
    protocol::{AcquireReply::Granted, Timely::InTime},
    sometimes::sometimes,
    wire::{ServerId, WireError},
};

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        let state = std::mem::replace(&mut self.state, State::Nothing);
        let unanswered = self.unanswered.take();
        if matches!(state, State::Nothing) && unanswered.is_none() && !self.stands {
            // The hold that it was to replace goes to the next caller.
            return;
        }
        let source = (self.source.take(), self.server);
        let (lock, id, lease) = (self.lock.clone(), self.id.clone(), self.request.lease);
        let janitor = lock.target.engine.janitor.clone();
        janitor.spawn(undo(lock, id, lease, self.stands, state, source, unanswered));
    }
}

async fn undo(
    lock: Arc<LockState>,
    id: HoldId,
    lease: Duration,
    mut stands: bool,
    state: State,
    (source, server): (Source, Option<ServerId>),
    mut unanswered: Option<u64>,
) {
    let target = &lock.target;
    // Whether it may hold the lock, and whether the server has said so.
    let (holds, granted) = match state {
        State::Nothing => (false, false),
        // If there still is a source, the script was refused, perhaps in its middle.
        State::Granted { .. } => (true, false),
        State::InFlight(copy) => {
            let answer = copy.reply.await.map(|reply| reply.split().0);
            match answer.and_then(|reply| target.protocol.acquired(reply)) {
                Ok(InTime(Granted { .. })) => {
                    sometimes!("undo: it had been granted");
                    (true, true)
                }
                Err(error) if error.is_unclear() => {
                    unanswered = unanswered.max(Some(copy.not_after));
                    (false, false)
                }
                Err(error) if error.did_nothing() => {
                    stands = copy.stood;
                    (false, false)
                }
                Err(error) => (matches!(error, WireError::Refused(_)), false),
                Ok(_) => (false, false),
            }
        }
    };
    // The source first: no copy can then replace it.
    let source = if granted { source.replaced(server) } else { source };
    let mut replaced = None;
    let swaps = !matches!(source, Source::None);
    match source {
        Source::None => {}
        Source::Replaced { hold, .. } => replaced = Some(hold),
        Source::Hold(source) => {
            // A copy without an answer may have replaced it. That is no loss: its last caller has
            // released it, and was told so.
            if unanswered.is_some() {
                source.hold().lease.turns.end(HoldEnd::Released);
            }
            drop(source.release().await);
        }
    }
    if holds || stands || swaps {
        let done = take_back(target, &id, lease).await;
        if let Some(hold) = replaced {
            // No caller has what it was swapped for: its turn ends with that.
            let end = if done { HoldEnd::Released } else { HoldEnd::ReleaseGivenUp };
            hold.lease.turns.end(end);
        }
    }
    if let Some(not_after) = unanswered {
        sweep(target.clone(), id, lease, not_after).await;
    }
}
