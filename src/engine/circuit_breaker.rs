//! [`CircuitBreaker`]: whether a server is left alone because it did not answer lately.
//!
//! Only `MultiLock::majority` asks it.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::sometimes::sometimes;

use tokio::time::Instant;

/// How long a server that has not answered is left alone.
const PAUSE: Duration = Duration::from_millis(500);

/// Keeps callers that need only a majority of servers from piling up requests at one that hangs.
/// While it is open, such a caller does without the server, if the others decide.
#[derive(Debug, Default)]
pub(crate) struct CircuitBreaker {
    until: Mutex<Option<Instant>>,
}

impl CircuitBreaker {
    fn until(&self) -> MutexGuard<'_, Option<Instant>> {
        self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it is too early to ask the server again.
    pub(crate) fn is_open(&self) -> bool {
        self.until().is_some_and(|until| Instant::now() < until)
    }

    /// The server has not answered in time.
    pub(crate) fn open(&self) {
        sometimes!("circuit breaker: opens");
        *self.until() = Some(Instant::now() + PAUSE);
    }

    /// The server has answered.
    pub(crate) fn close(&self) {
        *self.until() = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_is_open_for_a_while_or_until_the_server_answers() {
        let breaker = CircuitBreaker::default();
        assert!(!breaker.is_open());
        breaker.open();
        tokio::time::advance(PAUSE - Duration::from_nanos(1)).await;
        assert!(breaker.is_open());
        tokio::time::advance(Duration::from_nanos(1)).await;
        assert!(!breaker.is_open());
        breaker.open();
        breaker.close();
        assert!(!breaker.is_open());
    }
}
