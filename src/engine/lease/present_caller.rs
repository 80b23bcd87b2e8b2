//! [`PresentCaller`]: the data of [`caller`](super::caller): since when the caller has the hold, and its note.

use std::sync::Arc;

use tokio::time::Instant;

/// The most characters of a note.
pub(super) const LONGEST_NOTE: usize = 200;

/// The caller that has a hold now. A hold that is handed off has another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PresentCaller {
    /// When the request was sent that was granted, or when the hold was adopted.
    pub(crate) since: Instant,
    pub(crate) note: Option<Arc<str>>,
    /// Whether the hold was granted to it. All others have adopted it.
    pub(super) is_first: bool,
}

impl PresentCaller {
    /// The hold was granted to it.
    pub(super) fn first(since: Instant) -> Self {
        Self { since, note: None, is_first: true }
    }

    /// It has adopted the hold.
    pub(super) fn next(since: Instant) -> Self {
        Self { since, note: None, is_first: false }
    }

    /// An earlier note is replaced. An empty one is none.
    pub(super) fn note(&mut self, text: &str) {
        let shown = |c: char| if c.is_control() { ' ' } else { c };
        let text: String = text.trim().chars().take(LONGEST_NOTE).map(shown).collect();
        self.note = (!text.is_empty()).then(|| text.into());
    }
}
