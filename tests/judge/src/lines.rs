//! JSON, one object a line, the version first.

use std::fmt;

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

/// A line that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// Its number, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub why: String,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.why)
    }
}

impl std::error::Error for Malformed {}

pub(crate) fn header(what: &str, version: u32) -> String {
    format!("{}\n", json!({ what: version }))
}

pub(crate) fn write(text: &mut String, line: &impl Serialize) {
    text.push_str(&serde_json::to_string(line).expect("has no maps with keys that are no text"));
    text.push('\n');
}

/// Hands each line to `take`, but those that say the version.
pub(crate) fn read<T: DeserializeOwned>(
    text: &str,
    what: &str,
    version: u32,
    mut take: impl FnMut(T) -> Result<(), String>,
) -> Result<(), Malformed> {
    let mut known = false;
    for (number, line) in text.lines().enumerate() {
        let malformed = |why: String| Malformed { line: number + 1, why };
        if line.trim().is_empty() {
            continue;
        }
        let value: Value =
            serde_json::from_str(line).map_err(|error| malformed(error.to_string()))?;
        match value.get(what) {
            Some(found) if *found == json!(version) => known = true,
            Some(found) => {
                let why = format!("{what} of version {found}, which is not {version}");
                return Err(malformed(why));
            }
            None if !known => {
                return Err(malformed(format!("no version: {{\"{what}\":{version}}}")));
            }
            None => {
                let line = serde_json::from_value(value);
                take(line.map_err(|error| malformed(error.to_string()))?).map_err(malformed)?;
            }
        }
    }
    if known { Ok(()) } else { Err(Malformed { line: 1, why: "it is empty".into() }) }
}
