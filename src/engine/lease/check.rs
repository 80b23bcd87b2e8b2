//! [`Check`]: the result of a check by the watchdog.

use std::time::Duration;

/// What to do about a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    /// Renew it to this lease. [`renewed`](super::Lease::renewed) or
    /// [`not_renewed`](super::Lease::not_renewed) must follow.
    Renew(Duration),
    /// Nothing yet.
    Wait,
    /// Its trust has ended. [`expired`](super::Lease::expired) must follow.
    Expired,
    /// Nothing any more, or not by this check.
    Over,
}
