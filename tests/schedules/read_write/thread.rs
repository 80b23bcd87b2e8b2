//! Redisson's threads, each with a side to read and a side to write.

use super::call::{Id, Seat, THREADS};
use crate::clients;

pub(super) type Thread = clients::Thread<Id>;

/// Two threads, both sides of each.
pub(super) fn threads() -> Vec<Thread> {
    let sides = THREADS.into_iter().flat_map(|owner| [false, true].map(|write| (owner, write)));
    sides.map(|(owner, write)| Thread::new(Id::first(Seat { owner, write }))).collect()
}
