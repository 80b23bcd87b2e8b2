//! [`Guard`], the trait of all guards, and how work runs under one: `while_held` and `run`. [`RunError`]:
//! how such work went wrong.

use std::{fmt, pin::pin, time::Duration};

use crate::{
    determinism::select,
    error::{Error, Loss},
};

/// What all guards can do: [`LockGuard`](crate::LockGuard), [`FencedGuard`](crate::FencedGuard),
/// [`SegmentGuard`](crate::SegmentGuard), [`MultiGuard`](crate::MultiGuard) and
/// [`ExpirablePermit`](crate::ExpirablePermit). For code that takes guards of any kind. Sealed.
///
/// The guards have methods of the same names, so the trait need not be imported to call them.
///
/// # Examples
/// ```no_run
/// use redisson_lock::{Error, Guard};
///
/// async fn finish(guard: impl Guard) -> Result<(), Error> {
///     guard.check().await?;
///     guard.unlock().await
/// }
/// ```
pub trait Guard: sealed::Held + fmt::Debug + Send + Sync + 'static {
    /// As [`LockGuard::unlock`](crate::LockGuard::unlock).
    fn unlock(self) -> impl Future<Output = Result<(), Error>> + Send;

    /// As [`LockGuard::lost`](crate::LockGuard::lost).
    fn lost(&self) -> impl Future<Output = Loss> + Send;

    /// As [`LockGuard::check`](crate::LockGuard::check).
    fn check(&self) -> impl Future<Output = Result<(), Error>> + Send;

    /// As [`LockGuard::asked_to_release`](crate::LockGuard::asked_to_release). It never completes for
    /// an [`ExpirablePermit`](crate::ExpirablePermit): nobody can ask for permits.
    fn asked_to_release(&self) -> impl Future<Output = ()> + Send;

    /// As [`LockGuard::remaining`](crate::LockGuard::remaining).
    #[must_use]
    fn remaining(&self) -> Duration;

    /// As [`LockGuard::is_held`](crate::LockGuard::is_held).
    #[must_use]
    fn is_held(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// As [`LockGuard::while_held`](crate::LockGuard::while_held).
    fn while_held<T: Send>(
        &self,
        work: impl Future<Output = T> + Send,
    ) -> impl Future<Output = Result<T, Error>> + Send {
        while_held(self, work)
    }

    /// As [`LockGuard::run`](crate::LockGuard::run).
    fn run<T: Send, E: Send>(
        self,
        work: impl Future<Output = Result<T, E>> + Send,
    ) -> impl Future<Output = Result<T, RunError<T, E>>> + Send
    where
        Self: Sized,
    {
        run(self, work)
    }
}

pub(crate) mod sealed {
    pub trait Held {
        /// Why the hold is lost, as far as known.
        fn known_loss(&self) -> Option<crate::error::Loss>;
    }
}

/// How [`run`](crate::LockGuard::run) went wrong. Each variant says what is known of the work and of
/// the lock.
///
/// | variant | the work | the lock |
/// |---|---|---|
/// | [`NotBegun`](RunError::NotBegun) | did not begin | was lost before |
/// | [`Lost`](RunError::Lost) | was stopped, or ended too late: it may have run beside another holder's | was lost |
/// | [`Failed`](RunError::Failed) | ended with its own error | was held all the time, and is released |
/// | [`ReleaseUnconfirmed`](RunError::ReleaseUnconfirmed) | ended | was held all the time, as far as known; its release is not confirmed, and goes on in the background, unless the client is closed |
#[non_exhaustive]
pub enum RunError<T, E> {
    /// The hold was lost before the work began. The work was not polled.
    NotBegun {
        /// Why the hold ended.
        why: Loss,
    },
    /// The hold was lost on the way. What the work has changed may collide with another holder's
    /// work. With [`Loss::Closed`] the lock stays held until its lease ends.
    Lost {
        /// Why the hold ended.
        why: Loss,
        /// The result of the work, if it ended before its loss was noticed. `None`: it was dropped
        /// at one of its awaits.
        output: Option<Result<T, E>>,
    },
    /// The work ended with this error, under the hold. The lock is released.
    Failed(E),
    /// The work ended under the hold, but it is not confirmed that the lock is released.
    ///
    /// The release goes on in the background. With [`Error::Closed`], or if the client is closed
    /// before its end, it does not: the lock then stays held until its lease ends.
    ///
    /// With [`Loss::Unknown`] the answer to the release was lost. It is then unknown whether the
    /// hold was lost before the release.
    ReleaseUnconfirmed {
        /// Why the release is not confirmed.
        error: Error,
        /// The result of the work.
        output: Result<T, E>,
    },
}

impl<T, E> RunError<T, E> {
    /// Returns the result of the work, if it ended: also when the hold had been lost by then.
    pub fn into_output(self) -> Option<Result<T, E>> {
        match self {
            Self::NotBegun { .. } => None,
            Self::Lost { output, .. } => output,
            Self::Failed(error) => Some(Err(error)),
            Self::ReleaseUnconfirmed { output, .. } => Some(output),
        }
    }

