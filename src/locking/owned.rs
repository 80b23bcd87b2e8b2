//! Acquisitions by an owner that already holds the lock, or the other side of a read/write lock: which
//! are re-entries, and which are refused.
//!
//! A hold that no guard is left of is being released. Its owner waits for the release, and then
//! acquires as a newcomer: a re-entry would overtake the callers in line.

use std::sync::Arc;

use tokio::time::Instant;

use crate::{
    engine::Lease,
    error::Error,
    locking::{hold::Hold, registry::LockState, request::Request, share::Share},
    owner::OwnerId,
    protocol::Side,
    sometimes::sometimes,
};

/// How an owner acquires the lock.
pub(crate) enum Way {
    Reentered(Share),
    /// As a newcomer.
    Anew {
        /// The owner's write hold, under which it wants to read.
        under: Option<Arc<Lease>>,
        /// When the call began, if it has waited for the server since.
        late: Option<Instant>,
    },
}

/// Re-enters the lock for an owner that holds it, and waits for the holds that it has dropped.
pub(crate) async fn begin(
    lock: &Arc<LockState>,
    owner: OwnerId,
    request: &Request,
) -> Result<Way, Error> {
    let mut own = Own { lock, owner, request, begun: Instant::now(), is_late: false };
    if let Some(share) = own.reenter().await? {
        return Ok(Way::Reentered(share));
    }
    let under = own.other_side().await?;
    Ok(Way::Anew { under, late: own.is_late.then_some(own.begun) })
}

/// An acquisition by an owner.
struct Own<'a> {
    lock: &'a Arc<LockState>,
    owner: OwnerId,
    request: &'a Request,
    begun: Instant,
    /// Whether it has waited for the server: for the release of a hold of its own, or for an answer
    /// about it.
    is_late: bool,
}

impl Own<'_> {
    /// `None`: the owner does not hold the lock, or no longer.
    async fn reenter(&mut self) -> Result<Option<Share>, Error> {
        let Some(hold) = self.lock.hold_of(self.owner) else { return Ok(None) };
        if !hold.has_guard() {
            self.wait_for_release(hold).await?;
            return Ok(None);
        }
        if self.request.needs_token && hold.token().is_none() {
            return Err(Error::Invalid(
                "the owner's hold was taken by a kind of lock that has no tokens".into(),
            ));
        }
        if !self.lock.target.kind.is_reentrant() {
            self.must_not_wait_for(hold).await?;
            return Ok(None);
        }
        let (home, again) = (self.lock.home_of(&hold), hold.clone());
        let engine = self.lock.target.engine.clone();
        let Request { lease, watched, replicas, bounds, .. } = *self.request;
        let reenter = async move {
            let begun = Instant::now();
            let retry_until = bounds.retry_until(begun, &home.target.engine.settings);
            let sent = again.reenter(lease, retry_until, replicas).await?;
            Ok(sent.map(|sent| (Share::new(home, again, false), sent)))
        };
        // Releases of the hold wait for it, and the caller may not be polled.
        let Some((mut share, sent)) = engine.janitor.run_apart(reenter).await? else {
            self.wait_for_release(hold).await?;
            return Ok(None);
        };
        share.hold().lease.check_trusted()?;
        if watched {
            share.watch(sent + share.hold().lease.period());
        }
        Ok(Some(share))
    }

    /// Returns the owner's hold on the other side of a read/write lock. An owner that writes may
    /// read. An owner that reads must not wait to write.
    async fn other_side(&mut self) -> Result<Option<Arc<Lease>>, Error> {
        match self.lock.target.kind.side() {
            Side::Whole | Side::Token => {}
            Side::Read => match self.lock.hold_on(Side::Write, self.owner) {
                Some(write) if write.has_guard() => return Ok(Some(write.lease.clone())),
                Some(write) => self.wait_for_release(write).await?,
                None => {}
            },
            Side::Write => {
                if let Some(reads) = self.lock.hold_on(Side::Read, self.owner) {
                    self.must_not_wait_for(reads).await?;
                }
            }
        }
        Ok(None)
    }

    /// Refuses an owner that would wait for a hold of its own. It waits for a hold that is being
    /// released, and need not wait for a lost one. The server is asked, because the loss may not be
    /// known here.
    async fn must_not_wait_for(&mut self, hold: Arc<Hold>) -> Result<(), Error> {
        if hold.has_guard() {
            self.is_late = true;
            match hold.check_by(self.checks_until()).await {
                Ok(()) if hold.has_guard() => {
                    return Err(Error::WouldDeadlock { key: self.lock.name().into() });
                }
                Err(Error::NotHeld { .. }) if hold.has_guard() => return Ok(()),
                Ok(()) | Err(Error::NotHeld { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        self.wait_for_release(hold).await
    }

    /// By when the server has to answer about a hold of the owner.
    fn checks_until(&self) -> Instant {
        let settings = &self.lock.target.engine.settings;
        let bounds = self.request.bounds;
        // The first request of a call has the command timeout, also when that is longer.
        let first = self.begun + settings.command_timeout;
        let end = bounds.ends_by(self.begun, settings);
        end.unwrap_or_else(|| bounds.retry_until(self.begun, settings).max(first))
    }

    /// Waits until a hold that no guard is left of is released, or goes to another caller, for as
    /// long as the server may take to answer a request of this acquisition. A wait that is shorter
    /// is for holds of others.
    async fn wait_for_release(&mut self, hold: Arc<Hold>) -> Result<(), Error> {
        sometimes!("owner: waits for the release of its own hold");
        self.is_late = true;
        let bounds = self.request.bounds;
        let engine = &self.lock.target.engine;
        let mut until = bounds.retry_until(self.begun, &engine.settings);
        if bounds.deadline().is_some() {
            until = until.max(self.begun + engine.settings.command_timeout);
        }
        let over = async move { hold.until_over(until).await };
        match engine.janitor.run_apart(over).await? {
            true => Ok(()),
            // The time of the caller is over. A last request finds out who has the lock.
            false if bounds.has_retry_deadline() => Ok(()),
            false => Err(Error::timed_out()),
        }
    }
}
