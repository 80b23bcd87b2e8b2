//! [`Warnings`]: what the log is told of that goes wrong again and again.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    fmt::Display,
    time::Duration,
};

use tokio::time::Instant;

/// The same warning at most once in this time.
const PAUSE: Duration = Duration::from_secs(10);

/// Which warnings were told when.
#[derive(Default)]
pub(super) struct Warnings {
    told: BTreeMap<String, Instant>,
}

impl Warnings {
    pub(super) fn tell(&mut self, what: &'static str, error: &dyn Display) {
        let now = Instant::now();
        self.told.retain(|_, at| now < *at + PAUSE);
        if let Entry::Vacant(new) = self.told.entry(format!("{what}: {error}")) {
            tracing::warn!(%error, "{what}");
            new.insert(now);
        }
    }
}
