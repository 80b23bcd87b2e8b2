//! What a fault is: its name, what it may cost, what it is done to, and for how long.

use std::fmt;
use std::time::Duration;

use judge::Fault as Class;

/// A fault that the nemesis knows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fault {
    pub(super) name: &'static str,
    pub(super) family: Family,
    pub(super) class: Class,
    pub(super) on: On,
    /// How long it lasts at most. None: it is done at once.
    pub(super) longest: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    Process,
    Network,
    Server,
    Topology,
}

/// What a fault is done to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum On {
    Member,
    /// A server that takes writes.
    Master,
    /// The same, where it stands alone: another would take its place, or its replicas have what it lost.
    Alone,
    /// Servers that take each other's place.
    Heirs,
}

/// Which one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    Member(usize),
    Server(usize),
}

pub(super) const fn fault(
    name: &'static str,
    family: Family,
    class: Class,
    on: On,
    longest_ms: u64,
) -> Fault {
    let longest = match longest_ms {
        0 => None,
        ms => Some(Duration::from_millis(ms)),
    };
    Fault { name, family, class, on, longest }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Member(member) => write!(f, "member {member}"),
            Self::Server(node) => write!(f, "server {node}"),
        }
    }
}
