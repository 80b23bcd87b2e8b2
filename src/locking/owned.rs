//! What an owner holds already, when it asks for a lock.

use std::sync::Arc;

use tokio::time::Instant;

use crate::{
    engine::Lease,
    error::Error,
    locking::{hold::Hold, registry::LockState, request::Request, share::Share},
    owner::OwnerId,
    protocol::Side,
};

/// Takes the lock once more for an owner that holds it. `None`: it does not.
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
    // Run to its end: then the share gives back what was raised.
    let reenter = async move {
        let begun = Instant::now();
        let retry_until = request.bounds.retry_until(begun, &home.target.engine.settings);
        let Request { lease, watched, replicas, .. } = request;
        let hold = hold.reenter(lease, watched, retry_until, replicas).await?;
        Ok(hold.map(|hold| Share::new(home, hold, watched)))
    };
    engine.janitor.finish(reenter).await
}

/// What the owner holds of the other side of a read/write lock: under a write it may read, over a
/// read it must not wait to write.
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

/// Refuses an owner that would wait for a hold of its own. It may wait for one that is being given
/// back, and need not wait for one that is lost: the server is asked, for nobody may have noticed.
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
