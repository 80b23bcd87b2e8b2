//! [`Client`]: the connection to Redis, from which locks are made.

use std::{fmt, sync::Arc};

use crate::{
    blocking::{
        background::Background,
        expirable::ExpirableSemaphore,
        latch::CountDownLatch,
        lock::{FencedLock, Lock},
        read_write::ReadWriteLock,
        segmented::SegmentedLock,
        semaphore::Semaphore,
    },
    config::Config,
    error::Error,
    options::SpinBackoff,
};

/// A connection to Redis, and the source of its locks, for code that is not async. Cheap to clone;
/// one per process is enough.
///
/// Each [`connect`](Client::connect) starts one background thread. The
/// [module](crate::blocking) describes it, and says who the owner of a hold is.
#[derive(Clone)]
pub struct Client {
    background: Arc<Background>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.background.fmt(f)
    }
}

impl Client {
    /// Connects to Redis: one connection for commands, one for messages. Starts the client's
    /// thread.
    ///
    /// # Errors
    /// As the async [`connect`](crate::Client::connect). [`Error::Redis`] also when the thread
    /// cannot be started; [`Error::InAsyncCode`].
    ///
    /// # Examples
    /// ```no_run
    /// # fn f() -> Result<(), redisson_lock::Error> {
    /// use redisson_lock::{Config, blocking::Client};
    ///
    /// let client = Client::connect(Config::from_url("redis://127.0.0.1:6379")?)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn connect(config: Config) -> Result<Self, Error> {
        Self::over(crate::Client::connect(config))
    }

    /// Starts the client's thread, and connects by this future.
    pub(crate) fn over(
        connecting: impl Future<Output = Result<crate::Client, Error>>,
    ) -> Result<Self, Error> {
        Ok(Self { background: Background::connect(connecting)? })
    }

    /// Returns the reentrant lock of this name. Does no I/O. See
    /// [`Client::lock`](crate::Client::lock).
    pub fn lock(&self, name: impl AsRef<str>) -> Lock {
        self.made(self.background.client.lock(name))
    }

    /// Returns the fair lock of this name. Does no I/O. See
    /// [`Client::fair_lock`](crate::Client::fair_lock).
    pub fn fair_lock(&self, name: impl AsRef<str>) -> Lock {
        self.made(self.background.client.fair_lock(name))
    }

    /// Returns the read/write lock of this name. Does no I/O. See
    /// [`Client::read_write_lock`](crate::Client::read_write_lock).
    pub fn read_write_lock(&self, name: impl AsRef<str>) -> ReadWriteLock {
        let sides = self.background.client.read_write_lock(name);
        ReadWriteLock::new(sides, &self.background)
    }

    /// Returns the fenced lock of this name. Does no I/O. See
    /// [`Client::fenced_lock`](crate::Client::fenced_lock).
    pub fn fenced_lock(&self, name: impl AsRef<str>) -> FencedLock {
        Lock::new(self.background.client.fenced_lock(name), self.background.clone())
    }

    /// Returns the non-reentrant lock of this name. Does no I/O. A thread that acquires it again
    /// gets [`Error::WouldDeadlock`].
    pub fn non_reentrant_lock(&self, name: impl AsRef<str>) -> Lock {
        self.made(self.background.client.non_reentrant_lock(name))
    }

    /// Returns the non-reentrant fair lock of this name. Does no I/O. A thread that acquires it
    /// again gets [`Error::WouldDeadlock`].
    pub fn non_reentrant_fair_lock(&self, name: impl AsRef<str>) -> Lock {
        self.made(self.background.client.non_reentrant_fair_lock(name))
    }

    /// Returns the plain lock of this name: a string that contains a token, which clients without
    /// Redisson share. Does no I/O. See [`Client::plain_lock`](crate::Client::plain_lock).
    pub fn plain_lock(&self, name: impl AsRef<str>) -> Lock {
        self.made(self.background.client.plain_lock(name))
    }

    /// Returns the plain lock of this name, with other pauses. Does no I/O. See
    /// [`Client::plain_lock_with`](crate::Client::plain_lock_with).
    pub fn plain_lock_with(&self, name: impl AsRef<str>, backoff: SpinBackoff) -> Lock {
        self.made(self.background.client.plain_lock_with(name, backoff))
    }

    /// Returns the spin lock of this name. Does no I/O. See
    /// [`Client::spin_lock`](crate::Client::spin_lock).
    pub fn spin_lock(&self, name: impl AsRef<str>) -> Lock {
        self.made(self.background.client.spin_lock(name))
    }

    /// Returns the spin lock of this name, with other pauses. Does no I/O. See
    /// [`Client::spin_lock`](crate::Client::spin_lock).
    pub fn spin_lock_with(&self, name: impl AsRef<str>, backoff: SpinBackoff) -> Lock {
        self.made(self.background.client.spin_lock_with(name, backoff))
    }

    /// Returns one name as this many locks. Does no I/O. See
    /// [`Client::segmented`](crate::Client::segmented).
    pub fn segmented(&self, name: impl AsRef<str>, segments: usize) -> SegmentedLock {
        let lock = self.background.client.segmented(name, segments);
        SegmentedLock::new(lock, self.background.clone())
    }

    /// Returns the semaphore of this name. See
    /// [`Client::semaphore`](crate::Client::semaphore).
    pub fn semaphore(&self, name: impl AsRef<str>) -> Semaphore {
        let semaphore = self.background.client.semaphore(name);
        Semaphore::new(semaphore, self.background.clone())
    }

    /// Returns the expirable semaphore of this name. See
    /// [`Client::expirable_semaphore`](crate::Client::expirable_semaphore).
    pub fn expirable_semaphore(&self, name: impl AsRef<str>) -> ExpirableSemaphore {
        let semaphore = self.background.client.expirable_semaphore(name);
        ExpirableSemaphore::new(semaphore, self.background.clone())
    }

    /// Returns the count-down latch of this name. See
    /// [`Client::count_down_latch`](crate::Client::count_down_latch).
    pub fn count_down_latch(&self, name: impl AsRef<str>) -> CountDownLatch {
        let latch = self.background.client.count_down_latch(name);
        CountDownLatch::new(latch, self.background.clone())
    }

    fn made(&self, lock: crate::Lock) -> Lock {
        Lock::new(lock, self.background.clone())
    }

    /// Returns the client's id on the server: a UUID. Every [`connect`](Client::connect) makes a
    /// new one.
    #[must_use]
    pub fn id(&self) -> &str {
        self.background.client.id()
    }

    /// Closes the client and all its clones.
    ///
    /// It waits until the releases of dropped guards are done, then closes the connections.
    /// Acquisitions that wait in other threads end with [`Error::Closed`]. Holds with a live guard
    /// get [`Loss::Closed`](crate::Loss::Closed), and end with their leases.
    ///
    /// **A program that ends without it does not wait for queued releases.** A lock whose guard was
    /// dropped may then stay held for the rest of its lease: 30 s with the default watchdog.
    ///
    /// # Errors
    /// [`Error::Redis`] when something could not be released within
    /// [`Config::retry_timeout`](crate::Config::retry_timeout). A lock then ends with its lease.
    /// Permits of a [`Semaphore`](crate::blocking::Semaphore) have none, and may be lost.
    /// [`Error::InAsyncCode`].
    pub fn close(&self) -> Result<(), Error> {
        self.background.run(self.background.client.close())
    }
}
