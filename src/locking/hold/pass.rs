//! What a hold has to do with being passed on.

use std::time::Duration;

use tokio::time::Instant;

use super::Hold;
use crate::{
    protocol::{self, Extended},
    replicas::Replicas,
};

impl Hold {
    /// Whether another may have it, now that it was given back.
    pub(crate) fn may_pass(&self) -> bool {
        !self.is_wanted() && self.unanswered.is_none() && self.lease.loss().is_none()
    }

    /// Takes it from its owner, if it has one. `false`: the owner is not done with it.
    pub(crate) fn detach(&self) -> bool {
        let Some(owner) = self.owner else { return true };
        let Ok(mut count) = self.count.try_lock() else { return false };
        if *count > 1 {
            return false;
        }
        self.set_count(&mut count, 0);
        self.entry.disown(owner);
        true
    }

    /// Whether one without an owner who asked for such a hold may have this one as it is.
    pub(crate) fn suits(&self, lease: Duration, watched: bool, replicas: Replicas) -> bool {
        self.owner.is_none()
            && self.token.is_none()
            && self.replicas == replicas
            && self.lease.suits(lease, watched)
    }

    /// Asks the server whether the hold is there, and how many elsewhere wait for it. `None`: it
    /// is not, or there is no answer.
    pub(crate) async fn extend(&self, watched: bool) -> Option<u64> {
        let engine = &self.entry.engine;
        let lease = if watched { engine.settings.watchdog } else { Duration::ZERO };
        let call = self.entry.protocol.extend(self.id(), lease.as_millis() as u64);
        let ours = u64::from(self.entry.heard(self.id()).is_some());
        let sent = Instant::now();
        if watched {
            self.lease.asked(sent, lease);
        }
        let answer = engine.transport.call(call).await.and_then(protocol::extended);
        self.entry.say(answer.as_ref().err());
        match answer {
            Ok(Extended::Yes(listening)) => {
                self.lease.confirm(sent, lease);
                // Who cannot be seen may be there.
                Some(listening.map_or(1, |listening| listening.saturating_sub(ours)))
            }
            Ok(Extended::Gone) | Err(_) => None,
        }
    }

    /// Another hold has taken its place on the server that was asked for that. Says whether it was the current one
    /// here.
    pub(crate) fn replaced(&self, by: Option<u64>) -> bool {
        self.lease.end();
        self.entry.engine.watchdog.remove(&self.lease);
        self.entry.released(by, self.id(), || self.lease.outlived_at(Instant::now()));
        self.entry.queue.released(self, None, None)
    }
}
