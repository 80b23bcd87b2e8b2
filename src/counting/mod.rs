//! What happens between a call on a semaphore or a latch and its answer. The handles and guards are in
//! `counters`. Locks are waited for elsewhere, in `locking/wait.rs`.
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
//! | [`once`] | one request that counts once: its id, and until when copies of it may act |
//! | [`settled`] | the ids that the server is to forget |
//! | [`goes_on`] | how such a request goes on in the background |
//! | [`mod@line`] | the local waiters, and which of them asks the server |
//! | [`waiter`] | one waiter: sleeps, looks again; the task that listens for all |
//! | [`attempt`] | the acquisition of permits, and its undo |
//! | [`permits`] | permits of a semaphore: their release and their drain |
//! | [`leased`] | permits of an expirable semaphore: their lease, their release |
//! | [`latch`] | the wait for a latch, and its count-down |

mod attempt;
pub(crate) mod counter;
mod goes_on;
pub(crate) mod latch;
pub(crate) mod leased;
mod line;
mod once;
pub(crate) mod permits;
mod settled;
mod waiter;
