//! What a server answers.

use std::borrow::Cow;

/// An answer, as RESP2 has it.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// No value: of a key, a field or a script.
    Nil,
    /// An integer.
    Int(i64),
    /// A bulk string.
    Bulk(Vec<u8>),
    /// A status, such as `OK`.
    Status(Vec<u8>),
    /// An error, which begins with its code. It may stand in an array.
    Error(String),
    /// Several.
    Array(Vec<Reply>),
}

/// Why a command did nothing: the text of the error, which begins with its code.
pub(crate) type Refused = Cow<'static, str>;

/// What a command answers.
pub(crate) type Answer = Result<Reply, Refused>;

impl Reply {
    pub(crate) fn ok() -> Self {
        Self::Status(b"OK".to_vec())
    }

    pub(crate) fn bulk(bytes: impl Into<Vec<u8>>) -> Self {
        Self::Bulk(bytes.into())
    }

    pub(crate) fn count(n: usize) -> Self {
        Self::Int(n as i64)
    }

    pub(crate) fn bulks<'a>(items: impl IntoIterator<Item = &'a Vec<u8>>) -> Self {
        Self::Array(items.into_iter().map(|item| Self::Bulk(item.clone())).collect())
    }
}

impl From<bool> for Reply {
    fn from(truth: bool) -> Self {
        Self::Int(truth.into())
    }
}

impl From<Option<Vec<u8>>> for Reply {
    fn from(bytes: Option<Vec<u8>>) -> Self {
        bytes.map_or(Self::Nil, Self::Bulk)
    }
}

impl From<Answer> for Reply {
    fn from(answer: Answer) -> Self {
        // A line of the protocol has no line break in it.
        answer.unwrap_or_else(|error| {
            Self::Error(error.trim_end_matches(['\r', '\n']).replace(['\r', '\n'], " "))
        })
    }
}
