//! The blocking API: the owner is the thread, holds outlive calls, async code is refused.

mod async_code;
mod counters;
mod dropped;
mod ends;
mod held;
mod java;
mod kinds;
mod owners;
mod stage;
