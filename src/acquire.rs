//! Acquisitions as the caller writes them down, before they are awaited.

use std::{pin::Pin, time::Duration};

use tokio::time::Instant;

use crate::{
    config::whole_ms,
    contend::contend,
    error::Error,
    guard::LockGuard,
    lock::Lock,
    owner::{Owner, OwnerKey},
    patience::Patience,
};

/// Of a shorter lease nothing would be left after the round trip and the drift of clocks.
const LEAST_LEASE: Duration = Duration::from_millis(10);

/// Nobody means a longer lease, or a longer wait.
const MOST: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// The future of an acquisition.
type Acquiring<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// An acquisition that waits for the lock, begun by awaiting it. See [`Lock::lock`].
#[derive(Debug)]
#[must_use = "nothing is acquired until it is awaited"]
pub struct Acquire<'a> {
    lock: &'a Lock,
    owner: Option<&'a mut Owner>,
    lease: Option<Duration>,
}

impl<'a> Acquire<'a> {
    pub(crate) fn new(lock: &'a Lock) -> Self {
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

impl<'a> IntoFuture for Acquire<'a> {
    type Output = Result<LockGuard, Error>;
    type IntoFuture = Acquiring<'a, LockGuard>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { lock, owner, lease } = self;
        Box::pin(async move {
            let owner = owner.map(|owner| owner.key());
            let guard = take(lock, owner, lease, Patience::Forever).await?;
            Ok(guard.expect("waits until it is granted"))
        })
    }
}

/// An acquisition that waits for a limited time or not at all, begun by awaiting it. See
/// [`Lock::try_lock`].
#[derive(Debug)]
#[must_use = "nothing is acquired until it is awaited"]
pub struct TryAcquire<'a> {
    lock: &'a Lock,
    owner: Option<&'a mut Owner>,
    lease: Option<Duration>,
    wait: Duration,
}

impl<'a> TryAcquire<'a> {
    pub(crate) fn new(lock: &'a Lock) -> Self {
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

impl<'a> IntoFuture for TryAcquire<'a> {
    type Output = Result<Option<LockGuard>, Error>;
    type IntoFuture = Acquiring<'a, Option<LockGuard>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { lock, owner, lease, wait } = self;
        Box::pin(async move {
            if wait > MOST {
                return Err(Error::Invalid(format!("a wait of {wait:?} is longer than {MOST:?}")));
            }
            let patience = match wait {
                Duration::ZERO => Patience::Now,
                wait => Patience::Until(Instant::now() + wait),
            };
            let owner = owner.map(|owner| owner.key());
            take(lock, owner, lease, patience).await
        })
    }
}

async fn take(
    lock: &Lock,
    owner: Option<OwnerKey>,
    lease: Option<Duration>,
    patience: Patience,
) -> Result<Option<LockGuard>, Error> {
    let entry = lock.entry()?;
    let engine = &entry.engine;
    engine.check_open()?;
    let watched = lease.is_none();
    let lease = lease.map_or(Ok(engine.settings.watchdog), checked_lease)?;
    if let Some(hold) = owner.and_then(|owner| entry.hold_of(owner)) {
        let reenter = hold.reenter(lease, watched, patience);
        if let Some(share) = engine.janitor.finish(reenter).await? {
            return Ok(Some(LockGuard::new(share)));
        }
    }
    let claim = contend(entry, lease, patience).await?;
    Ok(claim.map(|claim| LockGuard::new(claim.into_share(owner, watched))))
}

fn checked_lease(lease: Duration) -> Result<Duration, Error> {
    if lease < LEAST_LEASE || lease > MOST {
        return Err(Error::Invalid(format!(
            "a lease of {lease:?} does not lie between {LEAST_LEASE:?} and {MOST:?}"
        )));
    }
    Ok(whole_ms(lease))
}
