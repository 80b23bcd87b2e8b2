//! The durations of many calls.

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::answers::micros;

#[derive(Debug, Default)]
pub(crate) struct Latencies(Vec<Duration>);

/// In microseconds.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Summary {
    p50: u64,
    p99: u64,
    max: u64,
}

impl Latencies {
    pub(crate) fn add_since(&mut self, start: Instant) {
        self.0.push(start.elapsed());
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn summary<'a>(parts: impl Iterator<Item = &'a Self>) -> Summary {
        let mut sorted: Vec<_> = parts.flat_map(|part| part.0.iter().copied()).collect();
        sorted.sort_unstable();
        let percentile = |percent: usize| match (sorted.len() * percent).div_ceil(100) {
            0 => 0,
            rank => micros(sorted[rank - 1]),
        };
        Summary { p50: percentile(50), p99: percentile(99), max: percentile(100) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_rank_is_told() {
        let parts =
            [1..=60, 61..=100].map(|range| Latencies(range.map(Duration::from_micros).collect()));
        let summary = Latencies::summary(parts.iter());
        assert_eq!((summary.p50, summary.p99, summary.max), (50, 99, 100));
    }

    #[test]
    fn of_nothing_there_is_nothing_to_tell() {
        let summary = Latencies::summary(std::iter::empty());
        assert_eq!((summary.p50, summary.p99, summary.max), (0, 0, 0));
    }
}
