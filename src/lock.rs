//! [`Lock`]: the handle to one lock, and the questions one may ask of it.

use std::{fmt, marker::PhantomData, sync::Arc};

use tokio::time::Instant;

use crate::{
    acquire::{Acquire, TryAcquire, Wanted},
    error::Error,
    guard::{FencedGuard, FencingToken, LockGuard},
    inspection::{Access, Inspection, Remaining},
    locking::registry::LockState,
    options::{LockOptions, SpinBackoff},
    protocol::{self, Forced, Kind},
    replicas::Replicas,
};

/// A lock of any kind: see [`Client`](crate::Client) for what makes which. Cheap to clone, and made
/// without any I/O.
///
/// A name that cannot be used is reported by the first call that would send something.
///
/// `G` is what its holder gets.
#[must_use = "a lock is not held until it is acquired: `let guard = lock.lock().await?`"]
pub struct Lock<G = LockGuard> {
    state: Result<Arc<LockState>, Error>,
    options: LockOptions,
    guard: PhantomData<fn() -> G>,
}

/// A lock whose every hold has a number: see [`Client::fenced_lock`](crate::Client::fenced_lock).
pub type FencedLock = Lock<FencedGuard>;

impl<G> Clone for Lock<G> {
    fn clone(&self) -> Self {
        Self { state: self.state.clone(), options: self.options, guard: PhantomData }
    }
}

/// The same lock, without its tokens.
impl From<FencedLock> for Lock {
    fn from(lock: FencedLock) -> Self {
        Self { state: lock.state, options: lock.options, guard: PhantomData }
    }
}

impl<G> From<&Lock<G>> for Lock {
    fn from(lock: &Lock<G>) -> Self {
        Self { state: lock.state.clone(), options: lock.options, guard: PhantomData }
    }
}

impl<G> fmt::Debug for Lock<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.wanted(), f)
    }
}

impl<G> Lock<G> {
    pub(crate) fn new(state: Result<Arc<LockState>, Error>) -> Self {
        Self { state, options: LockOptions::default(), guard: PhantomData }
    }

    pub(crate) fn with_backoff(self, backoff: SpinBackoff) -> Self {
        Self { options: LockOptions { backoff, ..self.options }, ..self }
    }

