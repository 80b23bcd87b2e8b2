//! [`Acquire`] and [`TryAcquire`]: the builders of an acquisition by the calling thread.

use std::{sync::Arc, time::Duration};

use crate::{
    blocking::{
        background::Background,
        guard::{LockGuard, SingleGuard},
    },
    error::Error,
    lock::Lock,
    owner::Owner,
};

/// An acquisition that waits for the lock. [`run`](Acquire::run) begins it. See
/// [`Lock::lock`](crate::blocking::Lock::lock).
#[derive(Debug)]
#[must_use = "nothing is acquired until this runs, and what is acquired is released when its guard is dropped: `let guard = ….run()?`"]
pub struct Acquire<'a, G: SingleGuard = LockGuard> {
    lock: &'a Lock<G::Async>,
    background: &'a Arc<Background>,
    lease: Option<Duration>,
    note: Option<String>,
}

impl<'a, G: SingleGuard> Acquire<'a, G> {
    pub(super) fn new(lock: &'a Lock<G::Async>, background: &'a Arc<Background>) -> Self {
        Self { lock, background, lease: None, note: None }
    }

    /// Holds the lock for this long at most. The hold is never renewed. From 10 ms to 3650 days, in
    /// whole milliseconds.
    ///
    /// Without a lease the watchdog renews the hold while its guard lives. When a thread re-enters,
    /// its hold lasts for the longest of its leases.
    pub fn lease(self, lease: Duration) -> Self {
        Self { lease: Some(lease), ..self }
    }

    /// Says what the lock is held for: see [`LockGuard::note`](crate::LockGuard::note).
    pub fn note(self, note: impl Into<String>) -> Self {
        Self { note: Some(note.into()), ..self }
    }

    /// Acquires the lock for the calling thread. Blocks until it is acquired.
    ///
    /// # Errors
    /// As [`Lock::lock`](crate::Lock::lock), where the owner is the calling thread;
    /// [`Error::InAsyncCode`].
    pub fn run(self) -> Result<G, Error> {
        let Self { lock, background, lease, note } = self;
        let mut thread = Owner::of_this_thread();
        let mut acquire = lock.lock().by(&mut thread);
        if let Some(lease) = lease {
            acquire = acquire.lease(lease);
        }
        if let Some(note) = note {
            acquire = acquire.note(note);
        }
        let guard = background.run(acquire.into_future())?;
        Ok(G::new(guard, background))
    }
}

/// An acquisition that waits for a limited time, or not at all. [`run`](TryAcquire::run) begins it.
/// See [`Lock::try_lock`](crate::blocking::Lock::try_lock).
#[derive(Debug)]
#[must_use = "nothing is acquired until this runs, and what is acquired is released when its guard is dropped: `let guard = ….run()?`"]
pub struct TryAcquire<'a, G: SingleGuard = LockGuard> {
    lock: &'a Lock<G::Async>,
    background: &'a Arc<Background>,
    lease: Option<Duration>,
    wait: Duration,
    note: Option<String>,
}

impl<'a, G: SingleGuard> TryAcquire<'a, G> {
    pub(super) fn new(lock: &'a Lock<G::Async>, background: &'a Arc<Background>) -> Self {
        Self { lock, background, lease: None, wait: Duration::ZERO, note: None }
    }

    /// As [`Acquire::lease`].
    pub fn lease(self, lease: Duration) -> Self {
        Self { lease: Some(lease), ..self }
    }

    /// Waits for the lock for this long at most: 3650 days or less. Without it, the acquisition
    /// does not wait.
    ///
    /// If a request is under way when the wait ends, its answer is still awaited, for at most
    /// [`Config::command_timeout`](crate::Config::command_timeout).
    pub fn wait(self, wait: Duration) -> Self {
        Self { wait, ..self }
    }

    /// As [`Acquire::note`].
    pub fn note(self, note: impl Into<String>) -> Self {
        Self { note: Some(note.into()), ..self }
    }

    /// Acquires the lock for the calling thread. Blocks until it is acquired, or the wait ends.
    ///
    /// Returns `None` when another holder kept the lock, according to the server's last answer.
    ///
    /// # Errors
    /// As [`Lock::try_lock`](crate::Lock::try_lock), where the owner is the calling thread;
    /// [`Error::InAsyncCode`].
    pub fn run(self) -> Result<Option<G>, Error> {
        let Self { lock, background, lease, wait, note } = self;
        let mut thread = Owner::of_this_thread();
        let mut acquire = lock.try_lock().by(&mut thread).wait(wait);
        if let Some(lease) = lease {
            acquire = acquire.lease(lease);
        }
        if let Some(note) = note {
            acquire = acquire.note(note);
        }
        let guard = background.run(acquire.into_future())?;
        Ok(guard.map(|guard| G::new(guard, background)))
    }
}
