//! Tests of Redisson alone.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs a test in which no code of this crate takes part, and runs it once more if it fails.
///
/// Such a test proves that a scenario tells the truth about Redisson: one success is enough. Redisson itself fails some
/// of them at times: a JVM that gets no processor loses a hold; a subscription is lost when a slot moves twice.
///
/// # Panics
/// When the test fails twice.
pub fn control(name: &str, test: impl Fn()) {
    if catch_unwind(AssertUnwindSafe(&test)).is_err() {
        eprintln!("{name}: Redisson alone failed, so it tries once more");
        test();
    }
}
