//! Acquisitions by an owner that already holds the lock, or the other side of a read/write lock: which
//! are re-entries, and which are refused.

use std::sync::Arc;

use tokio::time::Instant;

use crate::{
    engine::Lease,
    error::Error,
    locking::{hold::Hold, registry::LockState, request::Request, share::Share},
    owner::OwnerId,
    protocol::Side,
};

/// Re-enters the lock for an owner that holds it. `None`: the owner does not hold it.
pub(crate) async fn reenter(
    lock: &Arc<LockState>,
    owner: OwnerId,
    request: &Request,
) -> Result<Option<Share>, Error> {
    let Some(hold) = lock.hold_of(owner) else { return Ok(None) };
    let lacks_token = request.needs_token && hold.token().is_none();
    if lacks_token && hold.is_wanted() {
        return Err(Error::Invalid(
            "the owner's hold was taken by a kind of lock that has no tokens".into(),
        ));
    }
    if !lock.kind.is_reentrant() {
        must_not_wait_for(&hold, lock).await?;
        return Ok(None);
    }
    if lacks_token {
        return Ok(None);
    }
    let (home, request) = (lock.home_of(&hold), *request);
    let engine = lock.target.engine.clone();
    let Request { lease, watched, replicas, .. } = request;
    let reenter = async move {
        let begun = Instant::now();
        let retry_until = request.bounds.retry_until(begun, &home.target.engine.settings);
        let sent = hold.reenter(lease, retry_until, replicas).await?;
        Ok(sent.map(|sent| (Share::new(home, hold, false), sent)))
    };
    // Releases of the hold wait for it, and the caller may not be polled.
    let Some((mut share, sent)) = engine.janitor.run(reenter).await? else { return Ok(None) };
    if let Some(why) = share.hold().lease.loss() {
        return Err(Error::NotHeld { why });
    }
    if watched {
        share.watch(sent + lease / 3);
    }
    Ok(Some(share))
}

/// Returns the owner's hold on the other side of a read/write lock. An owner that writes may read.
/// An owner that reads must not wait to write.
pub(crate) async fn beside(lock: &LockState, owner: OwnerId) -> Result<Option<Arc<Lease>>, Error> {
    match lock.kind.side() {
        Side::Whole => Ok(None),
        Side::Read => Ok(lock.hold_on(Side::Write, owner).map(|hold| hold.lease.clone())),
        Side::Write => {
            if let Some(reads) = lock.hold_on(Side::Read, owner) {
                must_not_wait_for(&reads, lock).await?;
            }
            Ok(None)
        }
    }
}

/// Refuses an owner that would wait for a hold of its own. It may wait for a hold that is being
/// released, and need not wait for a lost one. The server is asked, because the loss may not be
/// known here.
async fn must_not_wait_for(hold: &Hold, lock: &LockState) -> Result<(), Error> {
    if !hold.is_wanted() {
        return Ok(());
    }
    match hold.check().await {
        Ok(()) if hold.is_wanted() => Err(Error::WouldDeadlock { key: lock.name().into() }),
        Ok(()) | Err(Error::NotHeld { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}
