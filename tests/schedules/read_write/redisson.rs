//! What Redisson's threads can do.

use super::call::{Id, Seat, World};
use super::thread::Thread;
use super::{Life, ReadWrite};
use crate::clients::RedissonThreads;
use crate::model::Ms;

impl RedissonThreads for ReadWrite {
    fn threads(&mut self) -> &mut [Thread] {
        &mut self.threads
    }

    /// A writer's partial unlock sets the TTL to one lease; a reader's takes the newest hold away.
    fn unlock_levels(id: Id) -> bool {
        id.write
    }
}

impl ReadWrite {
    pub(super) fn side_locks(
        &mut self,
        seat: Seat,
        lease: Option<Ms>,
        world: &mut World<'_>,
    ) -> bool {
        let other = Id::first(Seat { write: !seat.write, ..seat });
        let reads = |thread: &Thread| thread.id == other && seat.write && thread.holds();
        let can = self.life(seat.owner) == Life::Up
            && !self.is_busy(seat)
            && !self.threads.iter().any(reads);
        can && self.thread_locks(Id::first(seat), lease, world)
    }

    pub(super) fn side_unlocks(&mut self, seat: Seat, twice: bool, world: &mut World<'_>) -> bool {
        !self.is_busy(seat) && self.thread_unlocks(Id::first(seat), twice, world)
    }

    /// A thread does one thing at a time.
    fn is_busy(&self, seat: Seat) -> bool {
        let is_busy = |thread: &Thread| thread.id.owner == seat.owner && thread.pending.is_some();
        self.threads.iter().any(is_busy)
    }
}
