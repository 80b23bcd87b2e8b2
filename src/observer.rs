//! [`Observer`]: what a program sees of its locks from outside: waits, holds, losses, renewals and
//! releases that fail. Set one by [`Config::observer`](crate::Config::observer).
//!
//! ```text
//! acquisition --others hold it--> wait_begun --+--> acquire_ended (once for each acquisition)
//!             `-------------------------------'        `--new hold--> hold_begun --> hold_ended (once)
//! ```
//!
//! # Events
//! - An **acquisition** begins when its future is first polled, and ends exactly once: also when
//!   its future is dropped, the client is closed, or the server does not answer. A call that is
//!   refused before it begins, with [`Error::Invalid`](crate::Error::Invalid) or
//!   [`Error::Closed`](crate::Error::Closed), is no acquisition.
//! - [`wait_begun`](Observer::wait_begun) tells that an acquisition waits, because others hold the lock
//!   or stand in line. [`acquire_ended`](Observer::acquire_ended) with
//!   [`waited`](AcquireEnded::waited) ends that wait.
//! - A **hold** begins when an acquisition is granted, unless it re-enters, and ends exactly once.
//!   A local hand-off ends the hold of one caller and begins that of the next, though the server
//!   sees one hold that goes on. A hold whose release is repeated in the background ends when the
//!   server confirms it, or when the lease is over.
//! - Each lock of a [`MultiLock`](crate::MultiLock) is observed by itself, and each try for it is an
//!   acquisition.
//! - The [blocking API](crate#feature-flags) is observed as the async API.
//! - Permits of semaphores and waits for latches are not observed: no event, metric or span is about
//!   them.
//!
//! For one acquisition and its hold the order is `wait_begun`, `acquire_ended`, `hold_begun`,
//! `hold_ended`. Across callers there is no order: with a local hand-off the next caller's
//! `hold_begun` follows the `hold_ended` of the one before. A count of holds never drifts.
//!
//! # Threads, blocking, panics
//! An observer is called on the thread where the event happens:
//!
//! | event | thread |
//! |---|---|
//! | `wait_begun`, `acquire_ended`, `hold_begun` | the one that polls, or drops, the acquisition |
//! | `hold_ended` by a release | the one that polls `unlock`, or a background task of the client |
//! | `hold_ended` by a hand-off | the one that polls the next caller's acquisition |
//! | `hold_ended` by a loss | the one that notices it: a background task, or a caller of the guard |
//! | `renewed`, `release_failed` | a background task of the client, or the one that polls `unlock` |
//!
//! It **must not block**, and should take microseconds: callers and the watchdog wait for it. It must
//! not call the crate. Several threads may call it at once.
//!
//! A panic in an observer is caught and logged as an `error`. It changes nothing about the lock, and
//! the observer is called again for the next event. With `panic = "abort"` it ends the process.
//!
//! # Cost
//! Without an observer and without a `tracing` subscriber for `DEBUG`, an acquisition pays for a few
//! loads and branches. So it does if the observer is [not enabled](Observer::is_enabled). With one of
//! them, each acquisition costs a few allocations and reads of the clock more.

mod event;

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use tracing::{Level, span_enabled};

pub use self::event::{
    AcquireEnded, HoldBegun, HoldEnd, HoldEnded, LockKind, Outcome, ReleaseFailed, Renewal,
    WaitBegun,
};

