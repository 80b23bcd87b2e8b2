//! The list of the kinds of lock: each [`LockKind`] with its [`Protocol`]. `observer/event.rs` defines the kinds;
//! CONTRIBUTING.md lists what else a new one needs.

use super::{
    contract::Protocol,
    fair::Fair,
    fenced::Fenced,
    plain::Plain,
    read_write::{Read, Write},
    reentrant::Reentrant,
};
use crate::{config::Settings, observer::LockKind};

/// The part of a name that an owner can hold. All kinds but the read/write lock and the plain lock share
/// one hold, as they do on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Side {
    Whole,
    Read,
    Write,
    /// A plain lock. Its key is no hash, so that no other kind enters it.
    Token,
}

impl LockKind {
    pub(crate) const ALL: [Self; 9] = [
        Self::Reentrant,
        Self::NonReentrant,
        Self::Fair,
        Self::NonReentrantFair,
        Self::Fenced,
        Self::Spin,
        Self::Plain,
        Self::Read,
        Self::Write,
    ];

    /// The protocol of a lock with this name.
    pub(crate) fn protocol(self, name: &str, settings: &Settings) -> Box<dyn Protocol> {
        match self {
            Self::Reentrant | Self::NonReentrant => Box::new(Reentrant::new(name)),
            Self::Fair | Self::NonReentrantFair => Box::new(Fair::new(name, settings)),
            Self::Fenced => Box::new(Fenced::new(name)),
            Self::Spin => Box::new(Reentrant::spin(name)),
            Self::Plain => Box::new(Plain::new(name)),
            Self::Read => Box::new(Read::new(name)),
            Self::Write => Box::new(Write::new(name)),
        }
    }

    pub(crate) fn side(self) -> Side {
        match self {
            Self::Read => Side::Read,
            Self::Write => Side::Write,
            Self::Plain => Side::Token,
            _ => Side::Whole,
        }
    }

    /// Whether it is one of the two sides of a read/write lock.
    pub(crate) fn is_one_side(self) -> bool {
        matches!(self, Self::Read | Self::Write)
    }

    /// Whether its holder can re-enter.
    pub(crate) fn is_reentrant(self) -> bool {
        !matches!(self, Self::NonReentrant | Self::NonReentrantFair | Self::Plain)
    }
}

#[cfg(test)]
mod tests;
