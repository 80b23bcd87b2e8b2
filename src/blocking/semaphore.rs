//! [`Semaphore`] and [`Permit`], for code that is not async.

use std::{fmt, sync::Arc, time::Duration};

use crate::{
    blocking::background::Background,
    counters::{permit, semaphore},
    error::Error,
};

/// A handle to one semaphore. [`Client::semaphore`](crate::blocking::Client::semaphore) makes it,
/// without any I/O. Cheap to clone. Its methods are those of the async
/// [`Semaphore`](crate::Semaphore), whose documentation says what they promise.
///
/// # Examples
/// ```no_run
/// # fn f(client: redisson_lock::blocking::Client) -> Result<(), redisson_lock::Error> {
/// let pool = client.semaphore("pool");
/// pool.try_set(10)?;
/// let permit = pool.acquire(1).run()?; // blocks
/// permit.release()?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a semaphore does nothing by itself: `let permit = semaphore.acquire(1).run()?`"]
#[derive(Clone)]
pub struct Semaphore {
    semaphore: semaphore::Semaphore,
    background: Arc<Background>,
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.semaphore.fmt(f)
    }
}

impl Semaphore {
    pub(super) fn new(semaphore: semaphore::Semaphore, background: Arc<Background>) -> Self {
        Self { semaphore, background }
    }

    /// Creates the semaphore with this number of permits. Returns `false` if it exists.
    ///
    /// # Errors
    /// As the async [`try_set`](crate::Semaphore::try_set); [`Error::InAsyncCode`].
    pub fn try_set(&self, permits: u32) -> Result<bool, Error> {
        self.background.run(self.semaphore.try_set(permits))
    }

    /// Acquires `n` permits together, and waits for them without a bound.
    /// [`run`](AcquirePermits::run) begins it.
    pub fn acquire(&self, n: u32) -> AcquirePermits {
        AcquirePermits { semaphore: self.clone(), n }
    }

    /// Acquires `n` permits together if they are free, or become free within
    /// [`wait`](TryAcquirePermits::wait). [`run`](TryAcquirePermits::run) begins it.
    pub fn try_acquire(&self, n: u32) -> TryAcquirePermits {
        TryAcquirePermits { semaphore: self.clone(), n, wait: Duration::ZERO }
    }

    /// Returns `n` permits, whoever acquired them.
    ///
    /// # Errors
    /// As the async [`release`](crate::Semaphore::release); [`Error::InAsyncCode`].
    pub fn release(&self, n: u32) -> Result<(), Error> {
        self.background.run(self.semaphore.release(n))
    }

    /// Adds `n` permits, or with a negative number takes them away.
    ///
    /// # Errors
    /// As the async [`add`](crate::Semaphore::add); [`Error::InAsyncCode`].
    pub fn add(&self, n: i32) -> Result<(), Error> {
        self.background.run(self.semaphore.add(n))
    }

    /// Takes all free permits, and returns their number.
    ///
    /// # Errors
    /// As the async [`drain`](crate::Semaphore::drain); [`Error::InAsyncCode`].
    pub fn drain(&self) -> Result<i64, Error> {
        self.background.run(self.semaphore.drain())
    }

    /// Returns how many permits are free.
    ///
    /// # Errors
    /// As the async [`available`](crate::Semaphore::available); [`Error::InAsyncCode`].
    pub fn available(&self) -> Result<i64, Error> {
        self.background.run(self.semaphore.available())
    }
}

/// An acquisition of permits that waits for them. See [`Semaphore::acquire`].
#[derive(Debug)]
#[must_use = "nothing is acquired until this runs, and the permits are returned when their guard is dropped: `let permit = ….run()?`"]
pub struct AcquirePermits {
    semaphore: Semaphore,
    n: u32,
}

impl AcquirePermits {
    /// Acquires the permits. Blocks until they are acquired.
    ///
    /// # Errors
    /// As the async [`acquire`](crate::Semaphore::acquire); [`Error::InAsyncCode`].
    pub fn run(self) -> Result<Permit, Error> {
        let Semaphore { semaphore, background } = self.semaphore;
        let permit = background.run(semaphore.acquire(self.n).into_future())?;
        Ok(Permit { permit, background })
    }
}

/// An acquisition of permits that waits for a limited time, or not at all. See
/// [`Semaphore::try_acquire`].
#[derive(Debug)]
#[must_use = "nothing is acquired until this runs, and the permits are returned when their guard is dropped: `let permit = ….run()?`"]
pub struct TryAcquirePermits {
    semaphore: Semaphore,
    n: u32,
    wait: Duration,
}

impl TryAcquirePermits {
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
    /// As the async [`try_acquire`](crate::Semaphore::try_acquire); [`Error::InAsyncCode`].
    pub fn run(self) -> Result<Option<Permit>, Error> {
        let Semaphore { semaphore, background } = self.semaphore;
        let acquire = semaphore.try_acquire(self.n).wait(self.wait);
        let permit = background.run(acquire.into_future())?;
        Ok(permit.map(|permit| Permit { permit, background }))
    }
}

/// Permits of a semaphore. Dropping it returns them, and never blocks: the client's thread sends it.
///
/// **A program that ends does not wait for permits that were dropped**, and they have no lease: the
/// semaphore then has fewer for good. Call [`release`](Self::release) or
/// [`Client::close`](crate::blocking::Client::close) before the end.
///
/// No thread owns a permit, so it may go to another thread.
#[must_use = "the permits are returned when this is dropped"]
pub struct Permit {
    // Dropped before the client's thread is let go.
    permit: permit::Permit,
    background: Arc<Background>,
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.permit.fmt(f)
    }
}

impl Permit {
    /// Returns the number of permits.
    #[must_use]
    pub fn num_permits(&self) -> u32 {
        self.permit.num_permits()
    }

    /// Splits off `n` permits. `None` if there are fewer.
    pub fn split(&mut self, n: u32) -> Option<Permit> {
        let permit = self.permit.split(n)?;
        Some(Self { permit, background: self.background.clone() })
    }

    /// Returns the permits, and wakes waiters.
    ///
    /// # Errors
    /// As the async [`release`](crate::Permit::release); [`Error::InAsyncCode`]: the permits are then
    /// returned in the background.
    pub fn release(self) -> Result<(), Error> {
        self.background.run(self.permit.release())
    }

    /// Forgets the permits: they are not returned.
    pub fn forget(self) {
        self.permit.forget();
    }
}
