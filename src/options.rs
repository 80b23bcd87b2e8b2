//! What can be said of a lock when it is made, whatever the client's configuration says.

use std::time::Duration;

use crate::{error::Error, replicas::Replicas};

/// How one lock is asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LockOptions {
    pub(crate) backoff: SpinBackoff,
    /// If otherwise than the client has it.
    pub(crate) replicas: Option<Replicas>,
}

/// The pauses of a waiter on a spin lock: they double from the first to the longest, and up to a
/// half of each is left to chance, so that waiters do not keep step. One of several waiters of a
/// process looks, at the shortest pause again after each of them that got in.
///
/// Pauses lie between 100 µs and 60 s, and the first is not above the longest: others are refused
/// with [`Error::Invalid`] by the acquisition.
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
        const SHORTEST: Duration = Duration::from_micros(100);
        const LONGEST: Duration = Duration::from_secs(60);
        if self.first < SHORTEST || self.most < self.first || self.most > LONGEST {
            return Err(Error::Invalid(format!(
                "pauses from {:?} to {:?} do not rise between {SHORTEST:?} and {LONGEST:?}",
                self.first, self.most
            )));
        }
        Ok(self)
    }
}
