//! [`AcquireExpirable`] and [`TryAcquireExpirable`]: the builders of an acquisition of permits with a
//! lease. Awaiting one begins it.

use std::time::Duration;

use super::permit::ExpirablePermit;
use crate::{
    acquire::Acquiring,
    counters::opened,
    counting::leased::{self, LeasedPool},
    error::Error,
    locking::request::{Bounds, checked_lease},
    protocol::expirable::MOST_AT_ONCE,
};

/// Refuses too many permits for one request, and none.
pub(super) fn at_once(permits: u64) -> Result<(), Error> {
    if !(1..=u64::from(MOST_AT_ONCE)).contains(&permits) {
        let text = format!("{permits} permits at once, but they must be 1 to {MOST_AT_ONCE}");
        return Err(Error::Invalid(text));
    }
    Ok(())
}

async fn acquire_within(
    pool: Result<LeasedPool, Error>,
    n: u32,
    lease: Option<Duration>,
    bounds: Bounds,
) -> Result<Option<ExpirablePermit>, Error> {
    let pool = opened(&pool)?;
    at_once(n.into())?;
    let lease = lease.map(checked_lease).transpose()?;
    let acquired = leased::acquire(pool, n, lease, bounds).await;
    let acquired = acquired.map_err(pool.with_context("acquiring permits of"))?;
    Ok(acquired.map(ExpirablePermit::new))
}

/// An acquisition of permits that waits for them. Awaiting it begins it. See
/// [`ExpirableSemaphore::acquire`](crate::ExpirableSemaphore::acquire).
///
/// It borrows nothing, so it may be spawned: `tokio::spawn(semaphore.acquire(1).into_future())`.
#[derive(Debug)]
#[must_use = "nothing is acquired until this is awaited, and the permits are returned when their guard is dropped: `let permit = ….await?`"]
pub struct AcquireExpirable {
    pool: Result<LeasedPool, Error>,
    n: u32,
    lease: Option<Duration>,
}

impl AcquireExpirable {
    pub(super) fn new(pool: Result<LeasedPool, Error>, n: u32) -> Self {
        Self { pool, n, lease: None }
    }

    /// Has the permits for this long at most. They are never renewed. From 10 ms to 3650 days, in whole
    /// milliseconds.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }
}

impl IntoFuture for AcquireExpirable {
    type Output = Result<ExpirablePermit, Error>;
    type IntoFuture = Acquiring<'static, ExpirablePermit>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { pool, n, lease } = self;
        Box::pin(async move {
            let permit = acquire_within(pool, n, lease, Bounds::FOREVER).await?;
            Ok(permit.expect("waits until it is granted"))
        })
    }
}

/// An acquisition of permits that waits for a limited time, or not at all. Awaiting it begins it. See
/// [`ExpirableSemaphore::try_acquire`](crate::ExpirableSemaphore::try_acquire).
///
/// It borrows nothing, so it may be spawned.
#[derive(Debug)]
#[must_use = "nothing is acquired until this is awaited, and the permits are returned when their guard is dropped: `let permit = ….await?`"]
pub struct TryAcquireExpirable {
    pool: Result<LeasedPool, Error>,
    n: u32,
    lease: Option<Duration>,
    wait: Duration,
}

impl TryAcquireExpirable {
    pub(super) fn new(pool: Result<LeasedPool, Error>, n: u32) -> Self {
        Self { pool, n, lease: None, wait: Duration::ZERO }
    }

    /// As [`AcquireExpirable::lease`].
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Waits for the permits for this long at most: 3650 days or less. Without it, the acquisition
    /// does not wait.
    ///
    /// At the end of the wait the server is asked once more. Its answer is awaited for at most
    /// [`Config::command_timeout`](crate::Config::command_timeout).
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }
}

impl IntoFuture for TryAcquireExpirable {
    type Output = Result<Option<ExpirablePermit>, Error>;
    type IntoFuture = Acquiring<'static, Option<ExpirablePermit>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { pool, n, lease, wait } = self;
        Box::pin(async move { acquire_within(pool, n, lease, Bounds::of(wait)?).await })
    }
}
