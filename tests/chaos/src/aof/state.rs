//! A lock as its keys are, and what happened to it.

use std::collections::{BTreeMap, BTreeSet};

use judge::{Mode, Taker};

/// One lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    /// Holders and hold counts.
    pub(crate) holders: BTreeMap<String, u32>,
    /// Whether it is one to read and write.
    pub(crate) has_mode: bool,
    /// When the key ends, by the server's clock.
    pub(crate) until: Option<u64>,
    /// The same of the keys of each reader.
    pub(crate) readers: BTreeMap<String, BTreeMap<String, u64>>,
    pub(crate) queue: Vec<String>,
    pub(crate) token: Option<u64>,
}

/// What happened to a lock besides what its states before and after say.
#[derive(Clone, Debug, Default)]
pub(crate) struct Marks {
    /// Holders whose lock was deleted; they may have it again.
    pub(crate) gone: BTreeSet<String>,
    /// Holders who let go.
    pub(crate) let_go: BTreeSet<String>,
    /// Waiters who gave up.
    pub(crate) gave_up: BTreeSet<String>,
    /// A script deleted the key.
    pub(crate) deleted: bool,
    /// The server deleted it.
    pub(crate) ended: bool,
    /// What the script was called with, if that is known.
    pub(crate) caller: Option<Vec<String>>,
    /// An operator deleted everything, or it was gone after a restart.
    pub(crate) wiped: Option<Taker>,
}

impl Marks {
    /// Whether the call that did it was about this holder. `None`: nobody knows.
    pub(crate) fn names(&self, id: &str) -> Option<bool> {
        let bare = id.strip_suffix(":write").unwrap_or(id);
        self.caller.as_ref().map(|words| words.iter().any(|word| word == id || word == bare))
    }
}

impl State {
    /// When a hold ends, by the server's clock, if it is not renewed.
    pub(crate) fn ends(&self, id: &str) -> Option<u64> {
        let own = self.readers.get(id).and_then(|keys| keys.values().max()).copied();
        match own.filter(|_| self.mode(id) == Mode::Read) {
            Some(own) => Some(self.until.map_or(own, |until| until.min(own))),
            None => self.until,
        }
    }

    pub(crate) fn mode(&self, id: &str) -> Mode {
        match self.has_mode {
            true if id.ends_with(":write") => Mode::Write,
            true => Mode::Read,
            false => Mode::Whole,
        }
    }
}
