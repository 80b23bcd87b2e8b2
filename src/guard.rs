//! [`LockGuard`]: a hold in the hands of its caller, and how it ends. [`asked`]: whether somebody asks
//! for it.

mod asked;
#[cfg(test)]
mod tests;

use std::{fmt, time::Duration};

use crate::{
    error::{Error, Loss},
    locking::share::Share,
    run::{self, Guard, RunError},
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
/// An [`Owner`](crate::Owner) that has dropped its last guard of a lock and wants the lock again
/// waits for the release first. Its next hold is a new one, behind those that are in line.
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
            .field("remaining", &self.share.hold().lease.trust_left())
            .finish_non_exhaustive()
    }
}

impl LockGuard {
    pub(crate) fn share(&self) -> &Share {
        &self.share
    }

    /// Releases the lock. If an owner has re-entered it, this undoes one entry.
    ///
    /// If a local waiter exists, the hold may be handed to it instead. See
    /// [`Config::reuse_holds`](crate::Config::reuse_holds).
    ///
    /// # Errors
    /// - [`Error::NotHeld`] when the hold was lost: another holder may have had the lock since. Not
    ///   every loss is seen. A hold that is handed off a few milliseconds after the server confirmed
    ///   it is not checked again, if the confirmation took less than 0.5 s. Nor is a read hold that
    ///   [other readers](crate::ReadWriteLock) of this client still have.
    /// - [`Error::NotHeld`] with [`Loss::Unknown`] when an answer was lost, and the repeated
    ///   release found no hold. Either the first request released the lock, or it was lost before.
    /// - [`Error::Redis`] when the server does not answer within
    ///   [`Config::retry_timeout`](crate::Config::retry_timeout), or refuses.
    /// - [`Error::Closed`] when the client is closed. The lock stays held until its lease ends.
    ///
    /// After another error a lock that may still be held is released in the background, until its
    /// lease ends or the client is closed.
    ///
    /// [`Loss::Unknown`] is not returned for a hold that the watchdog renews, if the server
    /// confirmed it less than half of [`Config::watchdog`](crate::Config::watchdog) before: that
    /// counts as released. A hold with a lease gets no confirmation after its grant. A storage that
    /// must be certain checks a [token](crate::FencedGuard::token).
    ///
    /// # Cancel safety
    /// If it is dropped before its end, the release goes on in the background. A future that is neither
    /// polled nor dropped repeats no request that failed. For a shorter bound
    /// than [`Config::retry_timeout`](crate::Config::retry_timeout), drop it when the time is over:
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # async fn f(guard: redisson_lock::LockGuard) -> Result<(), redisson_lock::Error> {
    /// match tokio::time::timeout(Duration::from_secs(1), guard.unlock()).await {
    ///     Ok(unlocked) => unlocked?,
    ///     Err(_) => eprintln!("not confirmed yet"), // it goes on
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn unlock(self) -> Result<(), Error> {
        let target = self.share.hold().target.clone();
        self.share
            .into_baton()
            .hand_off_or_release()
            .await
            .map_err(target.with_context("releasing"))
    }

