//! [`SegmentGuard`]: a hold on one of the segments.

use std::{fmt, ops::Deref, time::Duration};

use crate::{
    error::{Error, Loss},
    guard::LockGuard,
    run::{self, Guard, RunError},
};

/// A hold on a segment of a [`SegmentedLock`](crate::SegmentedLock): a [`LockGuard`] that knows the
/// number of its segment.
#[must_use = "the segment is released as soon as the guard is dropped: keep it, `let guard = …` (not `let _ = …`)"]
pub struct SegmentGuard {
    guard: LockGuard,
    segment: usize,
}

/// Shows the same as [`LockGuard`], and the segment.
impl fmt::Debug for SegmentGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SegmentGuard")
            .field("segment", &self.segment)
            .field("guard", &self.guard)
            .finish()
    }
}

impl SegmentGuard {
    pub(super) fn new(guard: LockGuard, segment: usize) -> Self {
        Self { guard, segment }
    }

    /// Returns the number of the segment, counted from 0.
    #[must_use]
    pub fn segment(&self) -> usize {
        self.segment
    }

    /// Returns the same hold as a guard that does not know its segment.
    pub fn into_guard(self) -> LockGuard {
        self.guard
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

impl Deref for SegmentGuard {
    type Target = LockGuard;

    fn deref(&self) -> &LockGuard {
        &self.guard
    }
}

impl AsRef<LockGuard> for SegmentGuard {
    fn as_ref(&self) -> &LockGuard {
        &self.guard
    }
}

impl run::sealed::Held for SegmentGuard {
    fn known_loss(&self) -> Option<Loss> {
        self.guard.known_loss()
    }
}

impl Guard for SegmentGuard {
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
