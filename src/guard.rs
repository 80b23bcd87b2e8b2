//! [`LockGuard`]: a hold in the hands of its caller, and how it ends.

use std::{fmt, ops::Deref, time::Duration};

use crate::{
    error::{Error, Loss},
    locking::share::Share,
};

/// A hold on a lock. The lock is released when the guard is [unlocked](LockGuard::unlock) or
/// dropped.
///
/// A guard is owned and `'static`. It may be kept in a struct, sent to another task, and outlive
/// the [`Lock`](crate::Lock) and the [`Client`](crate::Client) it came from.
///
/// A guard does not prove that the lock is still held: no client of a server can. It tells when the
/// hold can no longer be trusted, by [`lost`](LockGuard::lost), [`is_held`](LockGuard::is_held) and
/// [`while_held`](LockGuard::while_held).
///
/// # Dropping
/// Dropping a guard never blocks, and works outside a runtime. It queues the release, which is sent
/// in the background, after `drop` has returned. A `try_lock` right after the drop may therefore
/// still find the lock held. To know that the lock is free, or to learn of a loss, call
/// [`unlock`](LockGuard::unlock).
///
/// **A program that ends does not wait for queued releases.** If a guard is dropped at the end of
/// `main`, its release is usually never sent, because the runtime ends first. The lock then stays
/// held for the rest of its lease: 30 s with the default watchdog. Call
/// [`unlock`](LockGuard::unlock), or drop the guard and then await
/// [`Client::close`](crate::Client::close).
#[must_use = "the lock is released as soon as the guard is dropped: keep it, `let guard = …` (not `let _ = …`)"]
pub struct LockGuard {
    share: Share,
}

/// Shows the lock, the holder, and how long the hold can be trusted.
impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockGuard")
            .field("lock", &self.share.hold().target.name())
            .field("holder", &self.holder())
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}

impl LockGuard {
    /// Releases the lock. If an owner has re-entered it, this undoes one entry.
    ///
    /// If a local waiter exists, the hold may be handed to it instead. See
    /// [`Config::pass_on`](crate::Config::pass_on).
    ///
    /// # Errors
    /// - [`Error::NotHeld`] when the hold was lost: another holder may have had the lock since. A
    ///   hold that is handed off within a few milliseconds after the server confirmed it is not
    ///   checked again.
    /// - [`Error::NotHeld`] with [`Loss::Unknown`] when an answer was lost, and the repeated
    ///   release found no hold. Either the first request released the lock, or it was lost before.
    /// - [`Error::Redis`] when the server does not answer within
    ///   [`Config::retry_timeout`](crate::Config::retry_timeout), or refuses.
    ///
    /// After an error a lock that may still be held is released in the background, until its lease
    /// ends.
    ///
    /// [`Loss::Unknown`] is not returned for a hold that the watchdog renews, if the server
    /// confirmed it less than half of [`Config::watchdog`](crate::Config::watchdog) before: that
    /// counts as released. A hold with a lease gets no confirmation after its grant. A storage that
    /// must be certain checks a [token](FencedGuard::token).
    ///
    /// # Cancel safety
    /// If it is dropped before its end, the release goes on in the background.
    pub async fn unlock(self) -> Result<(), Error> {
        let target = self.share.hold().target.clone();
        self.share.into_baton().pass_or_release().await.map_err(target.told("releasing"))
    }

    /// Waits until the hold is lost, and returns the reason. It does not complete while the hold is
    /// held.
    ///
    /// It completes before the server frees the key at the end of the lease: 1 % of the lease and 2
    /// ms before the lease ends, counted from when the last confirmed request was sent. The margin
    /// allows for clocks that drift.
    ///
    /// # Cancel safety
    /// May be dropped and called again at any time.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn step() -> bool { true }
    /// # async fn f(lock: redisson_lock::Lock) -> Result<(), redisson_lock::Error> {
    /// let guard = lock.lock().await?;
    /// tokio::select! {
    ///     why = guard.lost() => eprintln!("stopping: {why}"),
    ///     _ = step() => guard.unlock().await?,
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn lost(&self) -> Loss {
        self.share.hold().lease.lost().await
    }

