//! [`Request`]: the checked options of an acquisition.

use std::time::Duration;

use futures::FutureExt;
use tokio::time::{Instant, timeout_at};

use crate::{
    config::{Settings, whole_ms},
    error::Error,
    locking::acquisition::Acquisition,
    observer::Outcome,
    options::{LockOptions, Replicas, SpinBackoff},
    owner::OwnerId,
};

/// Nothing would be left of a shorter lease after the round trip and the drift of the clocks.
const SHORTEST_LEASE: Duration = Duration::from_millis(10);

/// The longest lease and the longest wait.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// The checked options of an acquisition.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) owner: Option<OwnerId>,
    pub(crate) lease: Duration,
    /// Whether the watchdog is to renew the hold.
    pub(crate) watched: bool,
    /// Whether a reader may share its hold with others of this process.
    pub(crate) may_share: bool,
    /// How many replicas have to confirm the hold.
    pub(crate) replicas: Replicas,
    /// Whether the hold must have a fencing token.
    pub(crate) needs_token: bool,
    pub(crate) bounds: Bounds,
    /// The pauses of a waiter that polls.
    pub(crate) pauses: Pauses,
    /// `None`: nobody observes it.
    pub(crate) acquisition: Option<Box<Acquisition>>,
}

impl Request {
    /// `lease`: `None` for a hold that the watchdog renews.
    pub(crate) fn checked(
        settings: &Settings,
        options: LockOptions,
        owner: Option<OwnerId>,
        lease: Option<Duration>,
        bounds: Bounds,
        needs_token: bool,
    ) -> Result<Self, Error> {
        Ok(Self {
            owner,
            lease: lease.map_or(Ok(settings.watchdog), checked_lease)?,
            watched: lease.is_none(),
            may_share: owner.is_none() && lease.is_none() && !options.apart,
            replicas: options.replicas.unwrap_or(settings.replicas),
            needs_token,
            bounds,
            pauses: checked_pauses(options.backoff)?,
            acquisition: None,
        })
    }

    /// It begins to wait for others.
    pub(crate) fn waits(&self) {
        if let Some(acquisition) = &self.acquisition {
            acquisition.waits();
        }
    }

    /// It is granted, but not by the server.
    pub(crate) fn granted(&self, how: Outcome) {
        if let Some(acquisition) = &self.acquisition {
            acquisition.granted(how);
        }
    }
}

pub(crate) fn checked_lease(lease: Duration) -> Result<Duration, Error> {
    if lease < SHORTEST_LEASE || lease > LONGEST {
        return Err(Error::Invalid(format!(
            "the lease is {lease:?}, but must be between {SHORTEST_LEASE:?} and {LONGEST:?}"
        )));
    }
    Ok(whole_ms(lease))
}

/// The pauses of a waiter that polls, from the first to the longest. In µs, because a request is kept
/// in the future of every acquisition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pauses {
    first: u32,
    longest: u32,
}

impl Pauses {
    pub(crate) fn first(self) -> Duration {
        Duration::from_micros(self.first.into())
    }

    pub(crate) fn longest(self) -> Duration {
        Duration::from_micros(self.longest.into())
    }
}

fn checked_pauses(pauses: SpinBackoff) -> Result<Pauses, Error> {
    const SHORTEST: Duration = Duration::from_micros(100);
    const LONGEST: Duration = Duration::from_secs(60);
    let SpinBackoff { first, most } = pauses;
    if first < SHORTEST || most < first || most > LONGEST {
        return Err(Error::Invalid(format!(
            "pauses from {first:?} to {most:?} are out of range: they must grow, between {SHORTEST:?} and {LONGEST:?}"
        )));
    }
    // At most the longest, so they fit.
    let micros = |pause: Duration| pause.as_micros() as u32;
    Ok(Pauses { first: micros(first), longest: micros(most) })
}

/// How long to wait for one thing.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wait {
    No,
    Until(Instant),
    Forever,
}

/// How long an acquisition may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// How long it waits for a lock that others hold.
    lock: Wait,
    /// How long it repeats a request that the server does not answer: for `Settings::retry_timeout`
    /// at most. With `No`, for `Settings::command_timeout` at most.
    server: Wait,
}

impl Bounds {
    pub(crate) const FOREVER: Self = Self { lock: Wait::Forever, server: Wait::Forever };

