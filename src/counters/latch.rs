//! [`CountDownLatch`]: the handle to a latch.

use std::{fmt, time::Duration};

use crate::{
    counters::{opened, show},
    counting::latch::{self, LatchCounter},
    error::Error,
    locking::request::Bounds,
};

/// Redisson counts by Java's `long`.
const MOST_COUNT: u64 = i64::MAX as u64;

/// A handle to one count-down latch, Redisson's `RCountDownLatch`.
/// [`Client::count_down_latch`](crate::Client::count_down_latch) makes it, without any I/O. Cheap to
/// clone.
///
/// A latch is a count on the server. Callers wait until it is 0. The key is then removed, and the
/// latch may be set again. It is shared with Redisson: key, value, channel and messages are the same.
///
/// A latch that was never set, was deleted, or has expired is open: nobody waits for it.
///
/// # Waiting
/// A waiter asks the server, subscribes, and asks again. Then it waits for a message. It looks again
/// by itself every 3 s, and at its deadline. A message alone ends no wait: the server is asked.
///
/// A latch that is set again right after its zero may be closed when a waiter looks. Do not reuse the
/// name of a latch while callers may still wait for its zero.
///
/// # Exactly once
/// Every request that changes the count has an id, which the server keeps for up to 10 min, in the
/// sorted set `redisson_lock_requests:{name}`. A request that is sent again counts once. None is
/// sent again after that time, whatever [`Config::retry_timeout`](crate::Config::retry_timeout) is.
/// Redisson's `countDown` is not sent again in any case.
///
/// An outage of more than 10 min may lose a count-down that was under way when it began. The same is true
/// of a server clock that is set forward by that much. A server that evicts keys may count one twice
/// whose reply was lost.
#[must_use = "a latch does nothing by itself: `latch.wait().await?`"]
#[derive(Clone)]
pub struct CountDownLatch {
    latch: Result<LatchCounter, Error>,
}

impl CountDownLatch {
    pub(crate) fn new(latch: Result<LatchCounter, Error>) -> Self {
        Self { latch }
    }

    fn latch(&self) -> Result<&LatchCounter, Error> {
        opened(&self.latch)
    }

    /// Sets the count of a latch that is not set, Redisson's `trySetCount`. Returns `false` if it is
    /// set.
    ///
    /// # Errors
    /// - [`Error::Redis`] when the server does not answer within
    ///   [`Config::retry_timeout`](crate::Config::retry_timeout), or refuses. It is then unknown
    ///   whether the count was set.
    /// - [`Error::Invalid`] when the name cannot be used, or the count is 0 or more than `i64::MAX`.
    /// - [`Error::Closed`] when the client is closed.
    ///
    /// # Cancel safety
    /// If it is dropped before its end, it goes on in the background.
    pub async fn try_set(&self, count: u64) -> Result<bool, Error> {
        let latch = self.latch()?;
        if !(1..=MOST_COUNT).contains(&count) {
            let text = format!("the count is {count}, but must be between 1 and {MOST_COUNT}");
            return Err(Error::Invalid(text));
        }
        let set = latch.clone().create(move |latch, request| latch.try_set(count, request));
        latch.finish("setting", set).await
    }

    /// Lowers the count by one. At 0 the key is removed, and all waiters are woken. Does nothing to a
    /// latch that is not set.
    ///
    /// # Errors
    /// - [`Error::Redis`] when the server does not answer within
    ///   [`Config::retry_timeout`](crate::Config::retry_timeout), or refuses. The request goes on in
    ///   the background, for about 10 min, and counts once: do not repeat it.
    /// - [`Error::WrongKind`] when the key is no latch.
    /// - [`Error::Invalid`], [`Error::Closed`].
    ///
    /// # Cancel safety
    /// If it is dropped before its end, it goes on in the background.
    pub async fn count_down(&self) -> Result<(), Error> {
        let latch = self.latch()?;
        latch.finish("counting down", latch::count_down(latch.clone())).await
    }

    /// Returns the count: 0 if the latch is not set.
    ///
    /// # Errors
    /// - [`Error::Redis`] when the server does not answer within
    ///   [`Config::command_timeout`](crate::Config::command_timeout), or refuses.
    /// - [`Error::WrongKind`], [`Error::Invalid`], [`Error::Closed`].
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    pub async fn count(&self) -> Result<u64, Error> {
        let latch = self.latch()?;
        let count = latch.number().await;
        count.map(|count| count.max(0) as u64).map_err(latch.with_context("reading"))
    }

    /// Waits until the count is 0, without a bound. Returns at once if the latch is not set.
    ///
    /// # Errors
    /// - [`Error::Redis`] when the server does not answer within
    ///   [`Config::retry_timeout`](crate::Config::retry_timeout), or refuses. The wait for the latch
    ///   has no bound; the wait for the server has.
    /// - [`Error::WrongKind`], [`Error::Invalid`].
    /// - [`Error::Closed`] when the client is closed.
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    pub async fn wait(&self) -> Result<(), Error> {
        let latch = self.latch()?;
        let open = latch::wait(latch, Bounds::FOREVER).await;
        open.map(drop).map_err(latch.with_context("waiting for"))
    }

    /// Waits until the count is 0, for this long at most: 3650 days or less. Returns `false` if the
    /// count was above 0 to the end. At the end the server is asked once more. Its answer
    /// is awaited for at most [`Config::command_timeout`](crate::Config::command_timeout).
    ///
    /// # Errors
    /// As [`wait`](CountDownLatch::wait). [`Error::Redis`] also when the wait ends and the server has
    /// not answered, or has failed to answer: it is then unknown whether the count is 0.
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    pub async fn wait_timeout(&self, timeout: Duration) -> Result<bool, Error> {
        let latch = self.latch()?;
        let open = latch::wait(latch, Bounds::of(timeout)?).await;
        open.map_err(latch.with_context("waiting for"))
    }
}

impl fmt::Debug for CountDownLatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(f, "CountDownLatch", &self.latch)
    }
}
