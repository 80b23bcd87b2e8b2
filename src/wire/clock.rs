//! [`ServerClock`]: this client's estimate of a server's clock.

use std::sync::atomic::{AtomicI64, Ordering};

use tokio::time::Instant;

/// Estimates the server's clock from the local monotonic clock.
///
/// The estimate lags by up to one round trip, and never runs ahead of what the server said. The
/// server may therefore refuse a request as late too early, and the request is sent again. It never
/// runs later than intended.
#[derive(Debug)]
pub(crate) struct ServerClock {
    base: Instant,
    /// The server time in ms at `base`.
    offset: AtomicI64,
}

impl ServerClock {
    pub(crate) fn new(now: u64) -> Self {
        Self { base: Instant::now(), offset: AtomicI64::new(now as i64) }
    }

    /// Notes the server's time, just received.
    pub(crate) fn observe(&self, now: u64) {
        self.offset.store(now as i64 - self.since_base(Instant::now()), Ordering::Relaxed);
    }

    /// The server's time at this moment, in ms since the epoch.
    pub(crate) fn at(&self, moment: Instant) -> u64 {
        (self.offset.load(Ordering::Relaxed) + self.since_base(moment)).max(0) as u64
    }

    /// Negative for a moment before `base`.
    fn since_base(&self, moment: Instant) -> i64 {
        match moment.checked_duration_since(self.base) {
            Some(after) => after.as_millis() as i64,
            None => -((self.base - moment).as_millis() as i64),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_estimate_follows_the_monotonic_clock_and_what_the_server_says() {
        let clock = ServerClock::new(1_000_000);
        tokio::time::advance(Duration::from_millis(250)).await;
        assert_eq!(clock.at(Instant::now()), 1_000_250);
        clock.observe(500_000);
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(clock.at(Instant::now()), 500_001);
    }

    /// As when the server is newer to the client than a hold.
    #[tokio::test(start_paused = true)]
    async fn it_reaches_back_to_before_the_clock_was_made() {
        let before = Instant::now();
        tokio::time::advance(Duration::from_millis(250)).await;
        let clock = ServerClock::new(1_000_000);
        assert_eq!(clock.at(before), 999_750);
        assert_eq!(ServerClock::new(200).at(before), 0);
    }
}
