//! [`Waiter`]: what one who waits brings along, whatever its place in line.

use std::{borrow::Cow, time::Duration};

use tokio::time::{Instant, timeout_at};

use super::Awaited;
use crate::{engine::Backoff, protocol::Order, replicas::Replicas};

/// A waiter on a lock that its own client holds may have forgotten whose it is.
const WARN_OWN: Duration = Duration::from_secs(5);

/// A waiter that waits for so long, and each time twice as long, is worth a line in the log.
const WARN_LONG: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct Waiter<'a> {
    pub(crate) deadline: Option<Instant>,
    pub(crate) lease: Duration,
    pub(crate) replicas: Replicas,
    /// Who keeps the order of the waiters.
    pub(crate) order: Order,
    /// Where its wake-ups come, unless nobody wakes it.
    pub(crate) channel: Option<Cow<'a, str>>,
    /// The pauses of one whom nobody wakes.
    pub(crate) pauses: Backoff,
    pub(crate) first_pause: Duration,
    /// How long a head asks a server that does not answer, if it waits for that long.
    pub(crate) retry_timeout: Duration,
    /// Whether the server has told it that the lock is held.
    pub(crate) seen_held: bool,
    pub(crate) worry: Worry,
}

impl Waiter<'_> {
    /// Whether it has a place in the server's line, and so none in ours.
    pub(crate) fn stands_on_server(&self) -> bool {
        self.heartbeat().is_some()
    }

    /// How often it has to show on the server that it is there.
    pub(crate) fn heartbeat(&self) -> Option<Duration> {
        match self.order {
            Order::Server { heartbeat } => Some(heartbeat),
            Order::Local | Order::Shared => None,
        }
    }

    /// `None`: the wait for the lock is over before the future is done.
    pub(crate) async fn within<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        match self.deadline {
            Some(deadline) => timeout_at(deadline, future).await.ok(),
            None => Some(future.await),
        }
    }
}

/// Tells the log of waiters that wait suspiciously long.
#[derive(Debug)]
pub(crate) struct Worry {
    begun: Instant,
    own_told: bool,
    next: Duration,
}

impl Worry {
    pub(crate) fn new() -> Self {
        Self { begun: Instant::now(), own_told: false, next: WARN_LONG }
    }

    pub(crate) fn tell(&mut self, awaited: &impl Awaited) {
        let waited = self.begun.elapsed();
        let lock = awaited.name();
        if waited >= WARN_OWN && !self.own_told && awaited.holds_here() > 0 {
            self.own_told = true;
            tracing::warn!(
                lock,
                ?waited,
                "waiting for a lock that this client holds: if this is a re-entry, pass its owner by .by(&mut owner)"
            );
        }
        if waited >= self.next {
            self.next *= 2;
            tracing::warn!(lock, ?waited, "still waiting for a lock");
        }
    }
}
