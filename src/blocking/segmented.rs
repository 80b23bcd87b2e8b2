//! [`SegmentedLock`]: one name as several locks, for code that is not async.

use std::{fmt, ops::Deref, sync::Arc, time::Duration};

use crate::{
    blocking::{
        background::Background,
        guard::{LockGuard, over},
        lock::Lock,
        multi::MultiLock,
    },
    error::Error,
    owner::Owner,
    segmented,
};

/// One name as several locks, its segments.
/// [`Client::segmented`](crate::blocking::Client::segmented) makes it, without any I/O. Cheap to
/// clone. The async [`SegmentedLock`](crate::SegmentedLock) says what it promises.
///
/// # Examples
/// ```no_run
/// # fn sell_from(segment: usize) -> bool { true }
/// # fn f(client: redisson_lock::blocking::Client) -> Result<(), redisson_lock::Error> {
/// let stock = client.segmented("stock:42", 16);
/// let mut any = stock.any();
/// while !any.is_empty() {
///     let guard = any.lock().run()?;
///     if !sell_from(guard.segment()) {
///         any = any.except([guard.segment()]); // sold out
///     }
///     guard.unlock()?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "no segment is held until it is acquired: `let guard = lock.any().lock().run()?`"]
pub struct SegmentedLock {
    lock: segmented::SegmentedLock,
    background: Arc<Background>,
}

impl fmt::Debug for SegmentedLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lock.fmt(f)
    }
}

impl SegmentedLock {
    pub(super) fn new(lock: segmented::SegmentedLock, background: Arc<Background>) -> Self {
        Self { lock, background }
    }

    /// Returns the number of segments. 0 when the lock cannot be used.
    #[must_use]
    pub fn count(&self) -> usize {
        self.lock.count()
    }

    /// Returns the lock of this segment, counted from 0. Does no I/O. See
    /// [`SegmentedLock::segment`](crate::SegmentedLock::segment).
    pub fn segment(&self, i: usize) -> Lock {
        Lock::new(self.lock.segment(i), self.background.clone())
    }

    /// Returns the locks of all segments, in the order of their numbers. Does no I/O.
    pub fn iter(&self) -> impl Iterator<Item = Lock> {
        self.lock.iter().map(|lock| Lock::new(lock, self.background.clone()))
    }

    /// Returns the number of the segment of this key. Does no I/O. See [the segment of a
    /// key](crate::SegmentedLock#the-segment-of-a-key).
    #[must_use]
    pub fn index_of(&self, key: impl AsRef<[u8]>) -> usize {
        self.lock.index_of(key)
    }

    /// Returns the lock of the segment of this key. Does no I/O. See [the segment of a
    /// key](crate::SegmentedLock#the-segment-of-a-key).
    pub fn of(&self, key: impl AsRef<[u8]>) -> Lock {
        self.segment(self.index_of(key))
    }

    /// Returns the lock of all segments together. Does no I/O.
    pub fn all(&self) -> MultiLock {
        // A lock that cannot be used says so when it is acquired.
        MultiLock::all((0..self.count().max(1)).map(|i| self.segment(i)))
    }

    /// Returns the choice of any segment that is free. Does no I/O.
    pub fn any(&self) -> AnySegment {
        AnySegment { any: self.lock.any(), background: self.background.clone() }
    }
}

/// The choice of any free segment of a [`SegmentedLock`]. See the async
/// [`AnySegment`](crate::AnySegment).
#[derive(Clone)]
#[must_use = "no segment is held until it is acquired: `let guard = any.lock().run()?`"]
pub struct AnySegment {
    any: segmented::AnySegment,
    background: Arc<Background>,
}

impl fmt::Debug for AnySegment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.any.fmt(f)
    }
}

impl AnySegment {
    /// The same choice without these segments. See
    /// [`AnySegment::except`](crate::AnySegment::except).
    pub fn except(self, segments: impl IntoIterator<Item = usize>) -> Self {
        Self { any: self.any.except(segments), ..self }
    }

    /// The same choice, which begins with this segment. See
    /// [`AnySegment::starting_at`](crate::AnySegment::starting_at).
    pub fn starting_at(self, segment: usize) -> Self {
        Self { any: self.any.starting_at(segment), ..self }
    }

    /// Returns whether no segment is left. See
    /// [`AnySegment::is_empty`](crate::AnySegment::is_empty).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.any.is_empty()
    }

    /// Acquires a segment that is free for the calling thread, and waits for one without a bound. A
    /// thread that holds one of them re-enters it. [`run`](AcquireAny::run) begins it.
    pub fn lock(&self) -> AcquireAny<'_> {
        AcquireAny { any: self, lease: None, note: None }
    }

    /// Acquires a segment that is free, or becomes free within [`wait`](TryAcquireAny::wait).
    /// [`run`](TryAcquireAny::run) begins it. It returns `None` when others held all segments.
    pub fn try_lock(&self) -> TryAcquireAny<'_> {
        TryAcquireAny { any: self, lease: None, wait: Duration::ZERO, note: None }
    }

    fn guard(&self, guard: segmented::SegmentGuard) -> SegmentGuard {
        let segment = guard.segment();
        SegmentGuard { guard: over(guard.into_guard(), &self.background), segment }
    }
}

