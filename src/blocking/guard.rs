//! [`LockGuard`]: a hold in the hands of its thread.

use std::{
    fmt,
    marker::PhantomData,
    ops::Deref,
    sync::{Arc, MutexGuard},
    time::Duration,
};

use tokio::time::timeout;

use crate::{
    blocking::background::Background,
    determinism::select,
    error::{Error, Loss},
    fenced_guard::{self, FencingToken},
    guard,
    run::{self, sealed::Held},
};

/// Makes a guard stay on its thread. It may be shared by reference.
pub(super) type OfOneThread = PhantomData<MutexGuard<'static, ()>>;

/// A hold of one thread on a lock. The lock is released when the guard is
/// [unlocked](LockGuard::unlock) or dropped.
///
/// A guard is `'static`, and may outlive the lock and the client it came from. It is not `Send`,
/// because its thread is the owner of the hold.
///
/// Dropping a guard never blocks, and works everywhere, also in async code. It queues the release,
/// which the client's thread sends. To know that the lock is free, or to learn of a loss, call
/// [`unlock`](LockGuard::unlock). A program that ends does not wait for queued releases: see
/// [`Client::close`](crate::blocking::Client::close).
#[must_use = "the lock is released as soon as the guard is dropped: keep it, `let guard = …` (not `let _ = …`)"]
pub struct LockGuard {
    // Dropped before the client's thread is let go.
    guard: guard::LockGuard,
    background: Arc<Background>,
    thread: OfOneThread,
}

/// Shows the lock, the holder, and how long the hold can be trusted.
impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.guard.fmt(f)
    }
}

impl LockGuard {
    /// Releases the lock. If the thread has re-entered it, this undoes one entry.
    ///
    /// # Errors
    /// As [`LockGuard::unlock`](crate::LockGuard::unlock). After [`Error::InAsyncCode`], and
    /// [as its thread ends](crate::blocking#thread-local-values), the lock is released in the
    /// background.
    pub fn unlock(self) -> Result<(), Error> {
        let Self { guard, background, .. } = self;
        background.run(guard.unlock())
    }

    /// Runs `work`, and returns its result if the hold was held until the end.
    ///
    /// The work is not stopped when the hold is lost. Long work asks [`is_held`](Self::is_held)
    /// between its steps.
    ///
    /// # Errors
    /// [`Error::NotHeld`] when the hold was lost before the work began, which is then not run, or
    /// before it ended. Its result is then dropped.
    ///
    /// # Examples
    /// ```no_run
    /// # fn work() {}
    /// # fn f(lock: redisson_lock::blocking::Lock) -> Result<(), redisson_lock::Error> {
    /// let guard = lock.lock().run()?;
    /// guard.while_held(|| work())?;
    /// guard.unlock()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn while_held<T>(&self, work: impl FnOnce() -> T) -> Result<T, Error> {
        while_held(|| self.loss(), work)
    }

    /// As [`LockGuard::note`](crate::LockGuard::note). Works everywhere, also in async code.
    pub fn note(&self, note: impl AsRef<str>) {
        self.guard.note(note);
    }

    /// Returns why the hold is lost. `None` while it is held. Does no I/O.
    #[must_use]
    pub fn loss(&self) -> Option<Loss> {
        self.guard.known_loss()
    }

    /// Sleeps until the hold is lost, and returns the reason. Returns `None` if it is still held
    /// after `most`.
    ///
    /// # Errors
    /// [`Error::InAsyncCode`].
    pub fn lost_within(&self, most: Duration) -> Result<Option<Loss>, Error> {
        self.background.run(async { Ok(timeout(most, self.guard.lost()).await.ok()) })
    }

    /// Sleeps until somebody asks for this hold, by
    /// [`Lock::ask_to_release`](crate::blocking::Lock::ask_to_release) in any process. Returns `false`
    /// if nobody has after `most`, or the hold was lost meanwhile. See
    /// [`LockGuard::asked_to_release`](crate::LockGuard::asked_to_release).
    ///
    /// # Errors
    /// [`Error::InAsyncCode`].
    pub fn asked_to_release_within(&self, most: Duration) -> Result<bool, Error> {
        self.background.run(async { Ok(timeout(most, asked(&self.guard)).await == Ok(true)) })
    }

    /// Returns whether somebody has asked for this hold, as far as known. Does no I/O, and works
    /// everywhere. The first call begins to listen, and returns `false`: call it early.
    ///
    /// # Examples
    /// ```no_run
    /// # fn page(number: u32) {}
    /// # fn f(lock: redisson_lock::blocking::Lock) -> Result<(), redisson_lock::Error> {
    /// let guard = lock.lock().run()?;
    /// for number in 1..=1_000 {
    ///     page(number);
    ///     if guard.is_asked_to_release() || !guard.is_held() {
    ///         break; // at a point where another can go on
    ///     }
    /// }
    /// guard.unlock()?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn is_asked_to_release(&self) -> bool {
        self.guard.is_asked_to_release()
    }

    /// Returns how long the hold can be trusted if no further renewal succeeds. Zero when it is
    /// lost. Does no I/O.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.guard.remaining()
    }

    /// Returns whether the hold can be trusted now. Does no I/O. [`check`](LockGuard::check) asks
    /// the server.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.guard.is_held()
    }

    /// Asks the server whether the lock is still held.
    ///
    /// # Errors
    /// As [`LockGuard::check`](crate::LockGuard::check); [`Error::InAsyncCode`].
    pub fn check(&self) -> Result<(), Error> {
        self.background.run(self.guard.check())
    }

    /// Returns how many replicas confirmed the hold when it was granted. `None` when they were not
    /// asked: see [`Config::replicas`](crate::Config::replicas).
    #[must_use]
    pub fn acknowledged(&self) -> Option<u32> {
        self.guard.acknowledged()
    }

    /// Returns how many guards this hold has. It is more than one when the thread has re-entered
    /// the lock.
    #[must_use]
    pub fn hold_count(&self) -> u32 {
        self.guard.hold_count()
    }

    /// Returns the holder id of the hold on the server: `<client uuid>:<number>`. The number is not
    /// the id of the thread: each outermost hold has a new one.
    #[must_use]
    pub fn holder(&self) -> &str {
        self.guard.holder()
    }
}

