//! [`Breaks`]: when a connection was last made or lost, to tell which connections are older.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A moment, in the order of all moments of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment(u64);

impl Moment {
    pub(super) fn now() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::AcqRel))
    }
}

/// When the connection of a [`Link`](super::link::Link) was last made or lost.
#[derive(Default)]
pub(super) struct Breaks {
    /// 0: it was never made.
    last: AtomicU64,
    lost: AtomicU64,
    is_lost: AtomicBool,
}

impl Breaks {
    /// When it was last made or lost.
    pub(super) fn last(&self) -> Moment {
        Moment(self.last.load(Ordering::Acquire))
    }

    /// When it was last lost.
    pub(super) fn last_lost(&self) -> Moment {
        Moment(self.lost.load(Ordering::Acquire))
    }

    pub(super) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }

    /// Notes that it is lost.
    pub(super) fn lost(&self) {
        let now = Moment::now().0;
        self.last.fetch_max(now, Ordering::AcqRel);
        self.lost.fetch_max(now, Ordering::AcqRel);
        self.is_lost.store(true, Ordering::Release);
    }

    /// Notes that it was made. Returns whether there was one before.
    pub(super) fn made(&self) -> bool {
        self.is_lost.store(false, Ordering::Release);
        self.last.fetch_max(Moment::now().0, Ordering::AcqRel) > 0
    }
}
