//! [`LockGuard`]: a hold, and the end of it.

use std::{fmt, ops::Deref, time::Duration};

use crate::{
    error::{Error, Loss},
    locking::share::Share,
};

/// A hold on a lock. The lock is released when it is [unlocked](LockGuard::unlock) or dropped.
///
/// Owned and `'static`: it may be kept in a struct, sent to another task, and outlive the
/// [`Lock`](crate::Lock) and [`Client`](crate::Client) it came from.
///
/// A guard does not prove that the lock is held: nothing on this side of a network can. It tells
/// when it is not any more: [`lost`](LockGuard::lost), [`is_held`](LockGuard::is_held),
/// [`while_held`](LockGuard::while_held).
///
/// # Dropping
/// Dropping never blocks: the release is queued and sent in the background, at once but not
/// before `drop` returns: a `try_lock` right behind it may still find the lock held. It can also be
/// done outside a runtime. To know that the lock is free, or
/// to learn that it had been lost, [`unlock`](LockGuard::unlock).
///
/// **A program that ends does not wait for what is queued.** A guard that is dropped at the end of `main` is
/// most often not released: its runtime ends before the release is sent, and the lock stays for the rest of
/// its lease, 30 s with the default watchdog. [`unlock`](LockGuard::unlock) the guard, or drop it and then
/// await [`Client::close`](crate::Client::close), which waits for what is queued.
#[must_use = "the lock is released as soon as the guard is dropped: keep it, `let guard = …` (not `let _ = …`)"]
pub struct LockGuard {
    share: Share,
}

/// Which lock, who holds it, and for how long it may still be trusted.
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
    /// Releases the lock; of an owner's hold, one of the times it is held.
    ///
    /// # Errors
    /// [`Error::NotHeld`] when the lock had been lost: others may have held it since. (A hold that goes to
    /// the next caller of this process a few ms after the server confirmed it is not asked after:
    /// [`Config::pass_on`](crate::Config::pass_on).)
    ///
    /// The same with [`Loss::Unknown`] when an answer was lost: the release was sent again and found
    /// nothing, and that may be the work of the first request, or of somebody else before it. The lock is
    /// free, or another's. A hold that the watchdog renews counts as released then if Redis confirmed it less
    /// than half of [`Config::watchdog`](crate::Config::watchdog) before; of one with a lease Redis has said
    /// nothing since it was granted, so it is not guessed. A storage that must know is to be asked by a
    /// [token](FencedGuard::token).
    ///
    /// [`Error::Redis`] when the server did not answer within
    /// [`Config::retry_timeout`](crate::Config::retry_timeout), or refused; the release of a lock
    /// that may still be held goes on in the background until its lease is over, whatever the error.
    ///
    /// # Cancel safety
    /// Dropped before its end, the release goes on in the background.
    pub async fn unlock(self) -> Result<(), Error> {
        let target = self.share.hold().target.clone();
        self.share.release().await.map_err(target.told("releasing"))
    }

    /// Waits until the hold is lost, and says why. For ever, while it is not.
    ///
    /// The end of the lease is told before Redis frees the key: counted from the moment the last
    /// confirmed request was sent, less 1 % of the lease and 2 ms for the drift of clocks.
    ///
    /// # Cancel safety
    /// May be dropped and called again at any time.
    pub async fn lost(&self) -> Loss {
        self.share.hold().lease.lost().await
    }

    /// Runs the work, but no longer than the hold can be trusted.
    ///
    /// # Errors
    /// [`Error::NotHeld`] when the hold is lost before the work is done. The work is dropped then,
    /// wherever it waits. Work that blocks its thread cannot be stopped, but is not taken for done.
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
            // The loss first: work that is ready at the same moment came too late.
            biased;
            why = self.lost() => Err(Error::NotHeld { why }),
            // It may have kept this task from being told.
            done = work => match self.share.hold().lease.loss() {
                None => Ok(done),
                Some(why) => Err(Error::NotHeld { why }),
            },
        }
    }

    /// How long the hold may be trusted if no renewal succeeds any more. Asks nobody.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.share.hold().lease.trusted_for()
    }

    /// Whether the hold can be trusted at this moment. Asks nobody; see
    /// [`check`](LockGuard::check).
    #[must_use]
    pub fn is_held(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// Asks the server whether the lock is still held.
    ///
    /// # Errors
    /// [`Error::NotHeld`] when it is not, [`Error::Redis`] when the server does not say.
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    pub async fn check(&self) -> Result<(), Error> {
        let hold = self.share.hold();
        hold.check().await.map_err(hold.target.told("checking"))
    }

    /// How many replicas had confirmed the hold when it was granted. `None`: they were not asked; see
    /// [`Config::replicas`](crate::Config::replicas).
    #[must_use]
    pub fn acknowledged(&self) -> Option<u32> {
        self.share.hold().acknowledged()
    }

    /// How many guards there are of this hold: more than one where an owner took the lock again.
    #[must_use]
    pub fn hold_count(&self) -> u32 {
        self.share.hold().count()
    }

    /// Under what name the hold stands on the server: `<client uuid>:<number>`, a writer's with
    /// `:write` behind it. A hold that is passed on as it is keeps its name.
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

/// As [`LockGuard`], with the token.
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
    /// The number of this hold, greater than that of every hold before it, as long as the server keeps
    /// its counter. A storage that is told it with each write is safe from holders that slept through the
    /// end of their lease, if it refuses
    /// - a token smaller than the last it has seen,
    /// - and one that is equal, but comes from another [holder](LockGuard::holder).
    ///
    /// A failover may forget the last tokens that were given out: then the next holder is given one that
    /// another has. A server that evicts the counter (`maxmemory-policy allkeys-*`), is flushed or comes
    /// back without its data begins anew at 1: the storage then refuses everybody until the counter is
    /// past its last token again, or someone sets it there.
    ///
    /// All guards of one owner's hold have the token of the outermost.
    #[must_use]
    pub fn token(&self) -> FencingToken {
        self.token
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

/// See [`FencedGuard::token`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(u64);

impl FencingToken {
    pub(crate) fn new(value: u64) -> Self {
        Self(value)
    }

    /// As a storage keeps it.
    pub fn value(self) -> u64 {
        self.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a lock gives to its holder: [`LockGuard`] or [`FencedGuard`].
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
        /// Whether its hold must have a fencing token.
        const HAS_TOKEN: bool;

        fn from_share(share: crate::locking::share::Share) -> Self;
    }
}
