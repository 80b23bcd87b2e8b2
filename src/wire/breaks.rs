//! [`Breaks`]: when a connection was last made or lost, to tell which connections are older.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A moment, in the order of all moments of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment(u64);

impl Moment {
    pub(super) fn now() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// When the connection of a [`Link`](super::link::Link) was last made or lost.
#[derive(Default)]
pub(super) struct Breaks {
    last: AtomicU64,
    is_lost: AtomicBool,
}

impl Breaks {
    pub(super) fn last(&self) -> Moment {
        Moment(self.last.load(Ordering::Acquire))
    }

    pub(super) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }

    /// Returns whether it was not lost already.
    pub(super) fn lost(&self) -> bool {
        let was_there = !self.is_lost.swap(true, Ordering::AcqRel);
        if was_there {
            self.last.store(Moment::now().0, Ordering::Release);
        }
        was_there
    }

    /// Returns when it was lost.
    pub(super) fn made(&self) -> Moment {
        let lost = self.last.swap(Moment::now().0, Ordering::AcqRel);
        self.is_lost.store(false, Ordering::Release);
        Moment(lost)
    }
}
