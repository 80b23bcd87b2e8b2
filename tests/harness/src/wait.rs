//! Waiting for something to become true, with a bound.

use std::time::{Duration, Instant};

/// How long anything may take before a test gives up on it.
pub const PATIENCE: Duration = Duration::from_secs(30);

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