    pub(crate) fn until(deadline: Instant) -> Self {
        Self { lock: Wait::Until(deadline), server: Wait::Until(deadline) }
    }

    /// One answer decides. It must come by this moment.
    pub(crate) fn answer_by(end: Instant) -> Self {
        Self { lock: Wait::No, server: Wait::Until(end) }
    }

    /// The bounds of a caller that waits this long. Zero means no wait.
    pub(crate) fn of(wait: Duration) -> Result<Self, Error> {
        match wait {
            Duration::ZERO => Ok(Self { lock: Wait::No, server: Wait::No }),
            wait if wait > LONGEST => Err(Error::Invalid(format!(
                "the wait is {wait:?}, but must be {LONGEST:?} at most"
            ))),
            wait => Ok(Self::until(Instant::now() + wait)),
        }
    }

    /// The same bounds, without a wait for a lock that others hold.
    pub(crate) fn without_waiting(self) -> Self {
        Self { lock: Wait::No, ..self }
    }

    /// Whether one answer decides.
    pub(crate) fn is_one_answer(self) -> bool {
        matches!(self.lock, Wait::No)
    }

    /// When the wait for the lock ends, if it has an end.
    pub(crate) fn deadline(self) -> Option<Instant> {
        match self.lock {
            Wait::Until(deadline) => Some(deadline),
            Wait::No | Wait::Forever => None,
        }
    }

    /// Whether the wait for the lock had an end, which has passed.
    pub(crate) fn has_ended(self) -> bool {
        self.deadline().is_some_and(|end| end <= Instant::now())
    }

    /// Whether the last answer decides: the caller does not wait, or its wait has ended. A further
    /// request would be awaited for another `command_timeout`.
    pub(crate) fn last_answer_decides(self) -> bool {
        self.is_one_answer() || self.has_ended()
    }

    /// Whether requests are repeated until a moment that the caller has set.
    pub(crate) fn has_retry_deadline(self) -> bool {
        matches!(self.server, Wait::Until(_))
    }

    /// By when a call that began at `begun` ends in any case, with all its requests. `None`: it may
    /// wait for the lock for ever, or another moment bounds it.
    pub(crate) fn ends_by(self, begun: Instant, settings: &Settings) -> Option<Instant> {
        match (self.lock, self.server) {
            (Wait::No, Wait::No) => Some(begun + settings.command_timeout),
            // The last request may be under way when the wait ends.
            (Wait::Until(deadline), _) => Some(deadline + settings.command_timeout),
            _ => None,
        }
    }

    /// Sends a request for a call that began at `begun` and has already waited for the server. If
    /// the call has a fixed end, the request has a full time of its own, and is cut off at that
    /// end. Otherwise its retries count from `begun`.
    pub(crate) async fn after_waiting<T, E: From<Error>>(
        self,
        begun: Instant,
        settings: &Settings,
        request: impl AsyncFnOnce(Option<&Instant>) -> Result<T, E>,
    ) -> Result<T, E> {
        let Some(end) = self.ends_by(begun, settings) else { return request(Some(&begun)).await };
        match timeout_at(end, request(None)).await {
            Ok(answer) => answer,
            Err(_) => Err(Error::timed_out().into()),
        }
    }

    /// By when the last answer must come to a wait that ends now.
    pub(crate) fn last_answer_by(self, settings: &Settings) -> Instant {
        self.deadline().unwrap_or_else(Instant::now) + settings.command_timeout
    }

    /// Until when an operation that began at `begun` repeats a request that the server does not
    /// answer.
    pub(crate) fn retry_until(self, begun: Instant, settings: &Settings) -> Instant {
        let most = begun + settings.retry_timeout;
        match self.server {
            Wait::No => most.min(begun + settings.command_timeout),
            Wait::Until(deadline) => most.min(deadline),
            Wait::Forever => most,
        }
    }
}

/// `None`: there is an end, and it came before the future completed.
pub(crate) fn within<T>(
    end: Option<Instant>,
    future: impl Future<Output = T>,
) -> impl Future<Output = Option<T>> {
    match end {
        // Boxed, to keep the future of a waiter without a deadline small.
        Some(end) => Box::pin(timeout_at(end, future).map(Result::ok)).left_future(),
        None => future.map(Some).right_future(),
    }
}

#[cfg(test)]
mod tests;
