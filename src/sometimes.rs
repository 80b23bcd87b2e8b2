//! [`sometimes!`]: marks a rare branch. The simulations count how often each is taken.

/// Counts that this branch was taken, in unit tests. Nothing in production.
macro_rules! sometimes {
    ($branch:literal) => {
        #[cfg(test)]
        $crate::sometimes::taken($branch)
    };
}
pub(crate) use sometimes;

#[cfg(test)]
pub(crate) use self::counters::{counts, taken};

#[cfg(test)]
mod counters {
    use std::{collections::BTreeMap, sync::Mutex};

    static COUNTS: Mutex<BTreeMap<&str, u64>> = Mutex::new(BTreeMap::new());

    /// All branches that are marked.
    const ALL: &[&str] = &[
        "swept: no copy can take the lock any more",
        "swept: it was too early",
        "attempt: parts with unanswered copies",
        "a copy came too late",
        "owner: waits for the release of its own hold",
        "attempt: granted, but not trusted any more",
        "undo: it had been granted",
        "a hold is swapped",
        "swap: the hold was gone",
        "baton: asks whether to hand off",
        "a head that is not polled is put out",
        "head: found that it was put out",
        "line: fails with the one before",
        "line: reads with the one before",
        "line: timed out before its turn",
        "readers share a hold",
        "readers: one asks for all",
        "readers: a gap between reads",
        "readers: a writer may wait elsewhere",
        "readers waited for a writer in vain",
        "lease: taken",
        "lease: gone",
        "lease: expired",
        "renewal: no answer",
        "release: goes on in the background",
        "release: an earlier copy did it",
        "release: unknown who did it",
        "release: waits for the hold count in the background",
        "releases: repeated at another server",
        "releases: answered by another server",
        "batch: one is sent by itself",
        "batch: several in one call",
        "subscriptions: not subscribed yet",
        "subscriptions: lost",
        "subscriptions: the probe fails",
        "majority: those left out are asked too",
        "majority: those left out decide",
        "majority: one joins late",
        "all: a server is silent while locks are held",
        "all: gives back",
        "circuit breaker: opens",
        "re-entry: its owner had released it",
        "a counted request goes on in the background",
        "permits: parts with unanswered copies",
        "withdrawn: it had been granted",
    ];

    pub(crate) fn taken(branch: &'static str) {
        assert!(ALL.contains(&branch), "{branch:?} is not in the list");
        *COUNTS
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .entry(branch)
            .or_default() += 1;
    }

    /// How often each was taken in this process.
    pub(crate) fn counts() -> BTreeMap<&'static str, u64> {
        let counts = COUNTS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        ALL.iter().map(|branch| (*branch, counts.get(branch).copied().unwrap_or(0))).collect()
    }
}
