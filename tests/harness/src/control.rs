//! Tests of Redisson alone.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// How often a test may fail at most.
const FAILURES: usize = 2;

/// Runs a test in which no code of this crate takes part, and runs it up to two times more if it fails.
///
/// Such a test proves that a scenario tells the truth about Redisson: one success is enough. Redisson itself fails some
/// of them at times: a JVM that gets no processor loses a hold; a subscription is lost when a slot moves twice; where many
/// programs want the processors, a waiter for a write lock is not woken in 4 of 14 runs of twenty hand-overs (0 of 12 alone).
///
/// # Panics
/// When the test fails three times.
pub fn control(name: &str, test: impl Fn()) {
    for _ in 0..FAILURES {
        if catch_unwind(AssertUnwindSafe(&test)).is_ok() {
            return;
        }
        eprintln!("{name}: Redisson alone failed, so it tries once more");
    }
    test();
}
