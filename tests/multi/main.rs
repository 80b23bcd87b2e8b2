//! Several locks as one, over several real servers, some of which are killed, stopped, or lose their replies.
//!
//! Figures are printed: `cargo test --test multi -- --nocapture`. The crowds run for a few seconds, or for `MULTI_SECONDS`.

mod all;
mod crowd;
mod fleet;
mod majority;
