//! Semaphores and latches: numbers on the server that callers change and wait for.
//!
//! | file | content |
//! |---|---|
//! | [`semaphore`], [`permit`] | the handle to a semaphore; the guard of its permits |
//! | [`expirable`] | a semaphore whose permits have ids and leases |
//! | [`latch`] | the handle to a count-down latch |
//! | [`waiting`] | the local waiters of all three, and what they ask the server |

pub(crate) mod expirable;
pub(crate) mod latch;
pub(crate) mod permit;
pub(crate) mod semaphore;
pub(crate) mod waiting;
