//! The handles to locks that a [`Client`] makes, by kind.

use std::{sync::Arc, time::Duration};

use super::Client;
use crate::{
    error::Error,
    lock::{FencedLock, Lock},
    locking::registry::LockState,
    observer::LockKind,
    options::SpinBackoff,
    read_write::ReadWriteLock,
    segmented::SegmentedLock,
};

/// The pauses of a waiter on a plain lock.
const PLAIN_BACKOFF: SpinBackoff =
    SpinBackoff { first: Duration::from_millis(5), most: Duration::from_millis(100) };

impl Client {
    /// Returns the reentrant lock of this name, Redisson's `getLock`. Does no I/O.
    ///
    /// The lock has one holder at a time. Its waiters have no order between processes. The key on
    /// the server is the [prefix](crate::Config::prefix) followed by the name.
    ///
    /// A name that cannot be used is reported by the first call on the lock, as [`Error::Invalid`].
    /// A name must not be empty. In a cluster all keys of the lock must share one hash slot.
    pub fn lock(&self, name: impl AsRef<str>) -> Lock {
        Lock::new(self.state(LockKind::Reentrant, name))
    }

    /// Returns the fair lock of this name, Redisson's `getFairLock`. Does no I/O.
    ///
    /// A fair lock is a [`lock`](Client::lock) whose waiters are served first come, first served,
    /// across processes and languages. The server's clock decides.
    ///
    /// The server keeps the line of waiters. A waiter that is dropped leaves the line at once. A
    /// waiter whose process dies keeps its place for
    /// [`Config::fair_wait`](crate::Config::fair_wait) after it last asked the server. A Redisson
    /// waiter keeps it for `fairLockWaitTimeout`, 5 min by default. [`Lock::inspect`] shows the line.
    ///
    /// A fair lock is slower than a reentrant lock, because no waiter takes it out of turn.
    pub fn fair_lock(&self, name: impl AsRef<str>) -> Lock {
        Lock::new(self.state(LockKind::Fair, name))
    }

    /// Returns the read/write lock of this name, Redisson's `getReadWriteLock`. Does no I/O.
    pub fn read_write_lock(&self, name: impl AsRef<str>) -> ReadWriteLock {
        let name = name.as_ref();
        ReadWriteLock::new(self.state(LockKind::Read, name), self.state(LockKind::Write, name))
    }