    /// What an acquisition has to know of it.
    pub(crate) fn wanted(&self) -> Wanted<'_, G> {
        Wanted { state: &self.state, options: self.options, guard: PhantomData }
    }

    /// The same lock, whose holds so many replicas have to confirm, whatever
    /// [`Config::replicas`](crate::Config::replicas) says. An acquisition that too few confirm in time
    /// fails with [`Error::NotReplicated`], and what was taken is released.
    pub fn replicas(self, replicas: Replicas) -> Self {
        Self { options: LockOptions { replicas: Some(replicas), ..self.options }, ..self }
    }

    /// What a caller is told of an error it met with this lock.
    pub(crate) fn told(&self, doing: &'static str) -> impl Fn(Error) -> Error {
        move |error| match &self.state {
            Ok(state) => state.target.told(doing)(error),
            Err(_) => error,
        }
    }

    pub(crate) fn state(&self) -> Result<&Arc<LockState>, Error> {
        self.state.as_ref().map_err(Clone::clone)
    }

    /// Acquires the lock, waiting for it without a bound. Await the result, or first say more:
    /// [`lease`](Acquire::lease), [`by`](Acquire::by).
    ///
    /// With no owner the acquisition is its own: a second one waits for the first to end, also
    /// within one task, as with tokio's `Mutex`.
    ///
    /// # Errors
    /// [`Error::Redis`] when the server cannot be asked for
    /// [`Config::retry_timeout`](crate::Config::retry_timeout): the wait for the lock has no bound,
    /// the wait for Redis has. [`Error::NotHeld`] when the owner's outer hold turns out to be lost,
    /// or a lease is over before the answer comes. [`Error::WouldDeadlock`] when the owner would wait
    /// for itself. [`Error::WrongKind`], [`Error::Invalid`], [`Error::Closed`].
    ///
    /// # Cancel safety
    /// May be dropped at any time: whatever was or may yet be acquired is released in the
    /// background. The place in line is lost.
    ///
    /// A future that is neither polled nor dropped for a second or two loses its place in line to
    /// those behind it, and stands in line anew, at the end, when it is polled again.
    ///
    /// # Examples
    /// ```no_run
    /// # use std::time::Duration;
    /// # async fn f(client: redisson_lock::Client) -> Result<(), redisson_lock::Error> {
    /// let lock = client.lock("order:42");
    /// let guard = lock.lock().await?; // renewed while the guard lives
    /// guard.unlock().await?;
    /// let guard = lock.lock().lease(Duration::from_secs(10)).await?; // never renewed
    /// # drop(guard); Ok(())
    /// # }
    /// ```
    pub fn lock(&self) -> Acquire<'_, G> {
        Acquire::new(self.wanted())
    }

    /// Acquires the lock if it is free, or becomes free within [`wait`](TryAcquire::wait). `None`:
    /// it did not, by the server's last word.
    ///
    /// # Errors
    /// As [`lock`](Lock::lock). [`Error::Redis`] also when the wait ends while the server has not
    /// answered, or after it has failed to: then it is not known whether the lock is free.
    ///
    /// # Cancel safety
    /// As [`lock`](Lock::lock).
    ///
    /// # Examples
    /// ```no_run
    /// # use std::time::Duration;
    /// # async fn f(client: redisson_lock::Client) -> Result<(), redisson_lock::Error> {
    /// let lock = client.lock("order:42");
    /// let Some(guard) = lock.try_lock().wait(Duration::from_secs(3)).await? else {
    ///     return Ok(()); // somebody else is at it
    /// };
    /// # drop(guard); Ok(())
    /// # }
    /// ```
    pub fn try_lock(&self) -> TryAcquire<'_, G> {
        TryAcquire::new(self.wanted())
    }

    /// Whether anybody holds the lock. Asks the server.
    ///
    /// # Errors
    /// [`Error::Redis`], [`Error::WrongKind`], [`Error::Invalid`], [`Error::Closed`].
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    pub async fn is_locked(&self) -> Result<bool, Error> {
        Ok(self.inspect().await?.is_locked())
    }

    /// For how long the lock is still held if it is neither released nor renewed. Asks the server.
    ///
    /// # Errors
    /// As [`is_locked`](Lock::is_locked).
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    pub async fn remaining(&self) -> Result<Remaining, Error> {
        Ok(self.inspect().await?.remaining)
    }

    /// Who holds the lock, how often, and for how long still; of a fair lock also who waits for it.
    /// Asks the server.
    ///
    /// Of a read/write lock one side sees its own holders; [`ReadWriteLock::inspect`] sees both. A
    /// lock of another kind under the same name is shown as far as it can be read.
    ///
    /// [`ReadWriteLock::inspect`]: crate::ReadWriteLock::inspect
    ///
    /// # Errors
    /// As [`is_locked`](Lock::is_locked).
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    pub async fn inspect(&self) -> Result<Inspection, Error> {
        let kind = self.state()?.kind;
        let mut seen = self.inspect_all().await?;
        let access = match kind {
            Kind::Read => Access::Shared,
            _ => Access::Exclusive,
        };
        seen.holders.retain(|holder| holder.access == access);
        if seen.holders.is_empty() {
            seen.remaining = Remaining::Free;
        }
        Ok(seen)
    }

    /// The same with both sides of a read/write lock.
    pub(crate) async fn inspect_all(&self) -> Result<Inspection, Error> {
        let state = self.state()?;
        let target = &state.target;
        let reply =
            target.ask(target.protocol.inspect()).await.map_err(target.told("inspecting"))?;
        let snapshot =
            protocol::inspected(reply).map_err(|error| error.into_error(target.name()))?;
        Ok(Inspection::new(snapshot, state.kind, target.engine.identity.client()))
    }

    /// Frees the lock, whoever holds it, and wakes a waiter. `false`: nobody held it.
    ///
    /// The holder is not asked, and goes on until it looks. A holder of ours with the watchdog is told
    /// by its next renewal; one with a fixed lease, when it asks or its lease ends.
    ///
    /// Of a read/write lock, the read side frees it from all its readers while nobody writes (`false`
    /// if one does), the write side from its writer and what that reads under the write (`false` if
    /// nobody writes).
    ///
    /// # Errors
    /// [`Error::Redis`] also when the answer was lost: the lock may have been freed then. It is not
    /// tried again by itself, for that might free the next holder's lock.
    /// [`Error::WrongKind`], [`Error::Invalid`], [`Error::Closed`].
    ///
    /// # Cancel safety
    /// Dropped before its end, the lock may or may not have been freed.
    pub async fn force_unlock(&self) -> Result<bool, Error> {
        let target = &self.state()?.target;
        let by = Instant::now() + target.engine.settings.command_timeout;
        let mut tries = 2;
        loop {
            tries -= 1;
            let not_after = target.not_after(Instant::now());
            let reply = target.ask_by(target.protocol.force_unlock(not_after), by).await;
            let reply = reply.map_err(target.told("force-unlocking"))?;
            let answer =
                protocol::forced(reply).map_err(|error| error.into_error(target.name()))?;
            match target.in_time(answer) {
                Ok(forced) => return Ok(forced == Forced::Freed),
                Err(error) if tries == 0 => {
                    return Err(target.told("force-unlocking")(error.into_error(target.name())));
                }
                Err(_) => {}
            }
        }
    }

    /// The lock's key on the server, prefix included.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the name cannot be used.
    pub fn name(&self) -> Result<&str, Error> {
        Ok(self.state()?.name())
    }
}

impl Lock<FencedGuard> {
    /// The token that was given out last. `None`: there never was one. Asks the server.
    ///
    /// # Errors
    /// As [`is_locked`](Lock::is_locked).
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    pub async fn token(&self) -> Result<Option<FencingToken>, Error> {
        let target = &self.state()?.target;
        let call = target.protocol.token().expect("a fenced lock has tokens");
        let reply = target.ask(call).await.map_err(target.told("reading the token of"))?;
        let token = protocol::token(&reply).map_err(|error| error.into_error(target.name()))?;
        Ok((token > 0).then(|| FencingToken::new(token)))
    }
}
