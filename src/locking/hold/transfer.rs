//! What a hand-off asks of a hold: whether another caller may have it, and the server call that
//! extends it for that caller.

use std::{sync::atomic::Ordering, time::Duration};

use tokio::time::Instant;

use super::Hold;
use crate::{
    options::Replicas,
    protocol::{self, Extended, Side},
    wire::ServerId,
};

impl Hold {
    /// Whether the released hold may go to another caller. A prolongation that is under way would
    /// extend it beyond the lease that this caller asked for. A caller that listens to questions
    /// releases for the sake of those that ask, who may be in other processes.
    pub(crate) fn may_be_handed_off(&self, now: Instant) -> bool {
        !self.has_guard()
            && self.unanswered.is_none()
            && self.listener.get().is_none()
            && self.prolongations.load(Ordering::Relaxed) == 0
            && self.lease.loss_at(now).is_none()
            // An owner may read under its write.
            && !(self.is_owned() && self.target.kind.side() == Side::Write)
    }

    /// Whether other readers without an owner may join it, as far as it does not change.
    pub(crate) fn is_shareable(&self) -> bool {
        self.target.shares && !self.is_owned() && self.unanswered.is_none()
    }

    /// Whether a reader that asks for such a hold may join this one. A caller that listens to questions
    /// releases for the sake of those that ask.
    pub(crate) fn suits_another(&self, lease: Duration, replicas: Replicas) -> bool {
        self.replicas == replicas && self.listener.get().is_none() && self.lease.suits(lease)
    }

    /// Detaches it from its owner, if it has one. `false`: the owner still uses it.
    pub(crate) fn detach(&self) -> bool {
        let Some(registration) = &self.registration else { return true };
        let Ok(mut count) = self.count.try_lock() else { return false };
        if *count > 1 {
            return false;
        }
        self.set_count(&mut count, 0);
        registration.remove();
        self.mark_over();
        true
    }

    /// Whether a caller without an owner that asked for such a hold may have this one unchanged. If
    /// so, it holds it from now on.
    pub(crate) fn adopt(&self, lease: Duration, watched: bool, replicas: Replicas) -> bool {
        !self.is_owned()
            && self.token.is_none()
            && self.replicas == replicas
            && self.lease.adopt(lease, watched)
    }

    /// The watchdog renews it for one more share from now on. The first renewal is due at `due`.
    pub(crate) fn watch(&self, due: Instant) {
        self.lease.watch(due);
        if due <= Instant::now() {
            // The next check of a hold that was not renewed may come at the end of its lease.
            self.target.engine.watchdog.add(&self.lease);
        }
    }

    /// Asks the server whether the hold is there, and how many other clients wait for it. `None`:
    /// it is not there, or there is no answer.
    pub(crate) async fn extend(&self, watched: bool) -> Option<u64> {
        let engine = &self.target.engine;
        let lease = if watched { engine.settings.watchdog } else { Duration::ZERO };
        let call = self.target.protocol.extend(self.id(), lease.as_millis() as u64);
        let ours = u64::from(self.target.heard(self.id()).is_some());
        let sent = Instant::now();
        if watched {
            self.lease.requested(sent, lease);
        }
        let answer = engine.transport.call(call).await.and_then(protocol::extended);
        match &answer {
            Ok(Extended::Gone) => {
                self.target.say_freed();
                // Other readers may have it.
                if self.target.shares {
                    self.lease.lose(self.lease.why_gone());
                }
            }
            // Those who wait may share it.
            Ok(Extended::Yes(_)) if self.target.shares => self.target.say_freed(),
            answer => self.target.say(answer.as_ref().err()),
        }
        match answer {
            Ok(Extended::Yes(listening)) => {
                self.lease.confirm(sent, lease);
                // If the number is unknown, one is assumed to wait.
                Some(listening.map_or(1, |listening| listening.saturating_sub(ours)))
            }
            Ok(Extended::Gone) | Err(_) => None,
        }
    }

    /// Another hold has replaced it on the server that was asked for that. The caller ends its turn.
    pub(crate) fn replaced(&self, by: Option<ServerId>) {
        let now = Instant::now();
        self.lease.end(now);
        self.target.engine.watchdog.remove(&self.lease);
        self.target.remember_release(by, self.id(), || self.lease.outlived_at(now));
    }
}

#[cfg(test)]
mod tests;
