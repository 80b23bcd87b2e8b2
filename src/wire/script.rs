//! Scripts, calls of them, and their replies, as plain values.

use std::sync::OnceLock;

use bytes::Bytes;

use crate::options::Acknowledged;

/// A Lua script of `lua/`.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) name: &'static str,
    pub(crate) source: &'static str,
    /// Whether it may be called with its first key only: see [`Script::or_with_one_key`].
    pub(crate) or_with_one_key: bool,
    sha: OnceLock<Bytes>,
}

impl Script {
    pub(crate) const fn new(name: &'static str, source: &'static str) -> Self {
        Self { name, source, or_with_one_key: false, sha: OnceLock::new() }
    }

    /// A script of two keys that detects whether the second key is missing or on another server. In
    /// a slot that moves, a call with both keys is refused unless both are on one server. A call
    /// with the first key runs on its server. What it cannot do there is refused before it has
    /// changed anything.
    pub(crate) const fn or_with_one_key(mut self) -> Self {
        self.or_with_one_key = true;
        self
    }

    /// The script's SHA-1 in hex, by which the server knows it.
    pub(crate) fn sha(&'static self) -> Bytes {
        self.sha
            .get_or_init(|| sha1_smol::Sha1::from(self.source).digest().to_string().into())
            .clone()
    }
}

/// One argument of a script.
#[derive(Clone, Debug)]
pub(crate) enum Arg {
    Bytes(Bytes),
    Int(u64),
    /// The command by which this server publishes messages.
    Publish,
    /// The subcommand of PUBSUB that counts the listeners of a channel.
    Listening,
}

impl Arg {
    /// `None`: it is no integer.
    pub(crate) fn as_int(&self) -> Option<u64> {
        match self {
            Self::Int(n) => Some(*n),
            _ => None,
        }
    }
}

impl From<&Bytes> for Arg {
    fn from(bytes: &Bytes) -> Self {
        Self::Bytes(bytes.clone())
    }
}

impl From<u64> for Arg {
    fn from(n: u64) -> Self {
        Self::Int(n)
    }
}

impl From<&'static str> for Arg {
    fn from(text: &'static str) -> Self {
        Self::Bytes(Bytes::from_static(text.as_bytes()))
    }
}

/// A script with its keys and arguments.
#[derive(Clone, Debug)]
pub(crate) struct Invocation {
    pub(crate) script: &'static Script,
    /// How many of `args` are keys. The keys come first.
    pub(crate) keys: usize,
    pub(crate) args: Vec<Arg>,
}

impl Invocation {
    /// The same call with one key, if the script allows that.
    pub(crate) fn with_one_key(&self) -> Option<Self> {
        let possible = self.keys == 2 && self.script.or_with_one_key;
        possible.then(|| Self { keys: 1, ..self.clone() })
    }

    /// The key that selects the server.
    pub(crate) fn key(&self) -> &[u8] {
        match self.args.first() {
            Some(Arg::Bytes(key)) => key,
            _ => &[],
        }
    }
}

/// The reply of a script.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reply {
    Nil,
    Int(i64),
    Bytes(Bytes),
    Array(Vec<Reply>),
    /// The reply of a call that replicas were to confirm, and how many confirmed it.
    Confirmed(Box<Reply>, Acknowledged),
}

impl Reply {
    /// The reply itself, and the replicas' answer if they were asked.
    pub(crate) fn split(self) -> (Self, Option<Acknowledged>) {
        match self {
            Self::Confirmed(reply, acknowledged) => (*reply, Some(acknowledged)),
            reply => (reply, None),
        }
    }

    pub(crate) fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(n) => Some(*n),
            _ => None,
        }
    }

    /// The text of a bulk reply, decimal integers included.
    pub(crate) fn as_text(&self) -> Option<String> {
        match self {
            Self::Int(n) => Some(n.to_string()),
            Self::Bytes(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            _ => None,
        }
    }
}
