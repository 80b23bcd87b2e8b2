//! [`Warnings`]: limits how often a failure that goes on is logged.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    fmt::Display,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// The same warning at most once in this time.
const PAUSE: Duration = Duration::from_secs(10);

/// Which warnings were told when.
#[derive(Debug, Default)]
pub(crate) struct Warnings {
    told: Mutex<BTreeMap<String, Instant>>,
}

impl Warnings {
    pub(crate) fn tell(&self, what: &'static str, error: &dyn Display) {
        if self.is_due(format!("{what}: {error}")) {
            log!(warn, %error, "{what}");
        }
    }

    /// Notes that this is told now, unless it was told lately.
    fn is_due(&self, warning: String) -> bool {
        let now = Instant::now();
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.retain(|_, at| now < *at + PAUSE);
        let entry = told.entry(warning);
        let is_due = matches!(entry, Entry::Vacant(_));
        entry.or_insert(now);
        is_due
    }
}
