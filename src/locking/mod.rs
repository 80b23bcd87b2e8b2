//! What happens between a call of `lock()` and the end of its guard.

pub(crate) mod attempt;
pub(crate) mod budget;
pub(crate) mod handoff;
pub(crate) mod hold;
pub(crate) mod line;
pub(crate) mod patience;
pub(crate) mod registry;
pub(crate) mod share;
pub(crate) mod wait;
