//! [`MultiLock`]: several locks acquired as one by the calling thread.

use std::{fmt, marker::PhantomData, sync::Arc, time::Duration};

use futures::FutureExt;
use tokio::time::timeout;

use crate::{
    blocking::{
        background::Background,
        guard::{OfOneThread, asked, while_held},
        lock::Lock,
    },
    error::{Error, Loss},
    lock::Asked,
    multi,
    owner::Owner,
    run::sealed::Held,
};

/// Several locks acquired as one. They may be of any kind, client and server. Cheap to clone, and
/// made without any I/O. See the async [`MultiLock`](crate::MultiLock).
///
/// # Examples
/// ```no_run
/// # use std::time::Duration;
/// # use redisson_lock::{Error, blocking::{Client, MultiLock}};
/// # fn f(orders: Client, stock: Client) -> Result<(), Error> {
/// let both = MultiLock::all([orders.lock("order:42"), stock.lock("item:7")]);
/// let guard = both.lock().run()?;
/// guard.unlock()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "the locks are not held until they are acquired: `let guard = locks.lock().run()?`"]
pub struct MultiLock {
    lock: multi::MultiLock,
    backgrounds: Backgrounds,
}

/// The clients of the locks. The first one's runtime runs the calls.
type Backgrounds = Arc<[Arc<Background>]>;

impl fmt::Debug for MultiLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lock.fmt(f)
    }
}

impl MultiLock {
    /// Makes a lock that acquires all of these locks, or none. Does no I/O. See
    /// [`MultiLock::all`](crate::MultiLock::all).
    pub fn all(locks: impl IntoIterator<Item = impl Into<Lock>>) -> Self {
        Self::new(locks, multi::MultiLock::all)
    }

    /// Makes a lock that acquires more than half of these locks. Does no I/O. See
    /// [`MultiLock::majority`](crate::MultiLock::majority).
    pub fn majority(locks: impl IntoIterator<Item = impl Into<Lock>>) -> Self {
        Self::new(locks, multi::MultiLock::majority)
    }

    /// The same, with one more lock. It may be of another type than those before. See
    /// [`MultiLock::and`](crate::MultiLock::and).
    pub fn and(self, lock: impl Into<Lock>) -> Self {
        let Lock { lock, background } = lock.into();
        let backgrounds = self.backgrounds.iter().cloned().chain([background]).collect();
        Self { lock: self.lock.and(lock), backgrounds }
    }

    fn new(
        locks: impl IntoIterator<Item = impl Into<Lock>>,
        make: fn(Vec<crate::Lock>) -> multi::MultiLock,
    ) -> Self {
        let parts = locks.into_iter().map(|lock| {
            let Lock { lock, background } = lock.into();
            (lock, background)
        });
        let (locks, backgrounds): (Vec<_>, Vec<_>) = parts.unzip();
        Self { lock: make(locks), backgrounds: backgrounds.into() }
    }

    /// Acquires the locks for the calling thread, and waits for them without a bound.
    /// [`run`](AcquireMulti::run) begins it.
    pub fn lock(&self) -> AcquireMulti<'_> {
        AcquireMulti { lock: self, lease: None, note: None }
    }

    /// Acquires the locks for the calling thread if they are free, or become free within
    /// [`wait`](TryAcquireMulti::wait). [`run`](TryAcquireMulti::run) begins it.
    pub fn try_lock(&self) -> TryAcquireMulti<'_> {
        TryAcquireMulti { lock: self, lease: None, wait: Duration::ZERO, note: None }
    }

    /// Asks the present holders of all locks to release them, without waiting for that. See
    /// [`MultiLock::ask_to_release`](crate::MultiLock::ask_to_release).
    ///
    /// # Errors
    /// As [`MultiLock::ask_to_release`](crate::MultiLock::ask_to_release); [`Error::InAsyncCode`].
    pub fn ask_to_release(&self) -> Result<Asked, Error> {
        self.run(self.lock.ask_to_release())
    }

    fn run<T>(&self, future: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        match self.backgrounds.first() {
            Some(background) => background.run(future),
            None => future.now_or_never().expect("a lock of none is refused at once"),
        }
    }

    fn guard(&self, guard: multi::MultiGuard) -> MultiGuard {
        MultiGuard { guard, backgrounds: self.backgrounds.clone(), thread: PhantomData }
    }
}

