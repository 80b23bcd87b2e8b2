//! What Redisson's scripts are known to do to a number, and how often it was seen. None of it is a violation.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// The list, each entry with its count.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known(Arc<Mutex<BTreeMap<&'static str, u64>>>);

impl Known {
    pub(crate) fn note(&self, what: &'static str) {
        *self.0.lock().expect("no other has panicked").entry(what).or_default() += 1;
    }

    /// The list as text, a line each.
    pub(crate) fn told(&self) -> String {
        let known = self.0.lock().expect("no other has panicked");
        known.iter().map(|(what, times)| format!("\n{times:>9}  {what}")).collect()
    }
}
