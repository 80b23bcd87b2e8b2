//! Crowds at each kind of lock: many owners in both languages at once, some of which die. A judge that knows the rules checks
//! their observations.
//!
//! Figures are printed: `cargo test --test crowds -- --nocapture`. `FENCED_ACQUISITIONS=10000` acquires more often than the
//! default, `PASSING_SECONDS=600` contends for longer.

mod crowd;
mod fair;
mod fenced;
mod passing;
mod read_write;
