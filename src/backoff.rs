//! [`Backoff`]: the pauses between the tries of one operation.

use std::time::Duration;

/// Growing, random pauses between the tries of one operation.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
    most: Duration,
}

impl Backoff {
    pub(crate) fn new() -> Self {
        Self::between(Duration::from_millis(5), Duration::from_millis(500))
    }

    /// For an operation that has to succeed in the end. Each pause is about as long as the
    /// operation has lasted, up to 2 s. A short failure is noticed soon, and a long one keeps no
    /// server busy.
    pub(crate) fn persistent() -> Self {
        Self::between(Duration::from_millis(5), Duration::from_secs(2))
    }

    /// Doubles from `first` to `most`. Up to half of each pause is random.
    pub(crate) fn between(first: Duration, most: Duration) -> Self {
        Self { next: first, most }
    }

    pub(crate) fn next(&mut self) -> Duration {
        let pause = self.next.mul_f64(0.5 + fastrand::f64() / 2.0);
        self.next = (self.next * 2).min(self.most);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_end_growing() {
        let mut backoff = Backoff::new();
        let pauses: Vec<_> = (0..20).map(|_| backoff.next()).collect();
        assert!(pauses[0] <= Duration::from_millis(5));
        assert!(pauses.iter().all(|pause| *pause <= Duration::from_millis(500)));
        assert!(pauses[19] >= Duration::from_millis(250));
    }
}
