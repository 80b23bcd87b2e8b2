//! [`Facts`]: what is known of a round besides what was recorded.

use judge::Nanos;
use serde::{Deserialize, Serialize};

/// What the run knows of a round besides history and witness.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Facts {
    /// How many there were of each fault.
    pub(crate) faults: Vec<(String, usize)>,
    /// When it began, when the last fault had ended, and when all had gone.
    pub(crate) begun: Nanos,
    pub(crate) healed: Nanos,
    pub(crate) ended: Nanos,
    /// How far the moment of an effect may be off that no server has told, and how late the files were read.
    #[serde(default)]
    pub(crate) vague: Nanos,
    pub(crate) lag: Nanos,
    /// How late a timer was at most.
    pub(crate) lateness: Nanos,
    /// How often nothing ran at all.
    #[serde(default)]
    pub(crate) stops: usize,
    /// What went wrong with the processes themselves.
    pub(crate) troubles: Vec<String>,
}
