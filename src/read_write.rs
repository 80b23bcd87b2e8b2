//! [`ReadWriteLock`]: the two sides of a read/write lock.

use std::{fmt, sync::Arc};

use crate::{
    acquire::{Acquire, TryAcquire},
    error::Error,
    inspection::Inspection,
    lock::{Asked, Lock},
    locking::registry::LockState,
    protocol::Side,
};

/// A lock that many readers or one writer can hold.
/// [`Client::read_write_lock`](crate::Client::read_write_lock) makes it, without any I/O. Cheap to
/// clone.
///
/// - Each read hold has a lease of its own. A reader that crashes blocks writers for the rest of
///   its own lease, however many other readers there are.
/// - An owner that writes may also read, [`by`](Acquire::by) the same owner, and may release either
///   hold first. So it can go from writing to reading, and no other writer gets in between.
/// - An owner that only reads cannot also write, because it would wait for itself. It gets
///   [`Error::WouldDeadlock`] at once. (Redisson waits for ever.)
/// - A read hold lasts for the longest lease its owner asked for, even after the re-entry with that
///   lease was released. (Redisson goes back to the lease of the outer hold.)
/// - Readers of one client that have no owner and no lease of their own share one hold, unless they
///   are parts of a [`MultiLock`](crate::MultiLock). The first one takes it, others join it without
///   a request, and the last one releases it. Of several that come at once one asks the server, and
///   the others wait for its answer, for 0.1 s at most. Their guards have the same
///   [holder](crate::LockGuard::holder), and are lost together. A reader that comes or leaves asks
///   the server whether the hold is there and whether other clients wait, if nobody has for 2 ms.
///   [`Config::reuse_holds`](crate::Config::reuse_holds) turns this off.
/// - While a writer waits, such readers wait too, from 1 ms after a local one came: until it had
///   its turn, or for 0.1 s. If it did not come, they join for up to 1 s after that, whoever waits.
///   A caller that reads twice without an owner may therefore wait up to 0.1 s for the second read,
///   and does not deadlock. An [owner](Acquire::by) that already reads is not delayed.
///   [`try_read`](Self::try_read) without a wait asks for a hold of its own. Readers with an owner or
///   a lease that come meanwhile stand behind the waiting readers.
/// - Otherwise there is no order. While readers of several clients come and go without a gap, or hold
///   the lock for long, a writer waits.
///
/// # Examples
/// ```no_run
/// # async fn f(client: redisson_lock::Client) -> Result<(), redisson_lock::Error> {
/// let catalog = client.read_write_lock("catalog");
/// let mut me = client.owner();
/// let writing = catalog.write().by(&mut me).await?;
/// let reading = catalog.read().by(&mut me).await?;
/// writing.unlock().await?; // others may read now; no other writer was in between
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

    /// Acquires the lock for reading: [`Lock::lock`] on the read side.
    pub fn read(&self) -> Acquire<'static> {
        self.read.lock()
    }

    /// Acquires the lock for reading if no writer holds it: [`Lock::try_lock`] on the read side.
    pub fn try_read(&self) -> TryAcquire<'static> {
        self.read.try_lock()
    }

    /// Acquires the lock for writing: [`Lock::lock`] on the write side.
    pub fn write(&self) -> Acquire<'static> {
        self.write.lock()
    }

    /// Acquires the lock for writing if it is free: [`Lock::try_lock`] on the write side.
    pub fn try_write(&self) -> TryAcquire<'static> {
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
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    pub async fn inspect(&self) -> Result<Inspection, Error> {
        self.read.inspect_all().await
    }

    /// Asks all readers, and the writer, to release the lock. See [`Lock::ask_to_release`].
    ///
    /// # Errors
    /// As [`Lock::ask_to_release`].
    ///
    /// # Cancel safety
    /// As [`Lock::ask_to_release`].
    pub async fn ask_to_release(&self) -> Result<Asked, Error> {
        self.read.ask(Side::Whole).await
    }

    /// Returns the lock's key on the server, prefix included. Does no I/O.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the name cannot be used.
    pub fn name(&self) -> Result<&str, Error> {
        self.read.name()
    }
}