/// An acquisition that waits for the locks. [`run`](AcquireMulti::run) begins it. See
/// [`MultiLock::lock`].
#[derive(Debug)]
#[must_use = "nothing is acquired until this runs, and what is acquired is released when its guard is dropped: `let guard = ….run()?`"]
pub struct AcquireMulti<'a> {
    lock: &'a MultiLock,
    lease: Option<Duration>,
    note: Option<String>,
}

impl AcquireMulti<'_> {
    /// Holds the locks for this long at most. They are never renewed. From 10 ms to 3650 days, in
    /// whole milliseconds.
    ///
    /// Without a lease, each lock is renewed by the watchdog of its client while the guard lives.
    pub fn lease(self, lease: Duration) -> Self {
        Self { lease: Some(lease), ..self }
    }

    /// Says what the locks are held for: see [`AcquireMulti::note`](crate::AcquireMulti::note).
    pub fn note(self, note: impl Into<String>) -> Self {
        Self { note: Some(note.into()), ..self }
    }

    /// Acquires the locks for the calling thread. Blocks until they are acquired. It re-enters
    /// those that the thread already holds.
    ///
    /// # Errors
    /// As [`MultiLock::lock`](crate::MultiLock::lock); [`Error::InAsyncCode`].
    pub fn run(self) -> Result<MultiGuard, Error> {
        let mut thread = Owner::of_this_thread();
        let mut acquire = self.lock.lock.lock().by(&mut thread);
        if let Some(lease) = self.lease {
            acquire = acquire.lease(lease);
        }
        if let Some(note) = self.note {
            acquire = acquire.note(note);
        }
        Ok(self.lock.guard(self.lock.run(acquire.into_future())?))
    }
}

/// An acquisition that waits for a limited time, or not at all. [`run`](TryAcquireMulti::run)
/// begins it. See [`MultiLock::try_lock`].
#[derive(Debug)]
#[must_use = "nothing is acquired until this runs, and what is acquired is released when its guard is dropped: `let guard = ….run()?`"]
pub struct TryAcquireMulti<'a> {
    lock: &'a MultiLock,
    lease: Option<Duration>,
    wait: Duration,
    note: Option<String>,
}

impl TryAcquireMulti<'_> {
    /// As [`AcquireMulti::lease`].
    pub fn lease(self, lease: Duration) -> Self {
        Self { lease: Some(lease), ..self }
    }

    /// Waits for this long at most, for all locks together: 3650 days or less. Without it, the
    /// acquisition does not wait.
    ///
    /// If requests are under way when the wait ends, their answers are still awaited, for at most
    /// [`Config::command_timeout`](crate::Config::command_timeout).
    pub fn wait(self, wait: Duration) -> Self {
        Self { wait, ..self }
    }

    /// As [`AcquireMulti::note`].
    pub fn note(self, note: impl Into<String>) -> Self {
        Self { note: Some(note.into()), ..self }
    }

    /// Acquires the locks for the calling thread. Blocks until they are acquired, or the wait ends.
    /// Returns `None` when they were not all, or not most, free.
    ///
    /// # Errors
    /// As [`MultiLock::try_lock`](crate::MultiLock::try_lock); [`Error::InAsyncCode`].
    pub fn run(self) -> Result<Option<MultiGuard>, Error> {
        let mut thread = Owner::of_this_thread();
        let mut acquire = self.lock.lock.try_lock().by(&mut thread).wait(self.wait);
        if let Some(lease) = self.lease {
            acquire = acquire.lease(lease);
        }
        if let Some(note) = self.note {
            acquire = acquire.note(note);
        }
        let guard = self.lock.run(acquire.into_future())?;
        Ok(guard.map(|guard| self.lock.guard(guard)))
    }
}

