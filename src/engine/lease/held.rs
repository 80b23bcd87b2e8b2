//! [`Held`]: since when a caller has a hold, and what it says about that.

use std::sync::Arc;

use tokio::time::Instant;

/// The most characters of a note.
pub(super) const LONGEST_NOTE: usize = 200;

/// A hold in the hands of one caller. A hold that is handed off begins anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    /// When the request was sent that was granted, or when the hold was adopted.
    pub(crate) since: Instant,
    pub(crate) note: Option<Arc<str>>,
}

impl Held {
    pub(super) fn since(since: Instant) -> Self {
        Self { since, note: None }
    }

    /// An earlier note is replaced. An empty one is none.
    pub(super) fn note(&mut self, text: &str) {
        let shown = |c: char| if c.is_control() { ' ' } else { c };
        let text: String = text.trim().chars().take(LONGEST_NOTE).map(shown).collect();
        self.note = (!text.is_empty()).then(|| text.into());
    }
}
