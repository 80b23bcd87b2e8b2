//! [`ExpirableSemaphore`] and [`ExpirablePermit`], for code that is not async.

use std::{fmt, sync::Arc, time::Duration};

use tokio::time::timeout;

use super::guard::while_held;
use crate::{
    blocking::background::Background,
    counters::expirable,
    error::{Error, Loss},
    inspection::{ExpirableInspection, Remaining},
    permit_id::PermitId,
    run::sealed::Held,
};

/// A handle to one semaphore whose permits have leases.
/// [`Client::expirable_semaphore`](crate::blocking::Client::expirable_semaphore) makes it, without any
/// I/O. Cheap to clone. Its methods are those of the async
/// [`ExpirableSemaphore`](crate::ExpirableSemaphore), whose documentation says what they promise.
///
/// # Examples
/// ```no_run
/// # fn f(client: redisson_lock::blocking::Client) -> Result<(), redisson_lock::Error> {
/// let pool = client.expirable_semaphore("pool");
/// pool.try_set(10)?;
/// let permit = pool.acquire(1).run()?; // blocks; then renewed while `permit` lives
/// permit.release()?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a semaphore does nothing by itself: `let permit = semaphore.acquire(1).run()?`"]
#[derive(Clone)]
pub struct ExpirableSemaphore {
    semaphore: expirable::ExpirableSemaphore,
    background: Arc<Background>,
}

impl fmt::Debug for ExpirableSemaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.semaphore.fmt(f)
    }
}

impl ExpirableSemaphore {
    pub(super) fn new(
        semaphore: expirable::ExpirableSemaphore,
        background: Arc<Background>,
    ) -> Self {
        Self { semaphore, background }
    }

    /// Creates the semaphore with this number of permits. Returns `false` if it exists.
    ///
    /// # Errors
    /// As the async [`try_set`](crate::ExpirableSemaphore::try_set); [`Error::InAsyncCode`].
    pub fn try_set(&self, permits: u32) -> Result<bool, Error> {
        self.background.run(self.semaphore.try_set(permits))
    }

    /// Sets the number of all permits, free and out.
    ///
    /// # Errors
    /// As the async [`set`](crate::ExpirableSemaphore::set); [`Error::InAsyncCode`].
    pub fn set(&self, permits: u32) -> Result<(), Error> {
        self.background.run(self.semaphore.set(permits))
    }

    /// Adds `n` permits, or with a negative number takes them away.
    ///
    /// # Errors
    /// As the async [`add`](crate::ExpirableSemaphore::add); [`Error::InAsyncCode`].
    pub fn add(&self, n: i32) -> Result<(), Error> {
        self.background.run(self.semaphore.add(n))
    }

    /// Acquires `n` permits together, from 1 to 100, and waits for them without a bound.
    /// [`run`](AcquireExpirable::run) begins it.
    pub fn acquire(&self, n: u32) -> AcquireExpirable {
        AcquireExpirable { semaphore: self.clone(), n, lease: None }
    }

    /// Acquires `n` permits together if they are free, or become free within
    /// [`wait`](TryAcquireExpirable::wait). [`run`](TryAcquireExpirable::run) begins it.
    pub fn try_acquire(&self, n: u32) -> TryAcquireExpirable {
        TryAcquireExpirable { semaphore: self.clone(), n, lease: None, wait: Duration::ZERO }
    }

    /// Returns permits by their ids, whoever acquired them. `false`: one of them was not out.
    ///
    /// # Errors
    /// As the async [`release`](crate::ExpirableSemaphore::release); [`Error::InAsyncCode`].
    pub fn release(&self, permits: impl AsRef<[PermitId]>) -> Result<bool, Error> {
        self.background.run(self.semaphore.release(permits))
    }

    /// Gives a permit another lease. `false`: it is not out.
    ///
    /// # Errors
    /// As the async [`set_lease`](crate::ExpirableSemaphore::set_lease); [`Error::InAsyncCode`].
    pub fn set_lease(&self, permit: PermitId, lease: Duration) -> Result<bool, Error> {
        self.background.run(self.semaphore.set_lease(permit, lease))
    }

    /// Returns how long the lease of a permit lasts.
    ///
    /// # Errors
    /// As the async [`ttl_of`](crate::ExpirableSemaphore::ttl_of); [`Error::InAsyncCode`].
    pub fn ttl_of(&self, permit: PermitId) -> Result<Remaining, Error> {
        self.background.run(self.semaphore.ttl_of(permit))
    }

    /// Returns how many permits are free.
    ///
    /// # Errors
    /// As the async [`available`](crate::ExpirableSemaphore::available); [`Error::InAsyncCode`].
    pub fn available(&self) -> Result<i64, Error> {
        self.background.run(self.semaphore.available())
    }

    /// Returns how many permits are out.
    ///
    /// # Errors
    /// As the async [`acquired`](crate::ExpirableSemaphore::acquired); [`Error::InAsyncCode`].
    pub fn acquired(&self) -> Result<u64, Error> {
        self.background.run(self.semaphore.acquired())
    }

    /// Returns the number of all permits, free and out.
    ///
    /// # Errors
    /// As the async [`permits`](crate::ExpirableSemaphore::permits); [`Error::InAsyncCode`].
    pub fn permits(&self) -> Result<i64, Error> {
        self.background.run(self.semaphore.permits())
    }

    /// Reads the state of the semaphore.
    ///
    /// # Errors
    /// As the async [`inspect`](crate::ExpirableSemaphore::inspect); [`Error::InAsyncCode`].
    pub fn inspect(&self) -> Result<ExpirableInspection, Error> {
        self.background.run(self.semaphore.inspect())
    }
}

