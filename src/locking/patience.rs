//! How long an operation may wait, for a lock and for a server that does not answer.

use std::time::Duration;

use tokio::time::Instant;

use crate::{config::Settings, error::Error, replicas::Replicas};

/// Nobody means a longer lease, or a longer wait.
pub(crate) const MOST: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// How long to wait for a lock.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patience {
    /// Not at all: one answer decides.
    Now,
    /// The same, but the answer itself is waited for: until then, if that is bounded.
    Glance(Option<Instant>),
    Until(Instant),
    Forever,
}

impl Patience {
    /// The patience of one who waits so long; not at all, for zero.
    pub(crate) fn of(wait: Duration) -> Result<Self, Error> {
        match wait {
            Duration::ZERO => Ok(Self::Now),
            wait if wait > MOST => {
                Err(Error::Invalid(format!("a wait of {wait:?} is longer than {MOST:?}")))
            }
            wait => Ok(Self::Until(Instant::now() + wait)),
        }
    }

    /// Whether one answer decides.
    pub(crate) fn is_now(self) -> bool {
        matches!(self, Self::Now | Self::Glance(_))
    }

    /// When a wait for the lock is over, if it has an end.
    pub(crate) fn deadline(self) -> Option<Instant> {
        match self {
            Self::Until(deadline) => Some(deadline),
            Self::Now | Self::Glance(_) | Self::Forever => None,
        }
    }

    /// As patient with the server, but not with holders.
    pub(crate) fn glance(self) -> Self {
        match self {
            Self::Until(deadline) => Self::Glance(Some(deadline)),
            Self::Forever => Self::Glance(None),
            Self::Now | Self::Glance(_) => self,
        }
    }

    /// Until when to ask a server that does not answer, by an operation that began at `begun`.
    pub(crate) fn give_up(self, begun: Instant, settings: &Settings) -> Instant {
        let most = begun + settings.retry_timeout;
        match self {
            Self::Now => most.min(begun + settings.command_timeout),
            Self::Until(deadline) | Self::Glance(Some(deadline)) => most.min(deadline),
            Self::Glance(None) | Self::Forever => most,
        }
    }
}

/// How one lock is asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Manner {
    pub(crate) backoff: SpinBackoff,
    /// If otherwise than the client has it.
    pub(crate) replicas: Option<Replicas>,
}

/// The pauses of a waiter on a spin lock: they double from the first to the longest, and up to a
/// half of each is left to chance, so that waiters do not keep step. One of several waiters of a
/// process looks, at the shortest pause again after each of them that got in.
///
/// Pauses lie between 100 µs and 60 s, and the first is not above the longest: others are refused
/// with [`Error::Invalid`](crate::Error::Invalid) by the acquisition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "pauses do nothing by themselves: `client.spin_lock_with(name, pauses)`"]
pub struct SpinBackoff {
    pub(crate) first: Duration,
    pub(crate) most: Duration,
}

impl Default for SpinBackoff {
    /// From 1 ms to 128 ms, as Redisson's.
    fn default() -> Self {
        Self { first: Duration::from_millis(1), most: Duration::from_millis(128) }
    }
}

impl SpinBackoff {
    /// Pauses that double from `first` to `most`.
    pub fn exponential(first: Duration, most: Duration) -> Self {
        Self { first, most }
    }

    /// Pauses that do not grow: each is `pause`, less what is left to chance.
    pub fn constant(pause: Duration) -> Self {
        Self { first: pause, most: pause }
    }

    pub(crate) fn checked(self) -> Result<Self, Error> {
        const LEAST: Duration = Duration::from_micros(100);
        const MOST: Duration = Duration::from_secs(60);
        if self.first < LEAST || self.most < self.first || self.most > MOST {
            return Err(Error::Invalid(format!(
                "pauses from {:?} to {:?} do not rise between {LEAST:?} and {MOST:?}",
                self.first, self.most
            )));
        }
        Ok(self)
    }
}