    /// Returns the fenced lock of this name, Redisson's `getFencedLock`. Does no I/O.
    ///
    /// A fenced lock is a [`lock`](Client::lock) whose holds have a
    /// [token](crate::FencedGuard::token). The token of a hold is greater than the tokens of all
    /// holds before it, as long as the server keeps its data.
    ///
    /// The counter of the tokens is a key of its own. This crate gives it no TTL, and never deletes
    /// it. If the server loses it (evicted under `allkeys-*`, flushed, restarted without its data),
    /// tokens start again at 1. So they do when a Redisson `MultiLock` with a lease, which gives the
    /// counter a TTL, was the last to have the lock until that TTL was over. After a failover two
    /// holders may have the same token.
    /// [`FencedGuard::token`](crate::FencedGuard::token) says what a storage must refuse.
    ///
    /// A re-entry has the token of the outer hold. A re-entry by Redisson gets a new token.
    ///
    /// # Examples
    /// ```no_run
    /// # struct Storage; impl Storage { async fn write(&self, token: u64, holder: &str, row: &str) {} }
    /// # async fn f(client: redisson_lock::Client, storage: Storage) -> Result<(), redisson_lock::Error> {
    /// let guard = client.fenced_lock("ledger").lock().await?;
    /// // The storage refuses a token that is smaller than its last one,
    /// // or equal to it and from another holder.
    /// storage.write(guard.token().value(), guard.holder(), "row").await;
    /// guard.unlock().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn fenced_lock(&self, name: impl AsRef<str>) -> FencedLock {
        Lock::new(self.state(LockKind::Fenced, name))
    }

    /// Returns the non-reentrant lock of this name, Redisson's `getNonReentrantLock`. Does no I/O.
    ///
    /// It is a [`lock`](Client::lock) that its owner cannot re-enter: a re-entry fails with
    /// [`Error::WouldDeadlock`].
    pub fn non_reentrant_lock(&self, name: impl AsRef<str>) -> Lock {
        Lock::new(self.state(LockKind::NonReentrant, name))
    }

    /// Returns the non-reentrant fair lock of this name, Redisson's `getNonReentrantFairLock`. Does
    /// no I/O.
    ///
    /// It is a [`fair_lock`](Client::fair_lock) that its owner cannot re-enter: a re-entry fails
    /// with [`Error::WouldDeadlock`].
    pub fn non_reentrant_fair_lock(&self, name: impl AsRef<str>) -> Lock {
        Lock::new(self.state(LockKind::NonReentrantFair, name))
    }

    /// Returns the spin lock of this name, Redisson's `getSpinLock`. Does no I/O.
    ///
    /// It is a [`lock`](Client::lock) whose waiters do not subscribe. They poll, with the default
    /// pauses of [`SpinBackoff`].
    ///
    /// A spin lock saves the server messages where locks are held for very short times. It also
    /// works where a user may not subscribe. Its release still wakes waiters of the [`lock`](Client::lock)
    /// of this name.
    pub fn spin_lock(&self, name: impl AsRef<str>) -> Lock {
        Lock::new(self.state(LockKind::Spin, name))
    }

    /// Returns the spin lock of this name, with other pauses. See [`spin_lock`](Client::spin_lock).
    pub fn spin_lock_with(&self, name: impl AsRef<str>, backoff: SpinBackoff) -> Lock {
        self.spin_lock(name).with_backoff(backoff)
    }

    /// Returns the plain lock of this name. Does no I/O. Redisson has none.
    ///
    /// The key is a string, which contains the token of its holder. Clients that lock by
    /// `SET key token NX PX lease`, and release only their own token, share it: Spring's
    /// `setIfAbsent` with a script that compares and deletes, the `Lock` of redis-py, and the like.
    /// Between services of this crate or Redisson's, [`lock`](Client::lock) is better.
    ///
    /// - Its token is the [holder id](crate::LockGuard::holder). The watchdog renews it, and tells
    ///   of a loss, as for the other kinds.
    /// - Waiters poll, because other clients send no message. The pauses double from 5 ms to
    ///   100 ms. A release by this crate wakes them at once.
    /// - It cannot be re-entered: a re-entry by its owner fails with [`Error::WouldDeadlock`].
    /// - A client that deletes the key without comparing the token frees anybody's lock.
    ///   The holder is told by its next renewal.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn f(client: redisson_lock::Client) -> Result<(), redisson_lock::Error> {
    /// // Python: with redis.lock("lock:product:1", timeout=10): ...
    /// let guard = client.plain_lock("lock:product:1").lock().await?;
    /// guard.unlock().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn plain_lock(&self, name: impl AsRef<str>) -> Lock {
        self.plain_lock_with(name, PLAIN_BACKOFF)
    }

    /// Returns the plain lock of this name, with other pauses. See [`plain_lock`](Client::plain_lock). Pauses of
    /// less than 2 ms are of 2 ms, and those of more than 3 s of 3 s.
    pub fn plain_lock_with(&self, name: impl AsRef<str>, backoff: SpinBackoff) -> Lock {
        Lock::new(self.state(LockKind::Plain, name)).with_backoff(backoff)
    }

    /// Returns one name as this many locks: from 1 to 1024. Does no I/O.
    ///
    /// Use it where many callers want the same lock at the same time, and what it protects can be
    /// divided. Segment `i` is the [`lock`](Client::lock) `name:i`.
    ///
    /// A name or a number that cannot be used is reported by the first call that would send a
    /// request, as [`Error::Invalid`].
    ///
    /// # Examples
    /// ```no_run
    /// # async fn f(client: redisson_lock::Client) -> Result<(), redisson_lock::Error> {
    /// let stock = client.segmented("stock:42", 16);
    /// let guard = stock.any().lock().await?; // any segment that is free
    /// println!("sell from stock:42:{}:left", guard.segment());
    /// guard.unlock().await?;
    /// let guard = stock.of("user:7").lock().await?; // always the same segment
    /// # drop(guard); Ok(())
    /// # }
    /// ```
    pub fn segmented(&self, name: impl AsRef<str>, segments: usize) -> SegmentedLock {
        SegmentedLock::new(name.as_ref(), segments, |name| self.lock(name))
    }

    fn state(&self, kind: LockKind, name: impl AsRef<str>) -> Result<Arc<LockState>, Error> {
        self.registry.lock(&self.engine, kind, name.as_ref())
    }
}
