//! [`enough`]: several requests at once, of which some must succeed. A guard releases and checks its
//! locks by it.

use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt};
use tokio::time::{Instant, timeout};

use crate::error::{Error, Loss};

/// The longest wait for parts that are not needed.
const SLOWEST: Duration = Duration::from_millis(20);

/// The parts that have failed: how many in each way, and the first error.
#[derive(Default)]
struct Failures {
    /// The lock was lost.
    lost: (usize, Option<Error>),
    /// It is not known whether it was lost.
    unclear: (usize, Option<Error>),
    /// There was no answer, or another one.
    other: (usize, Option<Error>),
}

impl Failures {
    fn add(&mut self, error: Error) {
        let (count, first) = match error {
            Error::NotHeld { why: Loss::Unknown } => &mut self.unclear,
            Error::NotHeld { .. } => &mut self.lost,
            _ => &mut self.other,
        };
        *count += 1;
        first.get_or_insert(error);
    }

    /// What all of them mean where this many may fail. A loss decides only if it would without the
    /// others: a lock whose server does not answer may be held.
    fn meaning(self, spare: usize) -> Option<Error> {
        let (lost, unclear) = (self.lost, self.unclear);
        if lost.0 > spare {
            lost.1
        } else if lost.0 + unclear.0 > spare {
            unclear.1
        } else {
            self.other.1
        }
    }
}

/// Completes when `need` parts have succeeded, and those that are about as fast. Fails when too few
/// have, after all were tried.
pub(super) async fn enough(
    parts: impl Iterator<Item = impl Future<Output = Result<(), Error>>>,
    need: usize,
) -> Result<(), Error> {
    let begun = Instant::now();
    let mut parts: FuturesUnordered<_> = parts.collect();
    let spare = parts.len().saturating_sub(need);
    let (mut done, mut failures) = (0, Failures::default());
    while done < need {
        match parts.next().await {
            Some(Ok(())) => done += 1,
            Some(Err(error)) => failures.add(error),
            None => return failures.meaning(spare).map_or(Ok(()), Err),
        }
    }
    let grace = begun.elapsed().clamp(Duration::from_millis(1), SLOWEST);
    let _ = timeout(grace, async { while parts.next().await.is_some() {} }).await;
    Ok(())
}

#[cfg(test)]
mod tests;
