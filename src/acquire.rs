//! Acquisitions as the caller writes them down, before they are awaited.

use std::{pin::Pin, sync::Arc, time::Duration};

use crate::{
    config::whole_ms,
    engine::Lease,
    error::Error,
    guard::{Guard, LockGuard},
    lock::Lock,
    locking::hold::Hold,
    locking::patience::{MOST, Patience},
    locking::registry::Entry,
    locking::share::{Share, Terms},
    locking::wait::{Ask, contend},
    owner::{Owner, OwnerKey},
    protocol::Side,
};

/// Of a shorter lease nothing would be left after the round trip and the drift of clocks.
const LEAST_LEASE: Duration = Duration::from_millis(10);

/// The future of an acquisition.
pub(crate) type Acquiring<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// An acquisition that waits for the lock, begun by awaiting it. See [`Lock::lock`].
#[derive(Debug)]
#[must_use = "nothing is acquired until this is awaited, and what is acquired is released when its guard is dropped: `let guard = ….await?`"]
pub struct Acquire<'a, G = LockGuard> {
    lock: &'a Lock<G>,
    owner: Option<&'a mut Owner>,
    lease: Option<Duration>,
}

impl<'a, G> Acquire<'a, G> {
    pub(crate) fn new(lock: &'a Lock<G>) -> Self {
        Self { lock, owner: None, lease: None }
    }

    /// Acquires for this owner: if it holds the lock, once more.
    pub fn by(mut self, owner: &'a mut Owner) -> Self {
        self.owner = Some(owner);
        self
    }

    /// Holds the lock for so long at most, and never renews it. Without a lease the watchdog
    /// renews the hold while its guard lives. (An owner's hold lasts for the longest its guards asked.)
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }
}

impl<'a, G: Guard> IntoFuture for Acquire<'a, G> {
    type Output = Result<G, Error>;
    type IntoFuture = Acquiring<'a, G>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { lock, owner, lease } = self;
        Box::pin(async move {
            let owner = owner.map(|owner| owner.key());
            let share = take(lock, owner, lease, Patience::Forever).await;
            let share = share.map_err(lock.told("acquiring"))?;
            Ok(G::from_share(share.expect("waits until it is granted")))
        })
    }
}

/// An acquisition that waits for a limited time or not at all, begun by awaiting it. See
/// [`Lock::try_lock`].
#[derive(Debug)]
#[must_use = "nothing is acquired until this is awaited, and what is acquired is released when its guard is dropped: `let guard = ….await?`"]
pub struct TryAcquire<'a, G = LockGuard> {
    lock: &'a Lock<G>,
    owner: Option<&'a mut Owner>,
    lease: Option<Duration>,
    wait: Duration,
}

impl<'a, G> TryAcquire<'a, G> {
    pub(crate) fn new(lock: &'a Lock<G>) -> Self {
        Self { lock, owner: None, lease: None, wait: Duration::ZERO }
    }

    /// As [`Acquire::by`].
    pub fn by(mut self, owner: &'a mut Owner) -> Self {
        self.owner = Some(owner);
        self
    }

    /// As [`Acquire::lease`].
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Waits for the lock for so long at most. A command under way then is still awaited, for
    /// [`Config::command_timeout`](crate::Config::command_timeout) at most.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }
}

impl<'a, G: Guard> IntoFuture for TryAcquire<'a, G> {
    type Output = Result<Option<G>, Error>;
    type IntoFuture = Acquiring<'a, Option<G>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { lock, owner, lease, wait } = self;
        Box::pin(async move {
            let patience = Patience::of(wait)?;
            let owner = owner.map(|owner| owner.key());
            let share = take(lock, owner, lease, patience).await;
            Ok(share.map_err(lock.told("acquiring"))?.map(G::from_share))
        })
    }
}

pub(crate) async fn take<G: Guard>(
    lock: &Lock<G>,
    owner: Option<OwnerKey>,
    lease: Option<Duration>,
    patience: Patience,
) -> Result<Option<Share>, Error> {
    let entry = lock.entry()?;
    let engine = &entry.engine;
    engine.check_open()?;
    let watched = lease.is_none();
    let lease = lease.map_or(Ok(engine.settings.watchdog), checked_lease)?;
    let backoff = lock.manner().backoff.checked()?;
    let replicas = lock.manner().replicas.unwrap_or(engine.settings.replicas);
    let mut under = None;
    if let Some(owner) = owner {
        if let Some(hold) = entry.hold_of(owner) {
            let lacks_token = G::HAS_TOKEN && hold.token().is_none();
            if lacks_token && hold.is_wanted() {
                return Err(Error::Invalid(
                    "the owner's hold was taken by a kind of lock that has no tokens".into(),
                ));
            }
            if !entry.kind.is_reentrant() {
                must_not_wait_for(&hold, entry).await?;
            } else if !lacks_token {
                let reenter = hold.reenter(lease, watched, patience, replicas);
                if let Some(share) = engine.janitor.finish(reenter).await? {
                    return Ok(Some(share));
                }
            }
        }
        under = beside(entry, owner).await?;
    }
    let terms = Terms { lease, watched, replicas };
    contend(entry, Ask { terms, owner, patience, under, backoff }).await
}

/// What the owner holds of the other side of a read/write lock: under a write it may read, over a
/// read it must not wait to write.
async fn beside(entry: &Entry, owner: OwnerKey) -> Result<Option<Arc<Lease>>, Error> {
    match entry.kind.side() {
        Side::Whole => Ok(None),
        Side::Read => Ok(entry.hold_on(Side::Write, owner).map(|hold| hold.lease.clone())),
        Side::Write => {
            if let Some(reads) = entry.hold_on(Side::Read, owner) {
                must_not_wait_for(&reads, entry).await?;
            }
            Ok(None)
        }
    }
}

/// Refuses an owner that would wait for a hold of its own. It may wait for one that is being given
/// back, and need not wait for one that is lost: the server is asked, for nobody may have noticed.
async fn must_not_wait_for(hold: &Hold, entry: &Entry) -> Result<(), Error> {
    if !hold.is_wanted() {
        return Ok(());
    }
    match hold.check().await {
        Ok(()) if hold.is_wanted() => Err(Error::WouldDeadlock { key: entry.name().into() }),
        Ok(()) | Err(Error::NotHeld { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

pub(crate) fn checked_lease(lease: Duration) -> Result<Duration, Error> {
    if lease < LEAST_LEASE || lease > MOST {
        return Err(Error::Invalid(format!(
            "a lease of {lease:?} does not lie between {LEAST_LEASE:?} and {MOST:?}"
        )));
    }
    Ok(whole_ms(lease))
}
