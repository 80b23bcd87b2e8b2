//! [`CountDownLatch`], for code that is not async.

use std::{fmt, sync::Arc, time::Duration};

use crate::{blocking::background::Background, counters::latch, error::Error};

/// A handle to one count-down latch.
/// [`Client::count_down_latch`](crate::blocking::Client::count_down_latch) makes it, without any I/O.
/// Cheap to clone. Its methods are those of the async [`CountDownLatch`](crate::CountDownLatch), whose
/// documentation says what they promise.
///
/// # Examples
/// ```no_run
/// # fn f(client: redisson_lock::blocking::Client) -> Result<(), redisson_lock::Error> {
/// let ready = client.count_down_latch("ready");
/// ready.try_set(3)?;
/// ready.wait()?; // blocks until three others have called `count_down`
/// # Ok(())
/// # }
/// ```
#[must_use = "a latch does nothing by itself: `latch.wait()?`"]
#[derive(Clone)]
pub struct CountDownLatch {
    latch: latch::CountDownLatch,
    background: Arc<Background>,
}

impl fmt::Debug for CountDownLatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.latch.fmt(f)
    }
}

impl CountDownLatch {
    pub(super) fn new(latch: latch::CountDownLatch, background: Arc<Background>) -> Self {
        Self { latch, background }
    }

    /// Sets the count of a latch that is not set. Returns `false` if it is set.
    ///
    /// # Errors
    /// As the async [`try_set`](crate::CountDownLatch::try_set); [`Error::InAsyncCode`].
    pub fn try_set(&self, count: u64) -> Result<bool, Error> {
        self.background.run(self.latch.try_set(count))
    }

    /// Lowers the count by one.
    ///
    /// # Errors
    /// As the async [`count_down`](crate::CountDownLatch::count_down); [`Error::InAsyncCode`].
    pub fn count_down(&self) -> Result<(), Error> {
        self.background.run(self.latch.count_down())
    }

    /// Returns the count: 0 if the latch is not set.
    ///
    /// # Errors
    /// As the async [`count`](crate::CountDownLatch::count); [`Error::InAsyncCode`].
    pub fn count(&self) -> Result<u64, Error> {
        self.background.run(self.latch.count())
    }

    /// Blocks until the count is 0, without a bound.
    ///
    /// # Errors
    /// As the async [`wait`](crate::CountDownLatch::wait); [`Error::InAsyncCode`].
    pub fn wait(&self) -> Result<(), Error> {
        self.background.run(self.latch.wait())
    }

    /// Blocks until the count is 0, for this long at most. Returns `false` if the count was above 0 to
    /// the end. The last answer is awaited as by the async
    /// [`wait_timeout`](crate::CountDownLatch::wait_timeout).
    ///
    /// # Errors
    /// As the async [`wait_timeout`](crate::CountDownLatch::wait_timeout); [`Error::InAsyncCode`].
    pub fn wait_timeout(&self, timeout: Duration) -> Result<bool, Error> {
        self.background.run(self.latch.wait_timeout(timeout))
    }
}
