//! [`ReadWriteLock`]: the two sides of a read/write lock.

use std::{fmt, sync::Arc};

use crate::{
    blocking::{
        acquire::{Acquire, TryAcquire},
        background::Background,
        lock::Lock,
    },
    error::Error,
    inspection::Inspection,
    lock::Asked,
    read_write,
};

/// A lock that many readers or one writer can hold.
/// [`Client::read_write_lock`](crate::blocking::Client::read_write_lock) makes it, without any I/O.
/// Cheap to clone.
///
/// A thread that writes may also read, and may release either hold first. A thread that only reads
/// cannot also write: it gets [`Error::WouldDeadlock`]. The rest is as for the async
/// [`ReadWriteLock`](crate::ReadWriteLock).
///
/// # Examples
/// ```no_run
/// # fn f(client: redisson_lock::blocking::Client) -> Result<(), redisson_lock::Error> {
/// let catalog = client.read_write_lock("catalog");
/// let writing = catalog.write().run()?;
/// let reading = catalog.read().run()?;
/// writing.unlock()?; // others may read now; no other writer was in between
/// reading.unlock()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a lock is not held until it is acquired: `let guard = lock.read().run()?`, or `write`"]
pub struct ReadWriteLock {
    sides: read_write::ReadWriteLock,
    read: Lock,
    write: Lock,
}

impl fmt::Debug for ReadWriteLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.sides.fmt(f)
    }
}

impl ReadWriteLock {
    pub(super) fn new(sides: read_write::ReadWriteLock, background: &Arc<Background>) -> Self {
        let side = |lock: &crate::Lock| Lock::new(lock.clone(), background.clone());
        Self { read: side(sides.read_lock()), write: side(sides.write_lock()), sides }
    }

    /// Acquires the lock for reading: [`Lock::lock`] on the read side.
    pub fn read(&self) -> Acquire<'_> {
        self.read.lock()
    }

    /// Acquires the lock for reading if no writer holds it: [`Lock::try_lock`] on the read side.
    pub fn try_read(&self) -> TryAcquire<'_> {
        self.read.try_lock()
    }

    /// Acquires the lock for writing: [`Lock::lock`] on the write side.
    pub fn write(&self) -> Acquire<'_> {
        self.write.lock()
    }

    /// Acquires the lock for writing if it is free: [`Lock::try_lock`] on the write side.
    pub fn try_write(&self) -> TryAcquire<'_> {
        self.write.try_lock()
    }

    /// Returns the read side as a lock of its own.
    pub fn read_lock(&self) -> &Lock {
        &self.read
    }

    /// Returns the write side as a lock of its own.
    pub fn write_lock(&self) -> &Lock {
        &self.write
    }

    /// Asks the server who reads, who writes, and for how long.
    ///
    /// # Errors
    /// As [`Lock::is_locked`].
    pub fn inspect(&self) -> Result<Inspection, Error> {
        self.read.background.run(self.sides.inspect())
    }

    /// Asks all readers, and the writer, to release the lock. See [`Lock::ask_to_release`].
    ///
    /// # Errors
    /// As [`Lock::ask_to_release`].
    pub fn ask_to_release(&self) -> Result<Asked, Error> {
        self.read.background.run(self.sides.ask_to_release())
    }

    /// Returns the lock's key on the server, prefix included. Does no I/O.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the name cannot be used.
    pub fn name(&self) -> Result<&str, Error> {
        self.sides.name()
    }
}
