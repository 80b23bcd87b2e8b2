//! Calls of scripts, and their times on the virtual clock.

use std::sync::Arc;

use super::Ms;

pub(crate) const REAL_MS_PER_MS: u64 = 1_000_000;
/// Server time, in real ms, when the virtual clock is at 0.
pub(crate) const EPOCH_MS: i64 = 1_000_000_000_000;
const FAR_FUTURE: i64 = (1 << 53) - 1;

/// A script the server has loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Script {
    pub(super) sha: String,
    /// Its text, without the line that stands before one of ours.
    pub(super) text: Arc<str>,
    /// Whether it takes the time as its last argument.
    pub(super) timed: bool,
}

impl Script {
    /// One that a client of another sort has loaded: its time is what its arguments say.
    pub(crate) fn of_others(sha: String, text: &str) -> Self {
        Self { sha, text: text.into(), timed: false }
    }

    pub(crate) fn sha(&self) -> &str {
        &self.sha
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

/// An argument of a script; times are virtual.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Arg {
    Text(String),
    /// A lease: so long from now.
    Lease(Ms),
    /// Server time past which the copy does nothing.
    NotAfter(Ms),
    /// What a client's clock says.
    Clock(i64),
}

impl Arg {
    /// What the server is told.
    pub(super) fn word(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Lease(lease) => (lease * REAL_MS_PER_MS).to_string(),
            Self::NotAfter(time) => i64::try_from(*time).map_or(FAR_FUTURE, server_ms).to_string(),
            Self::Clock(time) => server_ms(*time).to_string(),
        }
    }
}

/// A word as an argument.
pub(crate) fn text(value: impl ToString) -> Arg {
    Arg::Text(value.to_string())
}

/// A script with its keys and arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Invocation {
    pub(crate) script: Script,
    pub(crate) keys: Vec<String>,
    pub(crate) args: Vec<Arg>,
}

pub(super) fn server_ms(time: i64) -> i64 {
    time.saturating_mul(REAL_MS_PER_MS.cast_signed()).saturating_add(EPOCH_MS).min(FAR_FUTURE)
}