/// An acquisition of permits that waits for them. See [`ExpirableSemaphore::acquire`].
#[derive(Debug)]
#[must_use = "nothing is acquired until this runs, and the permits are returned when their guard is dropped: `let permit = ….run()?`"]
pub struct AcquireExpirable {
    semaphore: ExpirableSemaphore,
    n: u32,
    lease: Option<Duration>,
}

impl AcquireExpirable {
    /// Has the permits for this long at most. They are never renewed. From 10 ms to 3650 days.
    pub fn lease(self, lease: Duration) -> Self {
        Self { lease: Some(lease), ..self }
    }

    /// Acquires the permits. Blocks until they are acquired.
    ///
    /// # Errors
    /// As the async [`acquire`](crate::ExpirableSemaphore::acquire); [`Error::InAsyncCode`].
    pub fn run(self) -> Result<ExpirablePermit, Error> {
        let ExpirableSemaphore { semaphore, background } = self.semaphore;
        let mut acquire = semaphore.acquire(self.n);
        if let Some(lease) = self.lease {
            acquire = acquire.lease(lease);
        }
        let permit = background.run(acquire.into_future())?;
        Ok(ExpirablePermit { permit, background })
    }
}

/// An acquisition of permits that waits for a limited time, or not at all. See
/// [`ExpirableSemaphore::try_acquire`].
#[derive(Debug)]
#[must_use = "nothing is acquired until this runs, and the permits are returned when their guard is dropped: `let permit = ….run()?`"]
pub struct TryAcquireExpirable {
    semaphore: ExpirableSemaphore,
    n: u32,
    lease: Option<Duration>,
    wait: Duration,
}

impl TryAcquireExpirable {
    /// As [`AcquireExpirable::lease`].
    pub fn lease(self, lease: Duration) -> Self {
        Self { lease: Some(lease), ..self }
    }

    /// Waits for the permits for this long at most: 3650 days or less. Without it, the acquisition
    /// does not wait.
    ///
    /// At the end of the wait the server is asked once more. Its answer is awaited for at most
    /// [`Config::command_timeout`](crate::Config::command_timeout).
    pub fn wait(self, wait: Duration) -> Self {
        Self { wait, ..self }
    }

    /// Acquires the permits. `None`: there were not enough.
    ///
    /// # Errors
    /// As the async [`try_acquire`](crate::ExpirableSemaphore::try_acquire);
    /// [`Error::InAsyncCode`].
    pub fn run(self) -> Result<Option<ExpirablePermit>, Error> {
        let ExpirableSemaphore { semaphore, background } = self.semaphore;
        let mut acquire = semaphore.try_acquire(self.n).wait(self.wait);
        if let Some(lease) = self.lease {
            acquire = acquire.lease(lease);
        }
        let permit = background.run(acquire.into_future())?;
        Ok(permit.map(|permit| ExpirablePermit { permit, background }))
    }
}

/// Permits with a lease. Dropping it returns them, and never blocks: the client's thread sends it.
///
/// No thread owns a permit, so it may go to another thread.
#[must_use = "the permits are returned when this is dropped"]
pub struct ExpirablePermit {
    // Dropped before the client's thread is let go.
    permit: expirable::ExpirablePermit,
    background: Arc<Background>,
}

impl fmt::Debug for ExpirablePermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.permit.fmt(f)
    }
}

impl ExpirablePermit {
    /// Returns the number of permits.
    #[must_use]
    pub fn num_permits(&self) -> u32 {
        self.permit.num_permits()
    }

    /// Returns the id of the first permit.
    #[must_use]
    pub fn id(&self) -> PermitId {
        self.permit.id()
    }

    /// Returns the ids of the permits.
    #[must_use]
    pub fn ids(&self) -> &[PermitId] {
        self.permit.ids()
    }

    /// Returns the permits, and wakes waiters.
    ///
    /// # Errors
    /// As the async [`release`](crate::ExpirablePermit::release); [`Error::InAsyncCode`]: the permits
    /// are then returned in the background.
    pub fn release(self) -> Result<(), Error> {
        self.background.run(self.permit.release())
    }

    /// Gives up the permits without returning them, and returns their ids.
    pub fn forget(self) -> Vec<PermitId> {
        self.permit.forget()
    }

    /// As [`LockGuard::while_held`](crate::blocking::LockGuard::while_held): runs `work`, and returns
    /// its result if no permit was lost until the end.
    ///
    /// # Errors
    /// [`Error::NotHeld`] when a permit was lost.
    pub fn while_held<T>(&self, work: impl FnOnce() -> T) -> Result<T, Error> {
        while_held(|| self.loss(), work)
    }

    /// Returns why a permit is lost. `None` while all are held. Does no I/O.
    #[must_use]
    pub fn loss(&self) -> Option<Loss> {
        self.permit.known_loss()
    }

    /// Sleeps until a permit is lost, and returns the reason. Returns `None` if all are still held
    /// after `most`.
    ///
    /// # Errors
    /// [`Error::InAsyncCode`].
    pub fn lost_within(&self, most: Duration) -> Result<Option<Loss>, Error> {
        self.background.run(async { Ok(timeout(most, self.permit.lost()).await.ok()) })
    }

    /// Returns how long the permits can be trusted if no further renewal succeeds. Does no I/O.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.permit.remaining()
    }

    /// Returns whether the permits can be trusted now. Does no I/O.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.permit.is_held()
    }

    /// Asks the server whether all permits are still out.
    ///
    /// # Errors
    /// As the async [`check`](crate::ExpirablePermit::check); [`Error::InAsyncCode`].
    pub fn check(&self) -> Result<(), Error> {
        self.background.run(self.permit.check())
    }
}
