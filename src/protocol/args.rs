//! The arguments of a script beside its keys and the holder id: [`Wish`] of acquisitions only,
//! [`ScriptArgs`] also of re-entries and hand-offs.

use crate::owner::HoldId;

/// What kind of acquisition is requested.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wish {
    /// Whether to enter the server's line when it is another waiter's turn.
    pub(crate) stand: bool,
    /// The caller's own write hold, under which it wants to read.
    pub(crate) under: Option<HoldId>,
}

/// The lease of a requested hold, and until when the request is of use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScriptArgs {
    /// In ms.
    pub(crate) lease: u64,
    /// Server time in ms after which the request must have no effect.
    pub(crate) not_after: u64,
}
