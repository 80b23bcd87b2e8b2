//! A write hold that local readers share becomes a read hold, so that the readers of other processes
//! come in too.

use std::sync::{Arc, atomic::Ordering};

use tokio::time::{Instant, sleep};

use super::{Grant, Hold, cleanup::sweep, target::Target};
use crate::{
    engine::Backoff,
    options::Replicas,
    owner::HoldId,
    protocol::{self, ScriptArgs},
    sometimes::sometimes,
};

impl Hold {
    /// Makes a read hold of it, on the read side of the same lock. Returns the read hold, which is its
    /// successor, and how many others wait. `None`: nothing has changed, or it is lost.
    ///
    /// The caller is one of its readers. Run it to its end: the hold is not renewed meanwhile.
    pub(crate) async fn downgrade(self: &Arc<Self>, to: &Arc<Target>) -> Option<(Arc<Self>, u64)> {
        // No other call about the hold may be under way: it would not find it any more.
        let _changing = self.count.try_lock().ok()?;
        if !self.lease.pause() {
            return None;
        }
        let engine = &self.target.engine;
        let (lease, id) = (engine.settings.watchdog, to.protocol.id(&engine.identity));
        let mut backoff = Backoff::persistent();
        let mut unanswered = None;
        while self.lease.loss().is_none() && !engine.is_closed() {
            let (sent, listened) = (Instant::now(), to.listens(&id));
            let not_after = to.not_after(sent);
            let terms = ScriptArgs { lease: lease.as_millis() as u64, not_after };
            let call = to.protocol.downgrade(self.id(), &id, terms)?;
            self.lease.asked(sent, lease);
            let place = engine.serves(&*self.target.protocol);
            let answer = engine.call(call, sent).await.and_then(protocol::downgraded);
            let error = match answer.and_then(|answer| to.in_time(answer)) {
                Ok(Some(listening)) => {
                    let others = to.others(&id, listening, listened);
                    return Some((self.succeeded_by(to, id, sent, place), others));
                }
                Ok(None) => {
                    self.lease.lose(self.lease.why_gone());
                    break;
                }
                Err(error) => error,
            };
            if error.is_unclear() {
                sometimes!("downgrade: no answer");
                unanswered = Some(not_after);
            } else if unanswered.is_none() {
                // It is still the write hold.
                tracing::debug!(lock = to.name(), %error, "a write hold stays one under its readers");
                break;
            }
            // Until the readers know whether they have lost the hold, nothing is undone.
            sleep(backoff.next()).await;
        }
        self.lease.watch(Instant::now());
        engine.watchdog.add(&self.lease);
        if let Some(not_after) = unanswered {
            engine.janitor.spawn(sweep(to.clone(), id, lease, not_after));
        }
        None
    }

    fn succeeded_by(
        self: &Arc<Self>,
        to: &Arc<Target>,
        id: HoldId,
        sent: Instant,
        place: Option<u64>,
    ) -> Arc<Self> {
        let grant = Grant {
            id,
            sent,
            lease: self.target.engine.settings.watchdog,
            token: None,
            replicas: Replicas::None,
            acknowledged: None,
            // Another copy of the request does nothing: this hold is gone.
            unanswered: None,
            under: None,
        };
        let successor = Self::begin(to, grant, None, true);
        successor.begin_reading();
        successor.lease.shares.fetch_add(1, Ordering::Relaxed);
        let _ = self.successor.set(successor.clone());
        self.replaced(place);
        successor.lease.turns.begin();
        // Its readers may have been told of a loss.
        if let Some(why) = self.lease.loss() {
            successor.lease.lose(why);
        }
        self.over();
        successor
    }
}
