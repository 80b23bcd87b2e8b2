//! `log!`: an event of `tracing`. A subscriber that panics, as one whose pipe is closed, ends no task of this crate.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Writes an event: `log!(warn, lock, %error, "could not release")`.
macro_rules! log {
    ($level:ident, $($event:tt)*) => {
        crate::logging::quietly(|| tracing::$level!($($event)*))
    };
}

/// Does something with a span.
pub(crate) fn quietly(tell: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(tell));
}
