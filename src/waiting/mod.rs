//! Semaphores and latches: counters on the server that callers change and wait for.
//!
//! ```text
//! acquire --attempt--> permits          there are enough
//!    `------wait-----> permits          a message, a look after 3 s or the deadline
//! permits --give_back--> the server     wakes a waiter of each process
//! ```
//!
//! | file | content |
//! |---|---|
//! | [`counter`] | one counter of one client; requests that count once |
//! | [`line`] | the local waiters, and which of them asks the server |
//! | [`waiter`] | one waiter: sleeps, looks again; the task that listens for all |
//! | [`permits`] | the acquisition of permits, its undo; their release and their drain |
//! | [`gate`] | the wait for a latch, and its count-down |

pub(crate) mod counter;
pub(crate) mod gate;
mod line;
pub(crate) mod permits;
mod waiter;
