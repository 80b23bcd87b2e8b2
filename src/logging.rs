//! `log!`: a line for the program's log.

/// Writes an event of `tracing`: `log!(warn, lock, %error, "could not release")`. A subscriber that panics, as one
/// whose pipe is closed, ends no task of this crate.
macro_rules! log {
    ($level:ident, $($event:tt)*) => {{
        let tell = std::panic::AssertUnwindSafe(|| tracing::$level!($($event)*));
        let _ = std::panic::catch_unwind(tell);
    }};
}
