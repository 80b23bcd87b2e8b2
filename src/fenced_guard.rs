//! [`FencedGuard`]: a hold on a fenced lock, with its [token](FencingToken).

use std::{fmt, ops::Deref, time::Duration};

use crate::{
    error::{Error, Loss},
    guard::{LockGuard, SingleGuard, sealed::FromShare},
    locking::share::Share,
    run::{self, Guard, RunError},
};

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
            .field("lock", &self.guard.share().hold().target.name())
            .field("holder", &self.holder())
            .field("remaining", &self.guard.share().hold().lease.trust_left())
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

    /// As [`LockGuard::run`].
    ///
    /// # Errors
    /// As [`LockGuard::run`].
    ///
    /// # Cancel safety
    /// As [`LockGuard::run`].
    pub fn run<T, E>(
        self,
        work: impl Future<Output = Result<T, E>>,
    ) -> impl Future<Output = Result<T, RunError<T, E>>> {
        self.guard.run(work)
    }
}

impl Deref for FencedGuard {
    type Target = LockGuard;

    fn deref(&self) -> &LockGuard {
        &self.guard
    }
}

impl AsRef<LockGuard> for FencedGuard {
    fn as_ref(&self) -> &LockGuard {
        &self.guard
    }
}

impl run::sealed::Held for FencedGuard {
    fn known_loss(&self) -> Option<Loss> {
        self.guard.known_loss()
    }
}

impl Guard for FencedGuard {
    fn unlock(self) -> impl Future<Output = Result<(), Error>> + Send {
        self.unlock()
    }

    fn lost(&self) -> impl Future<Output = Loss> + Send {
        self.guard.lost()
    }

    fn check(&self) -> impl Future<Output = Result<(), Error>> + Send {
        self.guard.check()
    }

    fn asked_to_release(&self) -> impl Future<Output = ()> + Send {
        self.guard.asked_to_release()
    }

    fn remaining(&self) -> Duration {
        self.guard.remaining()
    }
}

impl SingleGuard for FencedGuard {}

impl FromShare for FencedGuard {
    const HAS_TOKEN: bool = true;

    fn from_share(share: Share) -> Self {
        let token = share.hold().token().expect("a hold without one is not entered again");
        Self { guard: LockGuard::from_share(share), token: FencingToken(token) }
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
