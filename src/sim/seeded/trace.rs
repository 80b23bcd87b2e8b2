//! [`Trace`]: what happened in a run, as one number, and as text if somebody reads it.

use std::{
    fmt::Arguments,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Mutex, MutexGuard},
};

use tokio::time::Instant;

/// The last lines are kept.
const KEPT: usize = 4_000;

pub(super) struct Trace {
    begun: Instant,
    /// Whether anybody wants to know.
    wanted: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    hash: DefaultHasher,
    lines: std::collections::VecDeque<String>,
}

impl Trace {
    pub(super) fn new(wanted: bool) -> Self {
        Self { begun: Instant::now(), wanted, state: Mutex::default() }
    }

    pub(super) fn has_guard(&self) -> bool {
        self.wanted
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Virtual time since the begin.
    pub(super) fn nanos(&self) -> u64 {
        self.begun.elapsed().as_nanos() as u64
    }

    pub(super) fn note(&self, what: Arguments<'_>) {
        if !self.wanted {
            return;
        }
        let line = format!("{:>12.3} {what}", self.nanos() as f64 / 1e6);
        let mut state = self.state();
        line.hash(&mut state.hash);
        if state.lines.len() == KEPT {
            state.lines.pop_front();
        }
        state.lines.push_back(line);
    }

    pub(super) fn hash(&self) -> u64 {
        self.state().hash.finish()
    }

    pub(super) fn lines(&self) -> Vec<String> {
        self.state().lines.iter().cloned().collect()
    }
}
