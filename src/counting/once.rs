//! [`Once`]: a request that counts once, however many copies of it are sent.

use std::time::Duration;

use tokio::time::Instant;

use crate::{engine::Engine, owner::HoldId};

/// How long the server keeps the id of a request of which a copy may be under way. A request that
/// has no answer after that time is given up.
pub(super) const KEPT: Duration = Duration::from_secs(600);

/// A request whose copies have the same id.
#[derive(Debug)]
pub(super) struct Once {
    pub(super) id: HoldId,
    begun: Instant,
    /// See [`repeatable_for`].
    pub(super) repeatable_for: Duration,
    /// The server's time in ms when the latest copy was sent. 0: unknown.
    sent: u64,
    /// Server time in ms after which no copy may act, once one may have run. The clock of a server
    /// goes on while this process stands still.
    last: Option<u64>,
}

impl Once {
    /// A request that begins now.
    pub(super) fn new(id: HoldId, repeatable_for: Duration) -> Self {
        Self { id, begun: Instant::now(), repeatable_for, sent: 0, last: None }
    }

    /// Until when it may be repeated.
    pub(super) fn repeatable_until(&self) -> Instant {
        self.begun + self.repeatable_for
    }

    /// Notes that a copy is sent at server time `now`. Returns the not-after time of that copy:
    /// `not_after`, or an earlier one.
    pub(super) fn send(&mut self, now: u64, not_after: u64) -> u64 {
        self.sent = now;
        not_after.min(self.last.unwrap_or(u64::MAX))
    }

    /// The latest copy may have run. The server may know the id since then.
    pub(super) fn may_have_run(&mut self) {
        if self.last.is_none() && self.sent > 0 {
            self.last = Some(self.sent + self.repeatable_for.as_millis() as u64);
        }
    }
}

/// How long after its first copy a request may be repeated. The server keeps its id for longer than
/// the last copy is of use.
pub(super) fn repeatable_for(engine: &Engine) -> Duration {
    KEPT.saturating_sub(2 * engine.settings.command_timeout)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::owner::Identity;

    const SECOND: u64 = 1_000;

    fn once() -> Once {
        Once::new(Identity::new().next(), Duration::from_secs(500))
    }

    #[test]
    fn no_copy_acts_when_the_server_may_have_forgotten_the_first_that_may_have_run() {
        let mut once = once();
        assert_eq!(once.send(7_000, 10_000), 10_000);
        assert_eq!(once.send(5_000_000, 5_003_000), 5_003_000, "the first did nothing");
        once.may_have_run();
        once.send(5_001_000, 5_004_000);
        once.may_have_run();
        let last = 5_000_000 + 500 * SECOND;
        assert_eq!(once.send(last - SECOND, last + 2 * SECOND), last);
        assert_eq!(once.send(2 * last, 2 * last + SECOND), last);
    }

    /// As while no server is known for the key.
    #[test]
    fn a_copy_that_was_sent_at_an_unknown_time_is_no_first_one() {
        let mut once = once();
        once.send(0, 3_000);
        once.may_have_run();
        assert_eq!(once.send(5_000_000, 5_003_000), 5_003_000);
    }
}
