//! The names of clients and holders.

use std::fmt;
use std::str::FromStr;

use crate::model::StepId;

/// A client, by one letter.
pub(crate) type Name = char;

/// A holder on the wire: `A:7` is the hold that owner A began at step 7, `J:0` is a thread of Redisson's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Id {
    pub(crate) owner: Name,
    pub(crate) number: StepId,
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.owner, self.number)
    }
}

impl FromStr for Id {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once(':').and_then(|(owner, number)| {
            Some(Self { owner: owner.parse().ok()?, number: number.parse().ok()? })
        });
        parts.ok_or_else(|| format!("no holder of ours: {text}"))
    }
}
