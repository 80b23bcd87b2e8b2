//! What a script is told beside its keys and the holder.

use crate::owner::HoldId;

/// What kind of acquisition is asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wish {
    /// Whether to stand in the server's line when it is another's turn.
    pub(crate) stand: bool,
    /// The caller's own write hold, under which it wants to read.
    pub(crate) under: Option<HoldId>,
}

/// On what terms a hold is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScriptArgs {
    /// In ms.
    pub(crate) lease: u64,
    /// Server time in ms past which the request must have no effect.
    pub(crate) not_after: u64,
}
