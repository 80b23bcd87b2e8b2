//! [`AnySegment`]: the choice of any free segment, and the builders of its acquisition.

use std::{sync::Arc, time::Duration};

use super::{
    guard::SegmentGuard,
    search::{Found, Search},
};
use crate::{
    acquire::Acquiring,
    error::Error,
    guard::{LockGuard, sealed::FromShare},
    lock::Lock,
    locking::request::Bounds,
    owner::Owner,
};

/// The choice of any free segment of a [`SegmentedLock`](crate::SegmentedLock). Its
/// [`any`](crate::SegmentedLock::any) makes it, without any I/O. Cheap to clone.
///
/// The acquisition says which segment it was: [`SegmentGuard::segment`]. How it searches and waits:
/// [any segment](crate::SegmentedLock#any-segment).
#[derive(Clone, Debug)]
#[must_use = "no segment is held until it is acquired: `let guard = any.lock().await?`"]
pub struct AnySegment {
    segments: Result<Arc<[Lock]>, Error>,
    /// The numbers of those to choose from, in ascending order.
    left: Arc<[usize]>,
    start: Option<usize>,
}

impl AnySegment {
    pub(super) fn new(segments: Result<Arc<[Lock]>, Error>) -> Self {
        let left = (0..segments.as_ref().map_or(0, |segments| segments.len())).collect();
        Self { segments, left, start: None }
    }

    /// The same choice without these segments, for a caller that has nothing to do there. Numbers
    /// that are out of range change nothing.
    pub fn except(self, segments: impl IntoIterator<Item = usize>) -> Self {
        let mut left = self.left.to_vec();
        for segment in segments {
            left.retain(|&i| i != segment);
        }
        Self { left: left.into(), ..self }
    }

    /// The same choice, which begins with this segment. Without it, each acquisition begins with a
    /// random one.
    ///
    /// A caller that returns to its own segment mostly finds it free, and hands it to others of its
    /// process without asking the server. If the segment is [excluded](Self::except), the next one
    /// is the first. A number that is out of range begins with segment 0.
    pub fn starting_at(self, segment: usize) -> Self {
        Self { start: Some(segment), ..self }
    }

    /// Returns whether no segment is left, because all are [excluded](Self::except).
    ///
    /// `false` for a lock that cannot be used. Its acquisition says why.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.segments.is_ok() && self.left.is_empty()
    }

    /// Acquires a segment that is free, and waits for one without a bound.
    ///
    /// Await the result. Before that, [`lease`](AcquireAny::lease), [`by`](AcquireAny::by) and
    /// [`note`](AcquireAny::note) add options.
    ///
    /// # Errors
    /// - [`Error::Invalid`] when no segment is left, the lock cannot be used, or an option is out of
    ///   range.
    /// - As [`Lock::lock`], for any segment that is asked for. [`Error::Redis`] and
    ///   [`Error::NotReplicated`] only when they concern all segments: a segment whose server is down
    ///   is passed over, and asked for again after 1 s.
    ///
    /// # Cancel safety
    /// May be dropped at any time. What was acquired, or may still be acquired, is released in the
    /// background. The places in line are lost.
    pub fn lock(&self) -> AcquireAny<'static> {
        AcquireAny { any: self.clone(), owner: None, lease: None, note: None }
    }

    /// Acquires a segment that is free, or becomes free within [`wait`](TryAcquireAny::wait).
    ///
    /// Returns `None` when others held all segments, according to the server's last answers. Without
    /// a `wait`, each segment is asked for once, in turn.
    ///
    /// # Errors
    /// As [`lock`](Self::lock). Also [`Error::Redis`] and [`Error::NotReplicated`] of one segment, if
    /// no other one was granted: it is unknown whether that segment is free. Without a `wait`, the
    /// servers must have answered for all segments within
    /// [`Config::command_timeout`](crate::Config::command_timeout).
    ///
    /// # Cancel safety
    /// As [`lock`](Self::lock).
    pub fn try_lock(&self) -> TryAcquireAny<'static> {
        TryAcquireAny {
            any: self.clone(),
            owner: None,
            lease: None,
            wait: Duration::ZERO,
            note: None,
        }
    }

    /// The numbers of the segments, in the order in which they are asked for.
    fn order(&self, segments: usize) -> Vec<usize> {
        let start = self.start.unwrap_or_else(|| fastrand::usize(..segments));
        let mut order = self.left.to_vec();
        let first = order.partition_point(|&i| i < start);
        // The segment after the last one is the first one.
        let first = first % order.len();
        order.rotate_left(first);
        order
    }

    async fn take(
        self,
        owner: Option<&mut Owner>,
        lease: Option<Duration>,
        bounds: Bounds,
        note: Option<Box<str>>,
    ) -> Result<Option<SegmentGuard>, Error> {
        let segments = self.segments.as_ref().map_err(Clone::clone)?;
        if self.left.is_empty() {
            return Err(Error::Invalid("all segments are excluded".into()));
        }
        let owner = owner.map(|owner| owner.id());
        let search = Search { segments, owner, lease, bounds };
        let found = search.run(self.order(segments.len())).await?;
        Ok(found.map(|(segment, share): Found| {
            let guard = LockGuard::from_share(share);
            if let Some(note) = note {
                guard.note(note);
            }
            SegmentGuard::new(guard, segment)
        }))
    }
}

