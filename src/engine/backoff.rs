//! Extends [`Backoff`] of `src/backoff.rs`: whether another copy of a call is sent, after one of its pauses.

use tokio::time::{Instant, sleep};

pub(crate) use crate::backoff::Backoff;
use crate::{
    runtime::{ClientRuntime, RuntimeEnded},
    wire::WireError,
};

impl Backoff {
    /// Whether a call may be retried for its caller, after `error`. Completes after a pause. A refusal
    /// is final.
    pub(crate) async fn retry_unless_refused(
        &mut self,
        runtime: &ClientRuntime,
        error: WireError,
        retry_until: Instant,
    ) -> Result<(), WireError> {
        match error {
            WireError::Unanswered(_) | WireError::NotNow(_) => {
                self.retry_even_if_refused(runtime, error, retry_until).await
            }
            WireError::WrongType | WireError::Refused(_) => Err(error),
        }
    }

    /// Whether an operation may be retried that removes something from the server, after `error`.
    /// Completes after a pause. Such an operation has to be done in the end: a refusal, by a full disk or
    /// for a missing right, may pass.
    pub(crate) async fn retry_even_if_refused(
        &mut self,
        runtime: &ClientRuntime,
        error: WireError,
        retry_until: Instant,
    ) -> Result<(), WireError> {
        let pause = self.next();
        if runtime.has_ended() {
            return Err(RuntimeEnded.into());
        }
        // A key of another type is not this crate's.
        if matches!(error, WireError::WrongType) || Instant::now() + pause >= retry_until {
            return Err(error);
        }
        sleep(pause).await;
        // The process may have stood still meanwhile.
        if Instant::now() < retry_until { Ok(()) } else { Err(error) }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn nothing_is_repeated_that_would_end_too_late_or_cannot_succeed() {
        let (runtime, now) = (ClientRuntime::current(), Instant::now());
        let unanswered = || WireError::unanswered("late");
        let refused = || WireError::from_server("NOPERM");
        let far = now + Duration::from_secs(60);
        let mut backoff = Backoff::new();
        assert!(backoff.retry_unless_refused(&runtime, unanswered(), far).await.is_ok());
        assert!(Instant::now() > now, "after a pause");
        assert!(backoff.retry_unless_refused(&runtime, refused(), far).await.is_err());
        assert!(backoff.retry_even_if_refused(&runtime, refused(), far).await.is_ok());
        assert!(backoff.retry_even_if_refused(&runtime, WireError::WrongType, far).await.is_err());
        let soon = Instant::now() + Duration::from_nanos(1);
        assert!(backoff.retry_even_if_refused(&runtime, unanswered(), soon).await.is_err());
        assert!(backoff.retry_unless_refused(&runtime, unanswered(), soon).await.is_err());
    }
}
