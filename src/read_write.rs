//! [`ReadWriteLock`]: the two sides of one lock.

use std::{fmt, sync::Arc};

use crate::{
    acquire::{Acquire, TryAcquire},
    error::Error,
    inspection::Inspection,
    lock::Lock,
    locking::registry::LockState,
};

/// A lock that several may hold to read, or one to write. Made by
/// [`Client::read_write_lock`](crate::Client::read_write_lock) without any I/O.
///
/// - Each read hold has a life of its own: a reader that crashes keeps others out no longer than its
///   own lease, however many others read meanwhile.
/// - An owner that writes may read as well ([`by`](Acquire::by) the same owner), and release either
///   first: this is how one goes from writing to reading and lets no other writer in between.
/// - An owner that reads cannot ask to write: it would wait for itself, and
///   [`Error::WouldDeadlock`] says so at once. (Redisson waits for ever there.)
/// - A read hold lasts for the longest lease that its owner has asked for, also when the re-entry
///   with that lease was given back. (Redisson then goes back to the lease of the outer one.)
/// - There is no order: while readers come and go without a gap, a writer waits.
///
/// # Examples
/// ```no_run
/// # async fn f(client: redisson_lock::Client) -> Result<(), redisson_lock::Error> {
/// let catalog = client.read_write_lock("catalog");
/// let mut me = client.owner();
/// let writing = catalog.write().by(&mut me).await?;
/// let reading = catalog.read().by(&mut me).await?;
/// writing.unlock().await?; // others may read now, and nobody can have written in between
/// reading.unlock().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a lock is not held until it is acquired: `let guard = lock.read().await?`, or `write`"]
pub struct ReadWriteLock {
    read: Lock,
    write: Lock,
}

impl fmt::Debug for ReadWriteLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lock = f.debug_struct("ReadWriteLock");
        match self.read.name() {
            Ok(name) => lock.field("name", &name),
            Err(error) => lock.field("error", &error),
        }
        .finish_non_exhaustive()
    }
}

impl ReadWriteLock {
    pub(crate) fn new(
        read: Result<Arc<LockState>, Error>,
        write: Result<Arc<LockState>, Error>,
    ) -> Self {
        Self { read: Lock::new(read), write: Lock::new(write) }
    }

    /// Acquires the lock for reading: [`Lock::lock`] of the read side.
    pub fn read(&self) -> Acquire<'_> {
        self.read.lock()
    }

    /// Acquires the lock for reading if it can be had: [`Lock::try_lock`] of the read side.
    pub fn try_read(&self) -> TryAcquire<'_> {
        self.read.try_lock()
    }

    /// Acquires the lock for writing: [`Lock::lock`] of the write side.
    pub fn write(&self) -> Acquire<'_> {
        self.write.lock()
    }

    /// Acquires the lock for writing if it can be had: [`Lock::try_lock`] of the write side.
    pub fn try_write(&self) -> TryAcquire<'_> {
        self.write.try_lock()
    }

    /// The read side by itself.
    pub fn read_lock(&self) -> &Lock {
        &self.read
    }

    /// The write side by itself.
    pub fn write_lock(&self) -> &Lock {
        &self.write
    }

    /// Who reads and who writes, and for how long still. Asks the server.
    ///
    /// # Errors
    /// As [`Lock::is_locked`].
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    pub async fn inspect(&self) -> Result<Inspection, Error> {
        self.read.inspect_all().await
    }

    /// The lock's key on the server, prefix included.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the name cannot be used.
    pub fn name(&self) -> Result<&str, Error> {
        self.read.name()
    }
}
