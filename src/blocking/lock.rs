//! [`Lock`]: the handle to one lock, and the queries about its state.

use std::{fmt, sync::Arc};

use crate::{
    blocking::{
        acquire::{Acquire, TryAcquire},
        background::Background,
        guard::{FencedGuard, LockGuard, SingleGuard},
    },
    error::Error,
    fenced_guard::FencingToken,
    inspection::{Inspection, Remaining},
    lock::{self, Asked},
    options::Replicas,
};

/// A handle to one lock, of any kind. The methods of [`Client`](crate::blocking::Client) make it,
/// without any I/O. Cheap to clone.
///
/// A name that cannot be used is reported by the first call that would send a request.
///
/// `G` is the type of its guards.
#[must_use = "a lock is not held until it is acquired: `let guard = lock.lock().run()?`"]
pub struct Lock<G: SingleGuard = LockGuard> {
    pub(super) lock: lock::Lock<G::Async>,
    pub(super) background: Arc<Background>,
}

/// A lock whose holds have a token. See [`Client::fenced_lock`](crate::Client::fenced_lock).
pub type FencedLock = Lock<FencedGuard>;

impl<G: SingleGuard> Clone for Lock<G> {
    fn clone(&self) -> Self {
        Self { lock: self.lock.clone(), background: self.background.clone() }
    }
}

/// The same lock, with guards that show no token.
impl From<FencedLock> for Lock {
    fn from(lock: FencedLock) -> Self {
        Self { lock: lock.lock.into(), background: lock.background }
    }
}

impl<G: SingleGuard> From<&Lock<G>> for Lock {
    fn from(lock: &Lock<G>) -> Self {
        Self { lock: (&lock.lock).into(), background: lock.background.clone() }
    }
}

impl<G: SingleGuard> fmt::Debug for Lock<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lock.fmt(f)
    }
}

impl<G: SingleGuard> Lock<G> {
    pub(super) fn new(lock: lock::Lock<G::Async>, background: Arc<Background>) -> Self {
        Self { lock, background }
    }

    /// The same lock, with holds that this many replicas must confirm. See
    /// [`Lock::replicas`](crate::Lock::replicas).
    pub fn replicas(self, replicas: Replicas) -> Self {
        Self { lock: self.lock.replicas(replicas), ..self }
    }

    /// Acquires the lock for the calling thread, and waits for it without a bound. A thread that
    /// holds the lock re-enters it.
    ///
    /// [`run`](Acquire::run) begins it. Before that, [`lease`](Acquire::lease) adds an option.
    ///
    /// # Examples
    /// ```no_run
    /// # use std::time::Duration;
    /// # fn f(client: redisson_lock::blocking::Client) -> Result<(), redisson_lock::Error> {
    /// let lock = client.lock("order:42");
    /// let guard = lock.lock().run()?; // renewed while the guard lives
    /// guard.unlock()?;
    /// let guard = lock.lock().lease(Duration::from_secs(10)).run()?; // never renewed
    /// # drop(guard); Ok(())
    /// # }
    /// ```
    pub fn lock(&self) -> Acquire<'_, G> {
        Acquire::new(&self.lock, &self.background)
    }

    /// Acquires the lock if it is free, or becomes free within [`wait`](TryAcquire::wait).
    ///
    /// [`run`](TryAcquire::run) begins it. It returns `None` when another holder kept the lock.
    ///
    /// # Examples
    /// ```no_run
    /// # use std::time::Duration;
    /// # fn f(client: redisson_lock::blocking::Client) -> Result<(), redisson_lock::Error> {
    /// let lock = client.lock("order:42");
    /// let Some(guard) = lock.try_lock().wait(Duration::from_secs(3)).run()? else {
    ///     return Ok(()); // another holder kept it
    /// };
    /// # drop(guard); Ok(())
    /// # }
    /// ```
    pub fn try_lock(&self) -> TryAcquire<'_, G> {
        TryAcquire::new(&self.lock, &self.background)
    }

    /// Asks the server whether the lock is held.
    ///
    /// # Errors
    /// [`Error::Redis`] when the server does not answer within
    /// [`Config::command_timeout`](crate::Config::command_timeout), or refuses;
    /// [`Error::WrongKind`], [`Error::Invalid`], [`Error::Closed`], [`Error::InAsyncCode`].
    pub fn is_locked(&self) -> Result<bool, Error> {
        self.background.run(self.lock.is_locked())
    }

    /// Asks the server how long the lock stays held if it is neither released nor renewed.
    ///
    /// # Errors
    /// As [`is_locked`](Lock::is_locked).
    pub fn ttl(&self) -> Result<Remaining, Error> {
        self.background.run(self.lock.ttl())
    }

    /// Asks the server who holds the lock, how often, and for how long. For a fair lock it also
    /// returns the waiters. See [`Lock::inspect`](crate::Lock::inspect).
    ///
    /// # Errors
    /// As [`is_locked`](Lock::is_locked).
    pub fn inspect(&self) -> Result<Inspection, Error> {
        self.background.run(self.lock.inspect())
    }

    /// Frees the lock, whoever holds it, and wakes a waiter. Returns `false` when the lock was
    /// free. See [`Lock::force_unlock`](crate::Lock::force_unlock).
    ///
    /// # Errors
    /// As [`Lock::force_unlock`](crate::Lock::force_unlock); [`Error::InAsyncCode`].
    pub fn force_unlock(&self) -> Result<bool, Error> {
        self.background.run(self.lock.force_unlock())
    }

    /// Frees the lock if this holder has it, and wakes a waiter. Returns `false` when the holder
    /// does not hold the lock, or no longer. See
    /// [`Lock::force_unlock_if`](crate::Lock::force_unlock_if).
    ///
    /// # Errors
    /// As [`Lock::force_unlock_if`](crate::Lock::force_unlock_if); [`Error::InAsyncCode`].
    pub fn force_unlock_if(&self, holder: impl AsRef<str>) -> Result<bool, Error> {
        self.background.run(self.lock.force_unlock_if(holder))
    }

    /// Asks the present holder to release the lock, and returns without waiting for that. See
    /// [`Lock::ask_to_release`](crate::Lock::ask_to_release).
    ///
    /// # Errors
    /// As [`Lock::ask_to_release`](crate::Lock::ask_to_release); [`Error::InAsyncCode`].
    pub fn ask_to_release(&self) -> Result<Asked, Error> {
        self.background.run(self.lock.ask_to_release())
    }

    /// Returns the lock's key on the server, prefix included. Does no I/O.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the name cannot be used.
    pub fn name(&self) -> Result<&str, Error> {
        self.lock.name()
    }
}

impl FencedLock {
    /// Asks the server for the token of the latest hold, whoever has or had it. `None` when there is
    /// no counter yet. The token of one's own hold is [`FencedGuard::token`].
    ///
    /// # Errors
    /// As [`is_locked`](Lock::is_locked).
    pub fn latest_token(&self) -> Result<Option<FencingToken>, Error> {
        self.background.run(self.lock.latest_token())
    }
}
