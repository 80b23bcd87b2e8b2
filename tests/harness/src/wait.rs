//! Waits for a condition, with a bound.

use std::time::{Duration, Instant};

/// How long anything may take before a test gives up on it.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// More than a waiter needs that has missed a message (it looks again every three seconds), on a busy machine; much
/// less than the lease of a watched hold by default, 30 s.
pub const SOON: Duration = Duration::from_secs(12);

const GLANCE: Duration = Duration::from_millis(10);

/// Looks every 10 ms until `look` sees something, and gives that back.
///
/// # Panics
/// When nothing is seen within `limit`; the message says `what` was waited for.
pub async fn eventually<T>(limit: Duration, what: &str, look: impl FnMut() -> Option<T>) -> T {
    glimpse(limit, look).await.unwrap_or_else(|| panic!("waited {limit:?} in vain for {what}"))
}

/// The same; `None` when the time is over.
pub(crate) async fn glimpse<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let started = Instant::now();
    loop {
        if let Some(seen) = look() {
            return Some(seen);
        }
        if started.elapsed() >= limit {
            return None;
        }
        tokio::time::sleep(GLANCE).await;
    }
}

/// The same on a blocking thread.
pub(crate) fn blocking<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let started = Instant::now();
    loop {
        if let Some(seen) = look() {
            return Some(seen);
        }
        if started.elapsed() >= limit {
            return None;
        }
        std::thread::sleep(GLANCE);
    }
}

/// Waits for what has to come within [`SOON`].
///
/// # Panics
/// When it does not come; the message says `what` was waited for.
pub async fn soon<T>(what: &str, future: impl IntoFuture<Output = T>) -> T {
    within(SOON, what, future).await
}

/// Waits for what has to come within `limit`.
///
/// # Panics
/// As [`soon`].
pub async fn within<T>(limit: Duration, what: &str, future: impl IntoFuture<Output = T>) -> T {
    tokio::time::timeout(limit, future.into_future())
        .await
        .unwrap_or_else(|_| panic!("waited {limit:?} in vain {what}"))
}
