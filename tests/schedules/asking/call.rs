//! What clients do, and the calls by which they do it.

use std::fmt;

use crate::clients::{Id, Name};

/// A hold: its client, and the step in which it began.
pub(super) type Hold = Id;

/// What somebody may do next.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Action {
    /// A client begins a hold, or ends the one that it has.
    Begin(Name),
    End(Name),
    /// Somebody asks all who hold now.
    Ask,
    /// Another copy of the last question is sent.
    AskAgain,
    /// A holder reads whether it was asked.
    Read(Name),
}

/// One copy of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Call {
    Ask(Vec<Hold>),
    Read(Hold),
}

impl Action {
    pub(super) fn class(self) -> usize {
        match self {
            Self::Begin(_) => 0,
            Self::Ask => 1,
            Self::Read(_) => 2,
            Self::End(_) => 3,
            Self::AskAgain => 4,
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Begin(who) => write!(f, "{who} begins a hold"),
            Self::End(who) => write!(f, "{who} ends its hold"),
            Self::Ask => write!(f, "somebody asks"),
            Self::AskAgain => write!(f, "the question is sent again"),
            Self::Read(who) => write!(f, "{who} reads"),
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ask(holds) => {
                let holds: Vec<_> = holds.iter().map(Hold::to_string).collect();
                write!(f, "ask {}", holds.join(" "))
            }
            Self::Read(hold) => write!(f, "was {hold} asked"),
        }
    }
}