    /// Returns one error of the work's own type: the work's error if it has one, or else that of the
    /// lock. A result of the work is dropped.
    ///
    /// # Examples
    /// ```no_run
    /// # use redisson_lock::{Error, Lock, RunError};
    /// # struct PayError;
    /// # async fn pay() -> Result<u64, PayError> { Ok(1) }
    /// # impl From<Error> for PayError { fn from(_: Error) -> Self { Self } }
    /// async fn pay_once(lock: Lock) -> Result<u64, PayError> {
    ///     let guard = lock.lock().await?;
    ///     guard.run(pay()).await.map_err(RunError::into_error)
    /// }
    /// ```
    pub fn into_error(self) -> E
    where
        E: From<Error>,
    {
        match self {
            Self::Failed(error)
            | Self::Lost { output: Some(Err(error)), .. }
            | Self::ReleaseUnconfirmed { output: Err(error), .. } => error,
            Self::NotBegun { why } | Self::Lost { why, .. } => Error::NotHeld { why }.into(),
            Self::ReleaseUnconfirmed { error, .. } => error.into(),
        }
    }
}

impl<T, E: fmt::Display> fmt::Display for RunError<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotBegun { why } => write!(f, "the work did not begin: the lock is lost: {why}"),
            Self::Lost { why, output: None } => {
                write!(f, "the work was stopped: the lock is lost: {why}")
            }
            Self::Lost { why, output: Some(Ok(_)) } => {
                write!(f, "the work ended, but the lock is lost: {why}")
            }
            Self::Lost { why, output: Some(Err(error)) } => {
                write!(f, "the work failed, and the lock is lost: {why}: {error}")
            }
            Self::Failed(error) => error.fmt(f),
            Self::ReleaseUnconfirmed { error, output: Ok(_) } => {
                write!(f, "the work ended, but the release is not confirmed: {error}")
            }
            Self::ReleaseUnconfirmed { error, output: Err(failed) } => {
                write!(f, "the work failed: {failed}; the release is not confirmed: {error}")
            }
        }
    }
}

/// Shows no value of the work.
impl<T, E: fmt::Debug> fmt::Debug for RunError<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |output: &Result<T, E>| match output {
            Ok(_) => "Ok(..)".to_owned(),
            Err(error) => format!("Err({error:?})"),
        };
        match self {
            Self::NotBegun { why } => write!(f, "NotBegun({why:?})"),
            Self::Lost { why, output: None } => write!(f, "Lost({why:?})"),
            Self::Lost { why, output: Some(output) } => {
                write!(f, "Lost({why:?}, {})", shown(output))
            }
            Self::Failed(error) => f.debug_tuple("Failed").field(error).finish(),
            Self::ReleaseUnconfirmed { error, output } => {
                write!(f, "ReleaseUnconfirmed({error:?}, {})", shown(output))
            }
        }
    }
}

impl<T, E: std::error::Error + 'static> std::error::Error for RunError<T, E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Failed(error) => error.source(),
            Self::ReleaseUnconfirmed { error, .. } => error.source(),
            Self::NotBegun { .. } | Self::Lost { .. } => None,
        }
    }
}

/// Runs `work` until it completes or the hold is lost. An error has the result of work that
/// completed all the same.
async fn watch<T>(
    guard: &(impl Guard + ?Sized),
    work: impl Future<Output = T>,
) -> Result<T, (Loss, Option<T>)> {
    select! {
        // The loss first: work that completes at the same moment came too late.
        biased;
        why = guard.lost() => Err((why, None)),
        // The work may have blocked this task, so that it has not noticed the loss.
        output = work => match guard.known_loss() {
            None => Ok(output),
            Some(why) => Err((why, Some(output))),
        },
    }
}

/// See [`LockGuard::while_held`](crate::LockGuard::while_held).
pub(crate) async fn while_held<T>(
    guard: &(impl Guard + ?Sized),
    work: impl Future<Output = T>,
) -> Result<T, Error> {
    let work = pin!(work);
    watch(guard, work).await.map_err(|(why, _)| Error::NotHeld { why })
}

/// See [`LockGuard::run`](crate::LockGuard::run).
pub(crate) fn run<T, E>(
    guard: impl Guard,
    work: impl Future<Output = Result<T, E>>,
) -> impl Future<Output = Result<T, RunError<T, E>>> {
    // Its fields are dropped in this order, also when it is dropped before it begins.
    let under = Under { work, guard };
    async move {
        let guard = under.guard;
        let work = under.work;
        if let Some(why) = guard.known_loss() {
            return Err(RunError::NotBegun { why });
        }
        // Dropped at the end of this block: what the work undoes as it is dropped comes before the
        // release.
        let ended = {
            let work = pin!(work);
            watch(&guard, work).await
        };
        let output = ended.map_err(|(why, output)| RunError::Lost { why, output })?;
        match (guard.unlock().await, output) {
            (Ok(()), Ok(value)) => Ok(value),
            (Ok(()), Err(error)) => Err(RunError::Failed(error)),
            (Err(Error::NotHeld { why }), output) if why != Loss::Unknown => {
                Err(RunError::Lost { why, output: Some(output) })
            }
            (Err(error), output) => Err(RunError::ReleaseUnconfirmed { error, output }),
        }
    }
}

/// Work that has not begun, and the guard under which it is to run.
struct Under<W, G> {
    work: W,
    guard: G,
}