/// Is told what happens to the locks of a client. Each method does nothing by default.
///
/// See the [module](self) for the order of events, the threads, and what a panic does.
///
/// # Examples
/// ```
/// use redisson_lock::{Config, observer::{HoldEnd, HoldEnded, Observer}};
///
/// struct Losses;
///
/// impl Observer for Losses {
///     fn hold_ended(&self, hold: &HoldEnded<'_>) {
///         if let HoldEnd::Lost(why) = hold.end {
///             eprintln!("{} lost {} after {:?}: {why}", hold.holder, hold.lock, hold.duration);
///         }
///     }
/// }
///
/// let config = Config::from_url("redis://127.0.0.1:6379")?.observer(Losses);
/// # Ok::<(), redisson_lock::Error>(())
/// ```
#[allow(unused_variables)]
pub trait Observer: Send + Sync + 'static {
    /// Whether an acquisition that begins now is to be observed, and with it the hold that it begins.
    /// Default: `true`.
    ///
    /// `false` saves nearly all of the [cost](self#cost). Events of this acquisition and its hold may
    /// be told all the same: for a subscriber of `tracing`, for another observer of a pair, or for an
    /// earlier caller of a hold that was handed off.
    fn is_enabled(&self) -> bool {
        true
    }

    /// An acquisition begins to wait for others.
    fn wait_begun(&self, wait: &WaitBegun<'_>) {}

    /// An acquisition has ended, with or without a wait.
    fn acquire_ended(&self, end: &AcquireEnded<'_>) {}

    /// A caller has the lock. [`hold_ended`](Observer::hold_ended) follows.
    fn hold_begun(&self, hold: &HoldBegun<'_>) {}

    /// A caller does not have the lock any more.
    fn hold_ended(&self, end: &HoldEnded<'_>) {}

    /// The server has confirmed a renewal.
    fn renewed(&self, renewal: &Renewal<'_>) {}

    /// A lock could not be released: the server did not answer in time, or refused.
    fn release_failed(&self, failure: &ReleaseFailed<'_>) {}
}

impl<O: Observer + ?Sized> Observer for Arc<O> {
    fn is_enabled(&self) -> bool {
        (**self).is_enabled()
    }

    fn wait_begun(&self, wait: &WaitBegun<'_>) {
        (**self).wait_begun(wait);
    }

    fn acquire_ended(&self, end: &AcquireEnded<'_>) {
        (**self).acquire_ended(end);
    }

    fn hold_begun(&self, hold: &HoldBegun<'_>) {
        (**self).hold_begun(hold);
    }

    fn hold_ended(&self, end: &HoldEnded<'_>) {
        (**self).hold_ended(end);
    }

    fn renewed(&self, renewal: &Renewal<'_>) {
        (**self).renewed(renewal);
    }

    fn release_failed(&self, failure: &ReleaseFailed<'_>) {
        (**self).release_failed(failure);
    }
}

/// Tells both, the first one first. If the first one panics, the second one misses the event.
impl<A: Observer, B: Observer> Observer for (A, B) {
    fn is_enabled(&self) -> bool {
        self.0.is_enabled() || self.1.is_enabled()
    }

    fn wait_begun(&self, wait: &WaitBegun<'_>) {
        self.0.wait_begun(wait);
        self.1.wait_begun(wait);
    }

    fn acquire_ended(&self, end: &AcquireEnded<'_>) {
        self.0.acquire_ended(end);
        self.1.acquire_ended(end);
    }

    fn hold_begun(&self, hold: &HoldBegun<'_>) {
        self.0.hold_begun(hold);
        self.1.hold_begun(hold);
    }

    fn hold_ended(&self, end: &HoldEnded<'_>) {
        self.0.hold_ended(end);
        self.1.hold_ended(end);
    }

    fn renewed(&self, renewal: &Renewal<'_>) {
        self.0.renewed(renewal);
        self.1.renewed(renewal);
    }

    fn release_failed(&self, failure: &ReleaseFailed<'_>) {
        self.0.release_failed(failure);
        self.1.release_failed(failure);
    }
}

/// The observer of a client.
#[derive(Clone)]
pub(crate) struct Observed(Arc<dyn Observer>);

impl Observed {
    pub(crate) fn by(observer: impl Observer) -> Self {
        Self(Arc::new(observer))
    }

    /// Calls the observer. To be called without any lock.
    pub(crate) fn tell(&self, event: impl FnOnce(&dyn Observer)) {
        if catch_unwind(AssertUnwindSafe(|| event(&*self.0))).is_err() {
            log!(error, "an observer panicked; it missed an event");
        }
    }

    /// See [`Observer::is_enabled`].
    pub(crate) fn is_enabled(&self) -> bool {
        catch_unwind(AssertUnwindSafe(|| self.0.is_enabled())).unwrap_or_else(|_| {
            log!(error, "an observer panicked; it misses an acquisition");
            false
        })
    }
}

/// Whether this observer, or a subscriber of `tracing`, is interested in acquisitions and holds.
pub(crate) fn is_observed(observed: Option<&Observed>) -> bool {
    observed.is_some() || span_enabled!(target: "redisson_lock", Level::DEBUG)
}

impl fmt::Debug for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}