/// An acquisition that waits for a segment. Awaiting it begins it. See [`AnySegment::lock`].
///
/// It borrows nothing but its [owner](AcquireAny::by), so it may be spawned.
#[derive(Debug)]
#[must_use = "nothing is acquired until this is awaited, and what is acquired is released when its guard is dropped: `let guard = ….await?`"]
pub struct AcquireAny<'a> {
    any: AnySegment,
    owner: Option<&'a mut Owner>,
    lease: Option<Duration>,
    note: Option<Box<str>>,
}

impl AcquireAny<'_> {
    /// Acquires a segment for this owner. If the owner already holds one of those to choose from, it
    /// re-enters that segment. One that it has lost, and still has a guard of, is passed over, unless
    /// there is no other.
    pub fn by(self, owner: &mut Owner) -> AcquireAny<'_> {
        AcquireAny { any: self.any, owner: Some(owner), lease: self.lease, note: self.note }
    }

    /// Holds the segment for this long at most. The hold is never renewed. From 10 ms to 3650 days,
    /// in whole milliseconds.
    ///
    /// Without a lease the watchdog renews the hold while its guard lives.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Says what the segment is held for: see [`LockGuard::note`].
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into().into_boxed_str());
        self
    }
}

impl<'a> IntoFuture for AcquireAny<'a> {
    type Output = Result<SegmentGuard, Error>;
    type IntoFuture = Acquiring<'a, SegmentGuard>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { any, owner, lease, note } = self;
        Box::pin(async move {
            let guard = any.take(owner, lease, Bounds::FOREVER, note).await?;
            Ok(guard.expect("waits until it is granted"))
        })
    }
}

/// An acquisition that waits for a limited time, or not at all. Awaiting it begins it. See
/// [`AnySegment::try_lock`].
///
/// As an [`AcquireAny`], it borrows nothing but its owner.
#[derive(Debug)]
#[must_use = "nothing is acquired until this is awaited, and what is acquired is released when its guard is dropped: `let guard = ….await?`"]
pub struct TryAcquireAny<'a> {
    any: AnySegment,
    owner: Option<&'a mut Owner>,
    lease: Option<Duration>,
    wait: Duration,
    note: Option<Box<str>>,
}

impl TryAcquireAny<'_> {
    /// As [`AcquireAny::by`].
    pub fn by(self, owner: &mut Owner) -> TryAcquireAny<'_> {
        let Self { any, lease, wait, note, .. } = self;
        TryAcquireAny { any, owner: Some(owner), lease, wait, note }
    }

    /// As [`AcquireAny::lease`].
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Waits for this long at most, for all segments together: 3650 days or less. Without it, the
    /// acquisition does not wait.
    ///
    /// If requests are under way when the wait ends, their answers are still awaited, and segments
    /// that were not waited for yet are asked for once more: for twice
    /// [`Config::command_timeout`](crate::Config::command_timeout) at most.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// As [`AcquireAny::note`].
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into().into_boxed_str());
        self
    }
}

impl<'a> IntoFuture for TryAcquireAny<'a> {
    type Output = Result<Option<SegmentGuard>, Error>;
    type IntoFuture = Acquiring<'a, Option<SegmentGuard>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { any, owner, lease, wait, note } = self;
        Box::pin(async move { any.take(owner, lease, Bounds::of(wait)?, note).await })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(count: usize) -> AnySegment {
        let lock = Lock::new(Err(Error::Closed));
        AnySegment::new(Ok(vec![lock; count].into()))
    }

    #[test]
    fn the_order_begins_where_it_is_told_and_passes_over_what_is_excluded() {
        let four = of(4);
        assert_eq!(four.clone().starting_at(2).order(4), [2, 3, 0, 1]);
        assert_eq!(four.clone().starting_at(9).order(4), [0, 1, 2, 3]);
        let some = four.except([2, 9, 2]).starting_at(2);
        assert_eq!(some.order(4), [3, 0, 1]);
        let one = some.except([3, 0]);
        assert_eq!(one.order(4), [1]);
        assert!(!one.is_empty());
        assert!(one.except([1]).is_empty());
    }

    #[test]
    fn each_segment_is_the_first_one_at_times() {
        let first: std::collections::BTreeSet<_> = (0..200).map(|_| of(4).order(4)[0]).collect();
        assert_eq!(first.len(), 4);
    }
}