/// An acquisition that waits for a segment. [`run`](AcquireAny::run) begins it. See
/// [`AnySegment::lock`].
#[derive(Debug)]
#[must_use = "nothing is acquired until this runs, and what is acquired is released when its guard is dropped: `let guard = ….run()?`"]
pub struct AcquireAny<'a> {
    any: &'a AnySegment,
    lease: Option<Duration>,
    note: Option<String>,
}

impl AcquireAny<'_> {
    /// Holds the segment for this long at most. The hold is never renewed. From 10 ms to 3650 days,
    /// in whole milliseconds.
    ///
    /// Without a lease the watchdog renews the hold while its guard lives.
    pub fn lease(self, lease: Duration) -> Self {
        Self { lease: Some(lease), ..self }
    }

    /// Says what the segment is held for: see [`LockGuard::note`](crate::LockGuard::note).
    pub fn note(self, note: impl Into<String>) -> Self {
        Self { note: Some(note.into()), ..self }
    }

    /// Acquires a segment for the calling thread. Blocks until it is acquired.
    ///
    /// # Errors
    /// As [`AnySegment::lock`](crate::AnySegment::lock), where the owner is the calling thread;
    /// [`Error::InAsyncCode`].
    pub fn run(self) -> Result<SegmentGuard, Error> {
        let Self { any, lease, note } = self;
        let mut thread = Owner::of_this_thread();
        let mut acquire = any.any.lock().by(&mut thread);
        if let Some(lease) = lease {
            acquire = acquire.lease(lease);
        }
        if let Some(note) = note {
            acquire = acquire.note(note);
        }
        Ok(any.guard(any.background.run(acquire.into_future())?))
    }
}

/// An acquisition that waits for a limited time, or not at all. [`run`](TryAcquireAny::run) begins
/// it. See [`AnySegment::try_lock`].
#[derive(Debug)]
#[must_use = "nothing is acquired until this runs, and what is acquired is released when its guard is dropped: `let guard = ….run()?`"]
pub struct TryAcquireAny<'a> {
    any: &'a AnySegment,
    lease: Option<Duration>,
    wait: Duration,
    note: Option<String>,
}

impl TryAcquireAny<'_> {
    /// As [`AcquireAny::lease`].
    pub fn lease(self, lease: Duration) -> Self {
        Self { lease: Some(lease), ..self }
    }

    /// As [`TryAcquireAny::wait`](crate::TryAcquireAny::wait).
    pub fn wait(self, wait: Duration) -> Self {
        Self { wait, ..self }
    }

    /// As [`AcquireAny::note`].
    pub fn note(self, note: impl Into<String>) -> Self {
        Self { note: Some(note.into()), ..self }
    }

    /// Acquires a segment for the calling thread. Blocks until it is acquired, or the wait ends.
    /// Returns `None` when others held all segments.
    ///
    /// # Errors
    /// As [`AnySegment::try_lock`](crate::AnySegment::try_lock), where the owner is the calling
    /// thread; [`Error::InAsyncCode`].
    pub fn run(self) -> Result<Option<SegmentGuard>, Error> {
        let Self { any, lease, wait, note } = self;
        let mut thread = Owner::of_this_thread();
        let mut acquire = any.any.try_lock().by(&mut thread).wait(wait);
        if let Some(lease) = lease {
            acquire = acquire.lease(lease);
        }
        if let Some(note) = note {
            acquire = acquire.note(note);
        }
        let guard = any.background.run(acquire.into_future())?;
        Ok(guard.map(|guard| any.guard(guard)))
    }
}

/// A hold of one thread on a segment of a [`SegmentedLock`]: a [`LockGuard`] that knows the number
/// of its segment.
#[must_use = "the segment is released as soon as the guard is dropped: keep it, `let guard = …` (not `let _ = …`)"]
pub struct SegmentGuard {
    guard: LockGuard,
    segment: usize,
}

/// Shows the same as [`LockGuard`], and the segment.
impl fmt::Debug for SegmentGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SegmentGuard")
            .field("segment", &self.segment)
            .field("guard", &self.guard)
            .finish()
    }
}

impl SegmentGuard {
    /// Returns the number of the segment, counted from 0.
    #[must_use]
    pub fn segment(&self) -> usize {
        self.segment
    }

    /// Returns the same hold as a guard that does not know its segment.
    pub fn into_guard(self) -> LockGuard {
        self.guard
    }

    /// As [`LockGuard::unlock`].
    ///
    /// # Errors
    /// As [`LockGuard::unlock`].
    pub fn unlock(self) -> Result<(), Error> {
        self.guard.unlock()
    }
}

impl Deref for SegmentGuard {
    type Target = LockGuard;

    fn deref(&self) -> &LockGuard {
        &self.guard
    }
}
