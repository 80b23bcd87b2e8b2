//! Options of one lock, which override the client's configuration.

use std::time::Duration;

use crate::{error::Error, replicas::Replicas};

/// The options of one lock.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LockOptions {
    pub(crate) backoff: SpinBackoff,
    /// `None`: as the client's configuration says.
    pub(crate) replicas: Option<Replicas>,
}

/// The pauses between the polls of a waiter on a spin lock.
///
/// They double from the first to the longest. Up to half of each pause is random, so that waiters
/// do not poll in step. Among the waiters of one process only the first polls. After each
/// acquisition the pauses start again at the shortest.
///
/// Pauses lie between 100 µs and 60 s, and the first is at most the longest. The acquisition
/// refuses other values with [`Error::Invalid`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "pauses do nothing by themselves: `client.spin_lock_with(name, pauses)`"]
pub struct SpinBackoff {
    pub(crate) first: Duration,
    pub(crate) most: Duration,
}

impl Default for SpinBackoff {
    /// Pauses from 1 ms to 128 ms, as in Redisson.
    fn default() -> Self {
        Self { first: Duration::from_millis(1), most: Duration::from_millis(128) }
    }
}

impl SpinBackoff {
    /// Pauses that double from `first` to `most`.
    pub fn exponential(first: Duration, most: Duration) -> Self {
        Self { first, most }
    }

    /// Pauses that do not grow. Each is between half of `pause` and `pause`, at random.
    pub fn constant(pause: Duration) -> Self {
        Self { first: pause, most: pause }
    }

    pub(crate) fn checked(self) -> Result<Self, Error> {
        const SHORTEST: Duration = Duration::from_micros(100);
        const LONGEST: Duration = Duration::from_secs(60);
        if self.first < SHORTEST || self.most < self.first || self.most > LONGEST {
            return Err(Error::Invalid(format!(
                "pauses from {:?} to {:?} are out of range: they must grow, between {SHORTEST:?} and {LONGEST:?}",
                self.first, self.most
            )));
        }
        Ok(self)
    }
}
