//! How long an operation may wait, for a lock and for a server that does not answer.

use tokio::time::Instant;

use crate::config::Settings;

/// How long to wait for a lock.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patience {
    /// Not at all: one answer decides.
    Now,
    Until(Instant),
    Forever,
}

impl Patience {
    /// When a wait for the lock is over, if it has an end.
    pub(crate) fn deadline(self) -> Option<Instant> {
        match self {
            Self::Until(deadline) => Some(deadline),
            Self::Now | Self::Forever => None,
        }
    }

    /// Until when to ask a server that does not answer, by an operation that began at `begun`.
    pub(crate) fn give_up(self, begun: Instant, settings: &Settings) -> Instant {
        let most = begun + settings.retry_timeout;
        match self {
            Self::Now => most.min(begun + settings.command_timeout),
            Self::Until(deadline) => most.min(deadline),
            Self::Forever => most,
        }
    }
}
