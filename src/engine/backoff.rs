//! [`Backoff`]: the pauses between two copies of a call, 5 ms to 2 s, and whether another copy is
//! sent.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::{
    runtime::{ClientRuntime, RuntimeEnded},
    wire::WireError,
};

/// Growing, random pauses between the tries of one operation.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
    most: Duration,
}

impl Backoff {
    pub(crate) fn new() -> Self {
        Self::between(Duration::from_millis(5), Duration::from_millis(500))
    }

    /// For an operation that has to succeed in the end. Each pause is about as long as the
    /// operation has lasted, up to 2 s. A short failure is noticed soon, and a long one keeps no
    /// server busy.
    pub(crate) fn persistent() -> Self {
        Self::between(Duration::from_millis(5), Duration::from_secs(2))
    }

    /// Doubles from `first` to `most`. Up to half of each pause is random.
    pub(crate) fn between(first: Duration, most: Duration) -> Self {
        Self { next: first, most }
    }

    pub(crate) fn next(&mut self) -> Duration {
        let pause = self.next.mul_f64(0.5 + fastrand::f64() / 2.0);
        self.next = (self.next * 2).min(self.most);
        pause
    }

    /// Whether a call may be retried for its caller, after `error`. Completes after a pause.
    pub(crate) async fn may_retry(
        &mut self,
        runtime: &ClientRuntime,
        error: WireError,
        retry_until: Instant,
    ) -> Result<(), WireError> {
        match error {
            WireError::Unanswered(_) | WireError::NotNow(_) => {
                self.must_retry(runtime, error, retry_until).await
            }
            WireError::WrongType | WireError::Refused(_) => Err(error),
        }
    }

    /// The same for an operation that removes something from the server. It has to be done in the
    /// end. A refusal, by a full disk or for a missing right, may pass.
    pub(crate) async fn must_retry(
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
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_end_growing() {
        let mut backoff = Backoff::new();
        let pauses: Vec<_> = (0..20).map(|_| backoff.next()).collect();
        assert!(pauses[0] <= Duration::from_millis(5));
        assert!(pauses.iter().all(|pause| *pause <= Duration::from_millis(500)));
        assert!(pauses[19] >= Duration::from_millis(250));
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_repeated_that_would_end_too_late_or_cannot_succeed() {
        let (runtime, now) = (ClientRuntime::current(), Instant::now());
        let unanswered = || WireError::unanswered("late");
        let refused = || WireError::refused("NOPERM");
        let far = now + Duration::from_secs(60);
        let mut backoff = Backoff::new();
        assert!(backoff.may_retry(&runtime, unanswered(), far).await.is_ok());
        assert!(Instant::now() > now, "after a pause");
        assert!(backoff.may_retry(&runtime, refused(), far).await.is_err());
        assert!(backoff.must_retry(&runtime, refused(), far).await.is_ok());
        assert!(backoff.must_retry(&runtime, WireError::WrongType, far).await.is_err());
        let soon = Instant::now() + Duration::from_nanos(1);
        assert!(backoff.must_retry(&runtime, unanswered(), soon).await.is_err());
        assert!(backoff.may_retry(&runtime, unanswered(), soon).await.is_err());
    }
}