    /// Runs `work` until it completes or the hold is lost.
    ///
    /// # Errors
    /// [`Error::NotHeld`] when the hold is lost before the work completes. The work is then dropped
    /// at its current await. Work that blocks its thread cannot be stopped; if the hold is lost
    /// meanwhile, its result is dropped too.
    ///
    /// # Cancel safety
    /// Dropping it drops the work. The guard stays.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn work() {}
    /// # async fn f(lock: redisson_lock::Lock) -> Result<(), redisson_lock::Error> {
    /// let guard = lock.lock().await?;
    /// guard.while_held(work()).await?;
    /// guard.unlock().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn while_held<T>(&self, work: impl Future<Output = T>) -> Result<T, Error> {
        tokio::select! {
            // The loss first: work that completes at the same moment came too late.
            biased;
            why = self.lost() => Err(Error::NotHeld { why }),
            // The work may have blocked this task, so that it has not noticed the loss.
            done = work => match self.loss() {
                None => Ok(done),
                Some(why) => Err(Error::NotHeld { why }),
            },
        }
    }

    /// Why the hold is lost, if it is.
    pub(crate) fn loss(&self) -> Option<Loss> {
        self.share.hold().lease.loss()
    }

    /// Returns how long the hold can be trusted if no further renewal succeeds. Zero when it is
    /// lost. Does no I/O.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.share.hold().lease.trusted_for()
    }

    /// Returns whether the hold can be trusted now. Does no I/O. [`check`](LockGuard::check) asks
    /// the server.
    #[must_use]
    pub fn is_held(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// Asks the server whether the lock is still held.
    ///
    /// # Errors
    /// - [`Error::NotHeld`] when it is not.
    /// - [`Error::Redis`] when the server does not answer within
    ///   [`Config::command_timeout`](crate::Config::command_timeout), or refuses.
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    pub async fn check(&self) -> Result<(), Error> {
        let hold = self.share.hold();
        hold.check().await.map_err(hold.target.told("checking"))
    }

    /// Returns how many replicas confirmed the hold when it was granted. `None` when they were not
    /// asked: see [`Config::replicas`](crate::Config::replicas).
    #[must_use]
    pub fn acknowledged(&self) -> Option<u32> {
        self.share.hold().acknowledged()
    }

    /// Returns how many guards this hold has. It is more than one when an owner has re-entered the
    /// lock.
    #[must_use]
    pub fn hold_count(&self) -> u32 {
        self.share.hold().count()
    }

    /// Returns the holder id of the hold on the server: `<client uuid>:<number>`. A writer's id
    /// ends in `:write`. A hold that is handed off keeps its id, unless the next caller needs
    /// another one.
    #[must_use]
    pub fn holder(&self) -> &str {
        self.share.hold().id().as_str()
    }
}

/// A hold on a [`FencedLock`](crate::FencedLock): a [`LockGuard`] with a token.
#[must_use = "the lock is released as soon as the guard is dropped: keep it, `let guard = …` (not `let _ = …`)"]
pub struct FencedGuard {
    guard: LockGuard,
    token: FencingToken,
}

/// Shows the same as [`LockGuard`], and the token.
impl fmt::Debug for FencedGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FencedGuard")
            .field("lock", &self.guard.share.hold().target.name())
            .field("holder", &self.holder())
            .field("remaining", &self.remaining())
            .field("token", &self.token.value())
            .finish_non_exhaustive()
    }
}

impl FencedGuard {
    /// Returns the token of this hold. It is greater than the tokens of all holds before it, as
    /// long as the server keeps its counter.
    ///
    /// Pass the token to the storage with every write. The storage is safe from holders that slept
    /// past their leases if it refuses
    /// - a token that is smaller than the last one it has seen,
    /// - and a token that is equal to it, but comes from another [holder](LockGuard::holder).
    ///
    /// A failover may forget the last tokens. The next holder then gets a token that another holder
    /// has.
    ///
    /// A server that evicts the counter (`maxmemory-policy allkeys-*`), is flushed, or comes back
    /// without its data starts again at 1. The storage then refuses every writer until the counter
    /// has passed its last token. An operator may set the counter there.
    ///
    /// All guards of one owner's hold have the same token.
    #[must_use]
    pub fn token(&self) -> FencingToken {
        self.token
    }

    #[cfg(feature = "blocking")]
    pub(crate) fn into_parts(self) -> (LockGuard, FencingToken) {
        (self.guard, self.token)
    }

    /// As [`LockGuard::unlock`].
    ///
    /// # Errors
    /// As [`LockGuard::unlock`].
    ///
    /// # Cancel safety
    /// As [`LockGuard::unlock`].
    pub async fn unlock(self) -> Result<(), Error> {
        self.guard.unlock().await
    }
}

impl Deref for FencedGuard {
    type Target = LockGuard;

    fn deref(&self) -> &LockGuard {
        &self.guard
    }
}

/// The token of a fenced hold. See [`FencedGuard::token`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(u64);

impl FencingToken {
    pub(crate) fn new(value: u64) -> Self {
        Self(value)
    }

    /// Returns the token as an integer, for a storage.
    pub fn value(self) -> u64 {
        self.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A guard of a lock: [`LockGuard`] or [`FencedGuard`]. Sealed.
pub trait Guard: sealed::FromShare + Send {}

impl Guard for LockGuard {}

impl Guard for FencedGuard {}

impl sealed::FromShare for LockGuard {
    const HAS_TOKEN: bool = false;

    fn from_share(share: Share) -> Self {
        Self { share }
    }
}

impl sealed::FromShare for FencedGuard {
    const HAS_TOKEN: bool = true;

    fn from_share(share: Share) -> Self {
        let token = share.hold().token().expect("a hold without one is not entered again");
        Self { guard: LockGuard { share }, token: FencingToken(token) }
    }
}

pub(crate) mod sealed {
    pub trait FromShare: Sized {
        /// Whether the hold must have a fencing token.
        const HAS_TOKEN: bool;

        fn from_share(share: crate::locking::share::Share) -> Self;
    }
}