/// Whether somebody asks for the hold before it is lost.
pub(super) async fn asked(guard: &impl run::Guard) -> bool {
    select! {
        biased;
        () = guard.asked_to_release() => true,
        _ = guard.lost() => false,
    }
}

/// The guard of the calling thread over one of the async API.
pub(super) fn over<G: SingleGuard>(guard: G::Async, background: &Arc<Background>) -> G {
    G::new(guard, background)
}

/// Runs the work if there is no loss before it, and returns its result if there is none after it.
pub(super) fn while_held<T>(
    loss: impl Fn() -> Option<Loss>,
    work: impl FnOnce() -> T,
) -> Result<T, Error> {
    let held = || loss().map_or(Ok(()), |why| Err(Error::NotHeld { why }));
    held()?;
    let done = work();
    held()?;
    Ok(done)
}

/// A hold on a [`FencedLock`](crate::blocking::FencedLock): a [`LockGuard`] with a token.
#[must_use = "the lock is released as soon as the guard is dropped: keep it, `let guard = …` (not `let _ = …`)"]
pub struct FencedGuard {
    guard: LockGuard,
    token: FencingToken,
}

/// Shows the same as [`LockGuard`], and the token.
impl fmt::Debug for FencedGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FencedGuard")
            .field("guard", &self.guard)
            .field("token", &self.token.value())
            .finish()
    }
}

impl FencedGuard {
    /// Returns the token of this hold. See [`FencedGuard::token`](crate::FencedGuard::token) for
    /// what a storage does with it.
    #[must_use]
    pub fn token(&self) -> FencingToken {
        self.token
    }

    /// As [`LockGuard::unlock`].
    ///
    /// # Errors
    /// As [`LockGuard::unlock`].
    pub fn unlock(self) -> Result<(), Error> {
        self.guard.unlock()
    }
}

impl Deref for FencedGuard {
    type Target = LockGuard;

    fn deref(&self) -> &LockGuard {
        &self.guard
    }
}

/// A guard of one lock: [`LockGuard`] or [`FencedGuard`]. It is the `G` of a
/// [`Lock<G>`](crate::blocking::Lock). Sealed.
pub trait SingleGuard: sealed::OverAsync {}

impl SingleGuard for LockGuard {}

impl SingleGuard for FencedGuard {}

impl sealed::OverAsync for LockGuard {
    type Async = guard::LockGuard;

    fn new(guard: guard::LockGuard, background: &Arc<Background>) -> Self {
        Self { guard, background: background.clone(), thread: PhantomData }
    }
}

impl sealed::OverAsync for FencedGuard {
    type Async = fenced_guard::FencedGuard;

    fn new(guard: fenced_guard::FencedGuard, background: &Arc<Background>) -> Self {
        let (guard, token) = guard.into_parts();
        Self { guard: sealed::OverAsync::new(guard, background), token }
    }
}

mod sealed {
    use std::sync::Arc;

    pub trait OverAsync: Sized {
        /// The guard of the async API.
        type Async: crate::guard::SingleGuard;

        fn new(guard: Self::Async, background: &Arc<super::Background>) -> Self;
    }
}
