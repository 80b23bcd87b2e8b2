//! How often a waiter asks the server, whatever it waits for: every 3 s while its subscription is
//! confirmed, every 250 ms while it is not.

use std::time::Duration;

/// No waiter relies on messages for longer than this, because one may be lost.
pub(crate) const ASK_AGAIN: Duration = Duration::from_secs(3);

/// How often a waiter asks while it is not subscribed.
pub(crate) const POLL: Duration = Duration::from_millis(250);
