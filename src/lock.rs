//! [`Lock`]: the handle to one lock. Its queries are in [`queries`], questions to its holders in
//! [`asking`].

mod asking;
mod queries;

use std::{fmt, sync::Arc};

use tokio::time::Instant;

pub use self::asking::Asked;
use crate::{
    acquire::{Acquire, LockHandle, TryAcquire},
    error::Error,
    fenced_guard::{FencedGuard, FencingToken},
    guard::LockGuard,
    locking::{hold::target::Target, registry::LockState},
    observer::LockKind,
    options::{Replicas, SpinBackoff},
    owner::HoldId,
    protocol::{self, Forced, Snapshot},
};

/// What was being done, for errors.
const FORCE_UNLOCKING: &str = "force-unlocking";

/// A handle to one lock, of any kind. The methods of [`Client`](crate::Client) make it, without any
/// I/O. Cheap to clone.
///
/// A name that cannot be used is reported by the first call that would send a request.
///
/// `G` is the type of its guards.
#[must_use = "a lock is not held until it is acquired: `let guard = lock.lock().await?`"]
pub struct Lock<G = LockGuard> {
    handle: LockHandle<G>,
}

/// A lock whose holds have a token. See [`Client::fenced_lock`](crate::Client::fenced_lock).
pub type FencedLock = Lock<FencedGuard>;

impl<G> Clone for Lock<G> {
    fn clone(&self) -> Self {
        Self { handle: self.handle.clone() }
    }
}

/// The same lock, with guards that show no token.
impl From<FencedLock> for Lock {
    fn from(lock: FencedLock) -> Self {
        Self { handle: lock.handle.erased() }
    }
}

impl<G> From<&Lock<G>> for Lock {
    fn from(lock: &Lock<G>) -> Self {
        Self { handle: lock.handle.erased() }
    }
}

impl<G> fmt::Debug for Lock<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.handle, f)
    }
}

impl<G> Lock<G> {
    pub(crate) fn new(state: Result<Arc<LockState>, Error>) -> Self {
        Self { handle: LockHandle::new(state) }
    }

    pub(crate) fn with_backoff(mut self, backoff: SpinBackoff) -> Self {
        self.handle.options.backoff = backoff;
        self
    }

    /// What an acquisition needs.
    pub(crate) fn handle(&self) -> &LockHandle<G> {
        &self.handle
    }

    /// The same lock, with holds that this many replicas must confirm. It overrides
    /// [`Config::replicas`](crate::Config::replicas).
    ///
    /// If too few replicas confirm within
    /// [`Config::replica_timeout`](crate::Config::replica_timeout), the acquisition fails with
    /// [`Error::NotReplicated`], and the lock is released in the background.
    pub fn replicas(mut self, replicas: Replicas) -> Self {
        self.handle.options.replicas = Some(replicas);
        self
    }

    /// Adds to an error what was being done, and to which lock.
    pub(crate) fn with_context(&self, doing: &'static str) -> impl Fn(Error) -> Error {
        move |error| match &self.handle.state {
            Ok(state) => state.target.with_context(doing)(error),
            Err(_) => error,
        }
    }

    pub(crate) fn state(&self) -> Result<&Arc<LockState>, Error> {
        self.handle.state.as_ref().map_err(Clone::clone)
    }

