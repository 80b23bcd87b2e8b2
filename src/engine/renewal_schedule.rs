//! [`RenewalSchedule`]: the holds by the time of their next check by the watchdog.
//!
//! A check renews the hold, or notes its loss. A hold's [`Lease`] says when it is due next.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::time::Instant;

use super::lease::Lease;

/// Holds by the time of their next check. A hold that is not due costs nothing.
#[derive(Debug)]
pub(crate) struct RenewalSchedule {
    begun: Instant,
    /// In ns.
    step: u64,
    /// By the number of the step in which they are due.
    pages: BTreeMap<u64, Vec<Weak<Lease>>>,
}

impl RenewalSchedule {
    pub(crate) fn new(step: Duration) -> Self {
        Self { begun: Instant::now(), step: nanos(step), pages: BTreeMap::new() }
    }

    /// Schedules a check within a step after `at`, not before it.
    pub(crate) fn add(&mut self, at: Instant, lease: &Arc<Lease>) {
        let page = nanos(at.duration_since(self.begun)).div_ceil(self.step);
        self.pages.entry(page).or_default().push(Arc::downgrade(lease));
    }

    /// Removes and returns a hold whose check is due by `by`.
    pub(crate) fn take(&mut self, by: Instant) -> Option<Arc<Lease>> {
        let last = nanos(by.duration_since(self.begun)) / self.step;
        loop {
            let mut first = self.pages.first_entry().filter(|first| *first.key() <= last)?;
            let Some(lease) = first.get_mut().pop() else {
                first.remove();
                continue;
            };
            if let Some(lease) = lease.upgrade() {
                return Some(lease);
            }
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Arc<Lease>> {
        self.pages.values().flatten().filter_map(Weak::upgrade)
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.pages.values().map(Vec::len).sum()
    }
}

/// In ns. More than 500 years count as endless.
fn nanos(time: Duration) -> u64 {
    time.as_nanos().try_into().unwrap_or(u64::MAX)
}
