//! The answers of a peer.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

/// How a peer introduces itself.
#[derive(Debug, Clone, Deserialize)]
pub struct Hello {
    /// `redisson` or `redisson-lock`.
    #[serde(rename = "impl")]
    pub implementation: String,
    /// Its version.
    pub version: String,
    /// The id of its client, as holders carry it.
    pub client: String,
}

/// The answer to an operation that succeeded.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// What came of it.
    pub value: Value,
    /// How long it took, in microseconds.
    pub us: u64,
    /// When it was done, in microseconds since the epoch.
    pub at: u64,
}

impl Answer {
    /// How long the operation took.
    pub fn took(&self) -> Duration {
        Duration::from_micros(self.us)
    }

    /// From the moment `release` was begun to the moment this was done; zero when this was first.
    pub fn after_start_of(&self, release: &Self) -> Duration {
        Duration::from_micros((self.at + release.us).saturating_sub(release.at))
    }

    /// Whether the value is `true`.
    pub fn is_true(&self) -> bool {
        self.value == Value::Bool(true)
    }

    /// Whether the value is `true`, or the token or the ids of permits that stand for it.
    pub fn is_granted(&self) -> bool {
        self.is_true() || self.value.is_number() || self.value.is_array()
    }

    /// The value as a number.
    ///
    /// # Panics
    /// When it is none.
    pub fn number(&self) -> i64 {
        self.value.as_i64().unwrap_or_else(|| panic!("not a number: {}", self.value))
    }
}

/// Why there is no [`Answer`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeerError {
    /// The operation failed: a code of `tests/peers/README.md`, and the peer's words.
    Refused {
        /// The code, such as `not_held`.
        error: String,
        /// The peer's words.
        message: String,
    },
    /// The peer cannot be built or run here, for the reason it gives.
    Unavailable(String),
    /// The process has ended, or speaks another language; with the last of its log.
    Gone(String),
}

impl PeerError {
    /// The code, when the peer gave one.
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Refused { error, .. } => Some(error),
            Self::Unavailable(_) | Self::Gone(_) => None,
        }
    }
}

impl fmt::Display for PeerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { error, message } => write!(f, "{error}: {message}"),
            Self::Unavailable(why) => write!(f, "the peer is not available: {why}"),
            Self::Gone(log) => write!(f, "the peer has gone; its log:\n{log}"),
        }
    }
}

impl std::error::Error for PeerError {}

/// A line of a peer's output.
#[derive(Debug, Deserialize)]
pub(super) struct Line {
    pub(super) id: u64,
    ok: bool,
    #[serde(default)]
    value: Value,
    #[serde(default)]
    us: u64,
    #[serde(default)]
    at: u64,
    #[serde(default)]
    error: String,
    #[serde(default)]
    message: Option<String>,
}

impl From<Line> for Result<Answer, PeerError> {
    fn from(line: Line) -> Self {
        if line.ok {
            Ok(Answer { value: line.value, us: line.us, at: line.at })
        } else {
            Err(PeerError::Refused { error: line.error, message: line.message.unwrap_or_default() })
        }
    }
}
