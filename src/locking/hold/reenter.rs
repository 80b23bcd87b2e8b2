//! Re-entry of a hold, which raises its hold count, and a longer lease for a hold.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::{sync::MutexGuard, time::Instant};

use super::Hold;
use crate::{
    broken::broken,
    error::Error,
    locking::copies::Copies,
    options::Replicas,
    protocol::{self, Reentry, ScriptArgs},
    sometimes::sometimes,
};

impl Hold {
    /// Re-enters the lock for the owner that holds it. Returns when the granted request was sent.
    /// `None`: the hold has ended meanwhile, or its last guard was dropped.
    ///
    /// Run it to its end: the count stays locked until then, and a share has to release what was
    /// raised.
    pub(crate) async fn reenter(
        &self,
        lease_time: Duration,
        retry_until: Instant,
        replicas: Replicas,
    ) -> Result<Option<Instant>, Error> {
        let (mut count, copies) = self.counting_until(retry_until).await?;
        if *count == 0 || !self.has_guard() {
            return Ok(None);
        }
        let to = count.checked_add(1).ok_or_else(|| Error::Invalid("held too often".into()))?;
        let raised = match self.lease.loss() {
            None if broken("no-counts") => return Ok(Some(Instant::now())),
            Some(why) => Err(Error::NotHeld { why }),
            None => self.raise(to, lease_time, copies, replicas).await,
        };
        let sent = match raised {
            // Its owner released it, although it was lost.
            Err(Error::NotHeld { .. }) if !self.has_guard() => {
                sometimes!("re-entry: its owner had released it");
                return Ok(None);
            }
            raised => raised?,
        };
        self.set_count(&mut count, to);
        Ok(Some(sent))
    }

    /// Extends the hold to last this long from now, if it does not last longer already. Until the
    /// future ends, or is dropped, the hold goes to no other caller. Run it to its end: the count
    /// stays locked until then.
    pub(crate) fn prolong(
        self: Arc<Self>,
        lease: Duration,
        retry_until: Instant,
    ) -> impl Future<Output = Result<(), Error>> + Send {
        let prolonging = Prolonging::begin(self);
        async move {
            let hold = &prolonging.0;
            let (count, copies) = hold.counting_until(retry_until).await?;
            // It was released meanwhile, so no one wants it.
            if *count == 0 {
                return Ok(());
            }
            hold.raise(*count, lease, copies, Replicas::None).await.map(drop)
        }
    }

    /// Waits for the count. Returns the copies of the change that comes next.
    async fn counting_until(
        &self,
        retry_until: Instant,
    ) -> Result<(MutexGuard<'_, u32>, Copies), Error> {
        self.counting(Copies::new(Instant::now(), retry_until)).await.ok_or_else(Error::timed_out)
    }

    /// Raises the count. Returns when the granted request was sent.
    async fn raise(
        &self,
        to: u32,
        lease: Duration,
        mut copies: Copies,
        replicas: Replicas,
    ) -> Result<Instant, Error> {
        let engine = &self.target.engine;
        loop {
            if engine.is_closed() {
                return Err(Error::Closed);
            }
            let sent = copies.sent();
            self.lease.requested(sent, lease);
            let args = ScriptArgs {
                lease: lease.as_millis() as u64,
                not_after: self.target.not_after(sent),
            };
            let call = self.target.protocol.reenter(self.id(), args, to);
            let mut acknowledged = None;
            let needs_confirmation = Reentry::needs_confirmation;
            let copy = engine.call_confirmed(call, sent, replicas, needs_confirmation);
            let answer = copies.send(copy).await.and_then(|reply| {
                let (reply, by) = reply.split();
                acknowledged = by;
                protocol::reentered(reply)
            });
            let error = match answer.and_then(|answer| self.target.in_time(answer)) {
                Ok(Reentry::Granted) => {
                    self.lease.confirm(sent, lease);
                    if let Some(acknowledged) = acknowledged.filter(|by| !by.is_enough()) {
                        return Err(acknowledged.into());
                    }
                    // Its holder may have been told of a loss meanwhile.
                    return match self.lease.loss() {
                        Some(why) => Err(Error::NotHeld { why }),
                        None => Ok(sent),
                    };
                }
                Ok(Reentry::Gone) => {
                    let why = self.lease.why_gone();
                    self.lease.lose(why);
                    return Err(Error::NotHeld { why });
                }
                Err(error) => error,
            };
            copies
                .again(error, engine)
                .await
                .map_err(|error| error.into_error(self.target.name()))?;
        }
    }
}

/// A prolongation under way, or about to begin.
struct Prolonging(Arc<Hold>);

impl Prolonging {
    fn begin(hold: Arc<Hold>) -> Self {
        hold.prolongations.fetch_add(1, Ordering::Relaxed);
        Self(hold)
    }
}

impl Drop for Prolonging {
    fn drop(&mut self) {
        self.0.prolongations.fetch_sub(1, Ordering::Relaxed);
    }
}
