//! Crowds at each kind of lock: many owners, in both languages at once, some of whom die, and somebody who knows
//! the rules and looks at what they saw.
//!
//! Figures are printed: `cargo test --test crowds -- --nocapture`. `FENCED_ACQUISITIONS=10000` takes more than the
//! default, `PASSING_SECONDS=600` contends for longer.

mod crowd;
mod fair;
mod fenced;
mod passing;
mod read_write;
