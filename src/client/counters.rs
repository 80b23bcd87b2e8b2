//! The handles to semaphores and latches that a [`Client`] makes.

use super::Client;
use crate::counters::{expirable::ExpirableSemaphore, latch::CountDownLatch, semaphore::Semaphore};

impl Client {
    /// Returns the semaphore of this name, Redisson's `getSemaphore`. Does no I/O.
    ///
    /// A semaphore is a counter of permits. It exists once [`try_set`](Semaphore::try_set) has
    /// created it. The key on the server is the [prefix](crate::Config::prefix) followed by the
    /// name.
    ///
    /// A permit has no lease: the permits of a process that dies are gone. See
    /// [what a semaphore does not promise](Semaphore#what-a-semaphore-does-not-promise).
    ///
    /// A name that cannot be used is reported by the first call, as
    /// [`Error::Invalid`](crate::Error::Invalid).
    pub fn semaphore(&self, name: impl AsRef<str>) -> Semaphore {
        Semaphore::new(self.semaphores.get(&self.engine, name.as_ref()))
    }

    /// Returns the expirable semaphore of this name, Redisson's `getPermitExpirableSemaphore`. Does no
    /// I/O.
    ///
    /// It is a [`semaphore`](Client::semaphore) whose permits have ids and leases. The permits of a
    /// process that dies come back when their leases end. The watchdog renews them while their guard
    /// lives, and the guard is told of a loss. See [leases](ExpirableSemaphore#leases).
    ///
    /// A name that cannot be used is reported by the first call, as
    /// [`Error::Invalid`](crate::Error::Invalid).
    pub fn expirable_semaphore(&self, name: impl AsRef<str>) -> ExpirableSemaphore {
        ExpirableSemaphore::new(self.expirable.get(&self.engine, name.as_ref()))
    }

    /// Returns the count-down latch of this name, Redisson's `getCountDownLatch`. Does no I/O.
    ///
    /// A latch has a count, which [`try_set`](CountDownLatch::try_set) sets. Callers wait until
    /// others have counted it down to 0.
    ///
    /// A name that cannot be used is reported by the first call, as
    /// [`Error::Invalid`](crate::Error::Invalid). In a cluster that is any name with a `}`: Redisson
    /// builds the latch's channel from it in a way that puts it on another slot.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn f(client: redisson_lock::Client) -> Result<(), redisson_lock::Error> {
    /// let ready = client.count_down_latch("ready"); // as redisson.getCountDownLatch("ready")
    /// ready.try_set(3).await?; // no effect if it is set
    /// ready.count_down().await?; // in each of three processes
    /// ready.wait().await?; // in others
    /// # Ok(())
    /// # }
    /// ```
    pub fn count_down_latch(&self, name: impl AsRef<str>) -> CountDownLatch {
        CountDownLatch::new(self.latches.get(&self.engine, name.as_ref()))
    }
}
