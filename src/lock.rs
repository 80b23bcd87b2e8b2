//! [`Lock`]: the handle to one lock, and the questions one may ask of it.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use crate::{
    acquire::{Acquire, TryAcquire},
    entry::Entry,
    error::Error,
    protocol::{self, Forced, Snapshot},
};

/// A reentrant lock, as Redisson's `RLock`. Cheap to clone; made by
/// [`Client::lock`](crate::Client::lock) without any I/O.
///
/// A name that cannot be used is reported by the first call that would send something.
#[derive(Clone, Debug)]
pub struct Lock {
    entry: Result<Arc<Entry>, Error>,
}

impl Lock {
    pub(crate) fn new(entry: Result<Arc<Entry>, Error>) -> Self {
        Self { entry }
    }

    pub(crate) fn entry(&self) -> Result<&Arc<Entry>, Error> {
        self.entry.as_ref().map_err(Clone::clone)
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
    /// or a lease is over before the answer comes. [`Error::WrongKind`], [`Error::Invalid`],
    /// [`Error::Closed`].
    ///
    /// # Cancel safety
    /// May be dropped at any time: whatever was or may yet be acquired is released in the
    /// background. The place in line is lost.
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
    pub fn lock(&self) -> Acquire<'_> {
        Acquire::new(self)
    }

    /// Acquires the lock if it is free, or becomes free within [`wait`](TryAcquire::wait). `None`:
    /// it did not.
    ///
    /// # Errors
    /// As [`lock`](Lock::lock).
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
    pub fn try_lock(&self) -> TryAcquire<'_> {
        TryAcquire::new(self)
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

    /// Who holds the lock, how often, and for how long still. Asks the server.
    ///
    /// # Errors
    /// As [`is_locked`](Lock::is_locked).
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    pub async fn inspect(&self) -> Result<Inspection, Error> {
        let entry = self.entry()?;
        let reply = entry.ask(entry.protocol.inspect()).await?;
        let snapshot =
            protocol::inspected(reply).map_err(|error| error.into_error(entry.name()))?;
        Ok(Inspection::new(snapshot, entry.engine.identity.client()))
    }

    /// Frees the lock, whoever holds it, and wakes a waiter. `false`: nobody held it.
    ///
    /// The holder is not asked, and goes on until it looks. A holder of ours with the watchdog is told
    /// by its next renewal; one with a fixed lease, when it asks or its lease ends.
    ///
    /// # Errors
    /// [`Error::Redis`] also when the answer was lost: the lock may have been freed then. It is not
    /// tried again by itself, for that might free the next holder's lock.
    /// [`Error::WrongKind`], [`Error::Invalid`], [`Error::Closed`].
    ///
    /// # Cancel safety
    /// Dropped before its end, the lock may or may not have been freed.
    pub async fn force_unlock(&self) -> Result<bool, Error> {
        let entry = self.entry()?;
        for _ in 0..2 {
            let not_after = entry.engine.not_after(Instant::now());
            let reply = entry.ask(entry.protocol.force_unlock(not_after)).await?;
            match protocol::forced(reply).map_err(|error| error.into_error(entry.name()))? {
                Forced::Freed => return Ok(true),
                Forced::NobodyHeld => return Ok(false),
                // Our idea of the server's clock was wrong; now it is right.
                Forced::Late(now) => entry.engine.clock.observe(now),
            }
        }
        Err(crate::wire::WireError::unanswered("the answers come too late")
            .into_error(entry.name()))
    }

    /// The lock's key on the server, prefix included.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the name cannot be used.
    pub fn name(&self) -> Result<&str, Error> {
        Ok(self.entry()?.name())
    }
}

/// What [`Lock::inspect`] saw.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspection {
    /// Who holds the lock. Empty when it is free.
    pub holders: Vec<Holder>,
    /// How long the lock is still held if nothing happens.
    pub remaining: Remaining,
}

/// One holder of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// `<client uuid>:<number>`; the number is the thread's id where the holder is Java.
    pub id: String,
    /// How many times it holds the lock.
    pub count: u64,
    /// Whether this is a hold of the client that asked.
    pub ours: bool,
}

/// How long a lock is still held if it is neither released nor renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remaining {
    /// Nobody holds it.
    Free,
    /// For so long.
    Held(Duration),
    /// Until it is released. Neither we nor Redisson leave a plain lock without expiry.
    WithoutExpiry,
}

impl Inspection {
    fn new(snapshot: Snapshot, client: &str) -> Self {
        let holders = snapshot
            .fields
            .into_iter()
            .map(|(id, count)| Holder {
                ours: id.strip_prefix(client).is_some_and(|rest| rest.starts_with(':')),
                count: count.parse().unwrap_or(0),
                id,
            })
            .collect();
        let remaining = match snapshot.pttl {
            -2 => Remaining::Free,
            pttl => u64::try_from(pttl)
                .map_or(Remaining::WithoutExpiry, |ms| Remaining::Held(Duration::from_millis(ms))),
        };
        Self { holders, remaining }
    }

    /// Whether anybody holds the lock.
    pub fn is_locked(&self) -> bool {
        !self.holders.is_empty()
    }
}