    /// Says what the lock is held for, to operators who ask who holds it:
    /// [`Lock::inspect`](crate::Lock::inspect) shows it in [`Announced::note`](crate::Announced).
    ///
    /// It is written in the background when the hold is older than a third of
    /// [`Config::watchdog`](crate::Config::watchdog), and only if the client
    /// [announces](crate::Config::announce) itself. Otherwise this does nothing. Does no I/O.
    ///
    /// The first 200 characters count, and control characters become spaces. A later note replaces
    /// an earlier one; all guards of one hold share one. A hold that is [handed
    /// off](crate::Config::reuse_holds) loses it.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn f(lock: redisson_lock::Lock) -> Result<(), redisson_lock::Error> {
    /// let guard = lock.lock().note("reindex of shop 7").await?;
    /// guard.note("reindex of shop 7: page 2 of 9");
    /// # Ok(())
    /// # }
    /// ```
    pub fn note(&self, note: impl AsRef<str>) {
        let hold = self.share.hold();
        if hold.target.engine.announces() {
            hold.lease.note(note.as_ref());
        }
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
    pub fn while_held<T>(
        &self,
        work: impl Future<Output = T>,
    ) -> impl Future<Output = Result<T, Error>> {
        run::while_held(self, work)
    }

    /// Runs fallible work under the hold, and releases the lock. The error says how far it came.
    ///
    /// The work is a future. It begins when this is awaited, if the hold is still held. It is
    /// dropped at its current await if the hold is lost. In each case the lock is released when the
    /// work is over, also when the work fails. Only a client that is closed meanwhile releases
    /// nothing: the lock then stays held until its lease ends.
    ///
    /// # Errors
    /// - [`RunError::NotBegun`] when the hold was lost before.
    /// - [`RunError::Lost`] when the hold was lost on the way, or the release finds that it was.
    /// - [`RunError::Failed`] with the error of the work.
    /// - [`RunError::ReleaseUnconfirmed`] when the work ended, but the release is not confirmed: see the
    ///   errors of [`unlock`](LockGuard::unlock).
    ///
    /// Work that ended keeps its result in these errors: see
    /// [`into_output`](RunError::into_output). [`into_error`](RunError::into_error) makes one error
    /// of them.
    ///
    /// # Cancel safety
    /// Dropping it drops the work, and then releases the lock as a dropped guard does. So does a
    /// panic of the work.
    ///
    /// # Examples
    /// ```no_run
    /// # use redisson_lock::{Error, RunError};
    /// # async fn pay() -> Result<u64, std::io::Error> { Ok(1) }
    /// # async fn f(lock: redisson_lock::Lock) -> Result<(), Error> {
    /// let guard = lock.lock().await?;
    /// match guard.run(pay()).await {
    ///     Ok(receipt) => println!("paid: {receipt}"),
    ///     Err(RunError::NotBegun { .. }) => println!("not paid, try again"),
    ///     Err(RunError::Failed(error)) => println!("not paid: {error}"),
    ///     Err(RunError::ReleaseUnconfirmed { output: Ok(receipt), .. }) => println!("paid: {receipt}"),
    ///     Err(error) => println!("look whether it was paid: {error}"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn run<T, E>(
        self,
        work: impl Future<Output = Result<T, E>>,
    ) -> impl Future<Output = Result<T, RunError<T, E>>> {
        run::run(self, work)
    }

    /// Returns how long the hold can be trusted if no further renewal succeeds. Zero when it is
    /// lost, which is then told to the observer. Does no I/O.
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
        hold.check().await.map_err(hold.target.with_context("checking"))
    }

    /// Returns how many replicas confirmed the hold when it was granted. `None` when they were not
    /// asked: see [`Config::replicas`](crate::Config::replicas).
    #[must_use]
    pub fn acknowledged(&self) -> Option<u32> {
        self.share.hold().acknowledged()
    }

    /// Returns the hold count on the server. It is more than one when an owner has re-entered the
    /// lock. [Readers](crate::ReadWriteLock) that share a hold count once.
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

impl AsRef<LockGuard> for LockGuard {
    fn as_ref(&self) -> &LockGuard {
        self
    }
}

impl run::sealed::Held for LockGuard {
    fn known_loss(&self) -> Option<Loss> {
        self.share.hold().lease.loss()
    }
}

impl Guard for LockGuard {
    fn unlock(self) -> impl Future<Output = Result<(), Error>> + Send {
        self.unlock()
    }

    fn lost(&self) -> impl Future<Output = Loss> + Send {
        self.lost()
    }

    fn check(&self) -> impl Future<Output = Result<(), Error>> + Send {
        self.check()
    }

    fn asked_to_release(&self) -> impl Future<Output = ()> + Send {
        self.asked_to_release()
    }

    fn remaining(&self) -> Duration {
        self.remaining()
    }
}

/// A guard of one lock: [`LockGuard`] or [`FencedGuard`](crate::FencedGuard). It is the `G` of a
/// [`Lock<G>`](crate::Lock). Sealed.
pub trait SingleGuard: Guard + AsRef<LockGuard> + sealed::FromShare {}

impl SingleGuard for LockGuard {}

impl sealed::FromShare for LockGuard {
    const HAS_TOKEN: bool = false;

    fn from_share(share: Share) -> Self {
        Self { share }
    }
}

pub(crate) mod sealed {
    pub trait FromShare: Sized {
        /// Whether the hold must have a fencing token.
        const HAS_TOKEN: bool;

        fn from_share(share: crate::locking::share::Share) -> Self;
    }
}
