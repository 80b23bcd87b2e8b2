//! [`Waiter`]: the deadline, lease and wake-up of one waiter, whatever its place in line.

use std::{borrow::Cow, time::Duration};

use tokio::time::Instant;

use super::Awaited;
use crate::{engine::Backoff, locking::request::within, options::Replicas, protocol::Order};

/// A waiter on a lock that its own client holds for this long may be a mistake.
const WARN_OWN: Duration = Duration::from_secs(5);

/// A waiter logs a warning after this time, and again each time the time has doubled.
const WARN_LONG: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct Waiter<'a> {
    pub(crate) deadline: Option<Instant>,
    pub(crate) lease: Duration,
    pub(crate) replicas: Replicas,
    /// Who orders the waiters.
    pub(crate) order: Order,
    /// The channel of its wake-ups, if there is one.
    pub(crate) channel: Option<Cow<'a, str>>,
    /// Whether it polls beside its wake-ups.
    pub(crate) polls: bool,
    /// The pauses of a waiter that polls.
    pub(crate) pauses: Backoff,
    pub(crate) first_pause: Duration,
    /// How long a head repeats a request that the server does not answer, if its wait is that long.
    pub(crate) retry_timeout: Duration,
    /// Whether the server has told it that the lock is held.
    pub(crate) seen_held: bool,
    pub(crate) warnings: WaitWarnings,
}

impl Waiter<'_> {
    /// Whether it has a place in the server's line, and so none in the local one.
    pub(crate) fn stands_on_server(&self) -> bool {
        self.heartbeat().is_some()
    }

    /// The server has said that the lock is held, and for how long. `asked`: it was asked for the
    /// lock, and not to swap a hold.
    pub(crate) fn held(&mut self, ttl: Option<Duration>, asked: bool) {
        self.seen_held = true;
        // In the server's line, the answer is not about the key.
        if asked && !self.stands_on_server() {
            self.warnings.held(ttl);
        }
    }

    /// Whether its wait has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.deadline.is_some_and(|end| end <= Instant::now())
    }

    /// When to ask again, if no message comes: at the end of the TTL, or before if it polls.
    pub(crate) fn until_asking(&mut self, ttl: Option<Duration>) -> Option<Duration> {
        let pause = self.polls.then(|| self.pauses.next());
        [ttl, pause].into_iter().flatten().min()
    }

    /// How often it has to ask the server to keep its place.
    pub(crate) fn heartbeat(&self) -> Option<Duration> {
        match self.order {
            Order::Server { heartbeat } => Some(heartbeat),
            Order::Local | Order::Shared => None,
        }
    }

    /// `None`: the wait ended before the future completed.
    pub(crate) fn within<T>(
        &self,
        future: impl Future<Output = T>,
    ) -> impl Future<Output = Option<T>> {
        within(self.deadline, future)
    }
}

/// Logs waiters that wait suspiciously long.
#[derive(Debug)]
pub(crate) struct WaitWarnings {
    begun: Instant,
    own_told: bool,
    /// Whether the server has said that the key has no TTL, and whether that was logged.
    lasting: bool,
    lasting_told: bool,
    next: Duration,
}

impl WaitWarnings {
    pub(crate) fn new() -> Self {
        Self {
            begun: Instant::now(),
            own_told: false,
            lasting: false,
            lasting_told: false,
            next: WARN_LONG,
        }
    }

    /// The server has said that the lock is held, and for how long. `None`: the key has no TTL.
    fn held(&mut self, ttl: Option<Duration>) {
        self.lasting = ttl.is_none();
    }

    pub(crate) fn warn(&mut self, awaited: &impl Awaited) {
        let waited = self.begun.elapsed();
        let lock = awaited.name();
        if waited >= WARN_OWN && !self.own_told && awaited.holds_here() > 0 {
            self.own_told = true;
            log!(
                warn,
                lock,
                ?waited,
                "waiting for a lock that this client holds: if this is a re-entry, pass its owner by .by(&mut owner)"
            );
        }
        if self.lasting && !self.lasting_told {
            self.lasting_told = true;
            log!(
                warn,
                lock,
                "waiting for a key without a TTL: a lock has one, unless somebody removed it, so the key may be something else"
            );
        }
        if waited >= self.next {
            self.next *= 2;
            log!(warn, lock, ?waited, "still waiting for a lock");
        }
    }
}

#[cfg(test)]
mod tests;