    /// Acquires the lock, and waits for it without a bound.
    ///
    /// Await the result. Before that, [`lease`](Acquire::lease) and [`by`](Acquire::by) add
    /// options.
    ///
    /// Without an owner the acquisition is its own holder. A second acquisition waits for the first
    /// one's release, even in the same task, as with tokio's `Mutex`.
    ///
    /// # Errors
    /// - [`Error::Redis`] when the server does not answer within
    ///   [`Config::retry_timeout`](crate::Config::retry_timeout), or refuses. The wait for the lock
    ///   has no bound; the wait for the server has.
    /// - [`Error::NotHeld`] when the owner's outer hold is lost, or the lease ends before the
    ///   answer comes.
    /// - [`Error::WouldDeadlock`] when the owner would wait for itself.
    /// - [`Error::NotReplicated`] when too few replicas confirm the hold.
    /// - [`Error::WrongKind`] when the key is not a lock of this kind.
    /// - [`Error::Invalid`] when the name or an option is out of range.
    /// - [`Error::Closed`] when the client is closed.
    ///
    /// # Cancel safety
    /// May be dropped at any time. What was acquired, or may still be acquired, is released in the
    /// background. The place in line is lost.
    ///
    /// A future that is neither polled nor dropped for one to two seconds loses its place in the
    /// local line to the waiters behind it. When it is polled again it stands in line anew, at the
    /// end. If a request of it was under way, the server may grant it the lock. It then holds the
    /// lock until its lease ends, which is not renewed, or until it is dropped.
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
    pub fn lock(&self) -> Acquire<'static, G> {
        Acquire::new(self.handle.clone())
    }

    /// Acquires the lock if it is free, or becomes free within [`wait`](TryAcquire::wait).
    ///
    /// Returns `None` when another holder kept it, according to the server's last answer. Without a
    /// `wait`, one answer decides.
    ///
    /// # Errors
    /// As [`lock`](Lock::lock). [`Error::Redis`] also when the wait ends and the server has not
    /// answered, or has failed to answer: it is then unknown whether the lock is free. Without a
    /// `wait`, the server must answer within
    /// [`Config::command_timeout`](crate::Config::command_timeout).
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
    ///     return Ok(()); // another holder kept it
    /// };
    /// # drop(guard); Ok(())
    /// # }
    /// ```
    pub fn try_lock(&self) -> TryAcquire<'static, G> {
        TryAcquire::new(self.handle.clone())
    }

    /// Frees the lock, whoever holds it, and wakes a waiter. Returns `false` when the lock was
    /// free.
    ///
    /// The holder is not asked, and works on until it notices. The watchdog's next renewal tells a
    /// holder of this crate. A holder with a lease learns of it when it asks the server, or when
    /// its lease ends.
    ///
    /// - The read side frees the lock from all readers. It does nothing and returns `false` while a
    ///   writer holds the lock.
    /// - The write side frees the lock from its writer, and from the reads under that write. It
    ///   returns `false` when there is no writer.
    /// - [`lock`](crate::Client::lock) of that name frees a read/write lock from everybody, as in Redisson. But
    ///   those who wait for it are not woken: they look again after a few seconds.
    ///
    /// # Errors
    /// - [`Error::Redis`] when the server does not answer within
    ///   [`Config::command_timeout`](crate::Config::command_timeout), or refuses. If the answer was
    ///   lost, the lock may have been freed. The request is not repeated, because a repetition
    ///   might free the next holder's lock.
    /// - [`Error::WrongKind`], [`Error::Invalid`], [`Error::Closed`].
    ///
    /// # Cancel safety
    /// If it is dropped before its end, the lock may or may not have been freed.
    pub async fn force_unlock(&self) -> Result<bool, Error> {
        let target = &self.state()?.target;
        let by = Instant::now() + target.engine.settings.command_timeout;
        let mut tries = 2;
        loop {
            tries -= 1;
            let not_after = target.not_after(Instant::now());
            let reply = target.ask_by(target.protocol.force_unlock(not_after), by).await;
            let reply = reply.map_err(target.with_context(FORCE_UNLOCKING))?;
            let answer = protocol::forced(reply).map_err(target.explain(FORCE_UNLOCKING))?;
            match target.in_time(answer) {
                Ok(forced) => return Ok(forced == Forced::Freed),
                Err(error) if tries == 0 => return Err(target.explain(FORCE_UNLOCKING)(error)),
                Err(_) => {}
            }
        }
    }

    /// Frees the lock if this holder has it, and wakes a waiter. Returns `false` when the holder
    /// does not hold the lock, or no longer: the hold of a successor stays.
    ///
    /// `holder` is the id that [`inspect`](Lock::inspect) shows. All entries of the hold are
    /// released. Other readers of a read/write lock stay, as do the reads under a writer's hold.
    /// The holder learns of it as with [`force_unlock`](Lock::force_unlock).
    ///
    /// An id may stand for several holds in turn. A hold that is [handed
    /// off](crate::Config::reuse_holds) within a process keeps its id. A Redisson thread has the same
    /// id each time it holds the lock.
    ///
    /// # Errors
    /// - [`Error::Redis`] as for [`force_unlock`](Lock::force_unlock). The request is not repeated. One
    ///   that is still on its way when the call fails may free the lock later, as long as the id holds
    ///   it: also a later hold of the same id.
    /// - [`Error::Invalid`] when `holder` is not a holder id, or the name cannot be used. The holder of a
    ///   [plain lock](crate::Client::plain_lock) is any token. Also for an id that
    ///   [`inspect`](Lock::inspect) cannot show as it is: of another program's lock, with more than 128
    ///   bytes, or with bytes that are no printable ASCII.
    /// - [`Error::WrongKind`], [`Error::Closed`].
    ///
    /// # Cancel safety
    /// If it is dropped before its end, the lock may or may not have been freed.
    pub async fn force_unlock_if(&self, holder: impl AsRef<str>) -> Result<bool, Error> {
        let (state, holder) = (self.state()?, holder.as_ref());
        let target = &state.target;
        let wrong = || Error::Invalid(format!("{holder:?} is not the id of a holder"));
        let id = match target.kind {
            LockKind::Plain => HoldId::token(holder),
            _ => HoldId::read(holder),
        };
        let id = id.ok_or_else(wrong)?;
        let by = Instant::now() + target.engine.settings.command_timeout;
        let seen = target.ask_by(target.protocol.look_for(&id), by).await;
        let seen = seen.map_err(target.with_context(FORCE_UNLOCKING))?;
        let seen = protocol::inspected(seen).map_err(target.explain(FORCE_UNLOCKING))?;
        if !seen.has(&id) {
            return Ok(false);
        }
        check_sides(&seen, target)?;
        if id.is_writer() != (state.target.kind == LockKind::Write) && seen.has_sides() {
            return Ok(false);
        }
        let reply = target.ask_by(target.protocol.release(&id, 0), by).await;
        let reply = reply.map_err(target.with_context(FORCE_UNLOCKING))?;
        let released = protocol::released(reply).map_err(target.explain(FORCE_UNLOCKING))?;
        if released.is_none() && is_rewritten(holder) {
            let why =
                "is shown in part, or with bytes written as \\xNN: force_unlock frees such a lock";
            return Err(Error::Invalid(format!("{holder:?} {why}")));
        }
        Ok(released.is_some())
    }

    /// Returns the lock's key on the server, prefix included. Does no I/O.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the name cannot be used.
    pub fn name(&self) -> Result<&str, Error> {
        Ok(self.state()?.name())
    }
}

/// Refuses a read/write lock that was seen where another lock is meant, and the other way round.
fn check_sides(seen: &Snapshot, target: &Target) -> Result<(), Error> {
    match seen.has_sides() == target.kind.is_one_side() {
        true => Ok(()),
        false => Err(Error::WrongKind { key: target.name().to_owned() }),
    }
}

/// Whether this may be what [`inspect`](Lock::inspect) shows in the place of another id.
fn is_rewritten(holder: &str) -> bool {
    holder.contains("\\x") || holder.len() >= 128
}

impl Lock<FencedGuard> {
    /// Asks the server for the token of the latest hold, whoever has or had it. `None` when there is
    /// no counter yet. The token of one's own hold is [`FencedGuard::token`].
    ///
    /// # Errors
    /// As [`is_locked`](Lock::is_locked).
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    pub async fn latest_token(&self) -> Result<Option<FencingToken>, Error> {
        let target = &self.state()?.target;
        let call = target.protocol.token().expect("a fenced lock has tokens");
        let doing = "reading the token of";
        let reply = target.ask(call).await.map_err(target.with_context(doing))?;
        let token = protocol::token(&reply).map_err(target.explain(doing))?;
        Ok((token > 0).then(|| FencingToken::new(token)))
    }
}