/// A hold of one thread on several locks. They are released when the guard is
/// [unlocked](MultiGuard::unlock) or dropped. Dropping works as for a
/// [`LockGuard`](crate::blocking::LockGuard).
///
/// The guard is held while enough of its locks are: all of them, or more than half for
/// [`MultiLock::majority`]. A lost guard stays lost.
#[must_use = "the locks are released as soon as the guard is dropped: keep it, `let guard = …` (not `let _ = …`)"]
pub struct MultiGuard {
    // Dropped before the clients' threads are let go.
    guard: multi::MultiGuard,
    backgrounds: Backgrounds,
    thread: OfOneThread,
}

/// Shows the locks, how many of them are held, and how long the guard can be trusted.
impl fmt::Debug for MultiGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.guard.fmt(f)
    }
}

impl MultiGuard {
    fn background(&self) -> &Background {
        &self.backgrounds[0]
    }

    /// Releases all locks at the same time. A majority does not wait for slower servers once a
    /// majority is released.
    ///
    /// # Errors
    /// As [`MultiGuard::unlock`](crate::MultiGuard::unlock). After [`Error::InAsyncCode`] the locks
    /// are released in the background.
    pub fn unlock(self) -> Result<(), Error> {
        let Self { guard, backgrounds, .. } = self;
        backgrounds[0].run(guard.unlock())
    }

    /// As [`MultiGuard::note`](crate::MultiGuard::note). Works everywhere, also in async code.
    pub fn note(&self, note: impl AsRef<str>) {
        self.guard.note(note);
    }

    /// Runs `work`, and returns its result if the guard was held until the end. See
    /// [`LockGuard::while_held`](crate::blocking::LockGuard::while_held).
    ///
    /// # Errors
    /// [`Error::NotHeld`] when the guard was lost before the work began, or before it ended.
    pub fn while_held<T>(&self, work: impl FnOnce() -> T) -> Result<T, Error> {
        while_held(|| self.loss(), work)
    }

    /// Returns why the guard is lost: the reason of one of its lost locks. `None` while it is held.
    /// Does no I/O.
    #[must_use]
    pub fn loss(&self) -> Option<Loss> {
        self.guard.known_loss()
    }

    /// Sleeps until the guard is lost, and returns the reason of one of its lost locks. Returns
    /// `None` if it is still held after `most`.
    ///
    /// # Errors
    /// [`Error::InAsyncCode`].
    pub fn lost_within(&self, most: Duration) -> Result<Option<Loss>, Error> {
        self.background().run(async { Ok(timeout(most, self.guard.lost()).await.ok()) })
    }

    /// Sleeps until somebody asks for the hold of one of the locks. Returns `false` if nobody has
    /// after `most`, or the guard was lost meanwhile. See
    /// [`MultiGuard::asked_to_release`](crate::MultiGuard::asked_to_release).
    ///
    /// # Errors
    /// [`Error::InAsyncCode`].
    pub fn asked_to_release_within(&self, most: Duration) -> Result<bool, Error> {
        self.background().run(async { Ok(timeout(most, asked(&self.guard)).await == Ok(true)) })
    }

    /// Returns whether somebody has asked for the hold of one of the locks, as far as known. Does no
    /// I/O. The first call begins to listen, and returns `false`: call it early.
    #[must_use]
    pub fn is_asked_to_release(&self) -> bool {
        self.guard.is_asked_to_release()
    }

    /// Returns how long the guard can be trusted if no further renewal succeeds. Zero when it is
    /// lost. Does no I/O.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.guard.remaining()
    }

    /// Returns whether the guard can be trusted now. Does no I/O. [`check`](MultiGuard::check) asks
    /// the servers.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.guard.is_held()
    }

    /// Returns how many of the locks are held, as far as known. Does no I/O.
    #[must_use]
    pub fn held_members(&self) -> usize {
        self.guard.held_members()
    }

    /// Asks the servers whether the locks are still held.
    ///
    /// # Errors
    /// As [`MultiGuard::check`](crate::MultiGuard::check); [`Error::InAsyncCode`].
    pub fn check(&self) -> Result<(), Error> {
        self.background().run(self.guard.check())
    }
}
