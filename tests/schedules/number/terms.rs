//! Times, and which of the two it is.

use crate::model::Ms;

/// How long the server keeps the id of a request.
pub(super) const KEPT: Ms = 400;
/// How long a copy may be under way.
pub(super) const IN_TIME: Ms = 20;

/// Which of the two it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sort {
    Semaphore,
    Latch,
}
