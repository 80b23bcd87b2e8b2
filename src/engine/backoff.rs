//! [`Backoff`]: pauses between tries, and whether there is to be another one.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::{
    runtime::{ClientRuntime, RuntimeEnded},
    wire::WireError,
};

/// Growing pauses between the tries of one operation, with jitter so that many do not try as one.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
    most: Duration,
}

impl Backoff {
    pub(crate) fn new() -> Self {
        Self::between(Duration::from_millis(5), Duration::from_millis(500))
    }

    /// For what has to be done in the end. Its pauses are as long as it has lasted already, up to 2 s: what
    /// is over soon is noticed soon, and many that are refused for long do not keep a server busy.
    pub(crate) fn persistent() -> Self {
        Self::between(Duration::from_millis(5), Duration::from_secs(2))
    }

    /// Doubles from the one to the other; up to a half of each pause is left to chance.
    pub(crate) fn between(first: Duration, most: Duration) -> Self {
        Self { next: first, most }
    }

    pub(crate) fn next(&mut self) -> Duration {
        let pause = self.next.mul_f64(0.5 + fastrand::f64() / 2.0);
        self.next = (self.next * 2).min(self.most);
        pause
    }

    /// Whether a call may be made once more for its caller, after `error`; done after a pause.
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

    /// The same for what takes something away from the server, and so has to be done in the end: it is
    /// refused today by a full disk or for want of a right, and not for ever.
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
        // What is of another type is nothing of ours any more.
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
}
