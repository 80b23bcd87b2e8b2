//! [`SegmentedLock`]: one name as several locks, for what many callers want at the same time.

mod any;
mod crc32;
mod guard;
mod search;

use std::{fmt, sync::Arc};

pub use self::{
    any::{AcquireAny, AnySegment, TryAcquireAny},
    guard::SegmentGuard,
};
use crate::{error::Error, lock::Lock, multi::MultiLock};

/// The most segments that a lock may have.
const MOST_SEGMENTS: usize = 1024;

/// One name as several locks, its segments. A stock that is spread over the segments is sold by as
/// many holders at the same time. [`Client::segmented`](crate::Client::segmented) makes it, without
/// any I/O. Cheap to clone.
///
/// | method | acquires |
/// |---|---|
/// | [`any`](Self::any) | a free segment; waits until one is free |
/// | [`of`](Self::of) | the segment of a key, always the same one |
/// | [`segment`](Self::segment) | the segment of this number |
/// | [`all`](Self::all) | all segments |
///
/// # Names
/// Segment `i` of `name` is the [`lock`](crate::Client::lock) `name:i`, with `i` from 0. It is
/// Redisson's `getLock(name + ":" + i)`, and excludes it. There is no other key: the number of
/// segments is not stored. All processes must use the same number, or [`all`](Self::all) and
/// [`of`](Self::of) mean different segments in each.
///
/// In a cluster the segments of a name without braces are spread over the slots, and thus over the
/// servers. With a `{tag}` in the name all segments share one slot: `{shop}:stock` is for scripts
/// that use keys of several segments.
///
/// # The segment of a key
/// [`of`](Self::of) computes the CRC-32 of the key's bytes, modulo the number of segments. That is
/// the CRC-32 of zlib, gzip and PNG. It does not change with versions of this crate. In Java:
///
/// ```java
/// CRC32 crc = new CRC32();  // java.util.zip
/// crc.update(key.getBytes(StandardCharsets.UTF_8));
/// RLock lock = redisson.getLock(name + ":" + crc.getValue() % segments);
/// ```
///
/// # Any segment
/// [`any`](Self::any) asks for one segment after the other, without waiting. If the first one is
/// free, that is one request. It begins with a random segment, or with the one
/// [given](AnySegment::starting_at).
///
/// An acquisition that waits skips the segments that this client holds, and those that others of
/// its callers wait for. When no segment is granted it stands in the segments' local lines: in the
/// first one at once, and in one more every 10 ms, until it stands in all of them. The first
/// segment that is granted ends the wait.
///
/// - A segment that is released while a caller waits is noticed after 10 ms for each segment at
///   most. Once the caller stands in all lines, a message tells it. A lost message delays it by
///   3 s, as with a [`lock`](crate::Client::lock).
/// - A short wait costs requests for few segments. A long one costs a subscription and two requests
///   for each segment, after the one of the search; the callers of one client share them. The end of
///   a wait costs none.
/// - Two segments may be granted in the same moment. The caller gets one. The other is released in
///   the background.
/// - A segment whose server is down is passed over. While a server does not answer, the next segment
///   is asked for after an eighth of [`Config::command_timeout`](crate::Config::command_timeout), and
///   each further one sooner.
/// - There is no order between processes. In one process the callers that wait for a segment are
///   served first come, first served.
///
/// Observers see an acquisition for each segment that is asked for. One that was not needed ends as
/// cancelled.
///
/// # Examples
/// Empty segments are passed over:
///
/// ```no_run
/// # async fn sell_from(segment: usize) -> bool { true }
/// # async fn f(client: redisson_lock::Client) -> Result<(), redisson_lock::Error> {
/// let stock = client.segmented("stock:42", 16);
/// let mut any = stock.any();
/// while !any.is_empty() {
///     let guard = any.lock().await?;
///     if !sell_from(guard.segment()).await {
///         any = any.except([guard.segment()]); // sold out
///     }
///     guard.unlock().await?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "no segment is held until it is acquired: `let guard = lock.any().lock().await?`"]
pub struct SegmentedLock {
    segments: Result<Arc<[Lock]>, Error>,
}

impl fmt::Debug for SegmentedLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lock = f.debug_struct("SegmentedLock");
        match &self.segments {
            Ok(segments) => lock.field("count", &segments.len()).field("first", &segments[0]),
            Err(error) => lock.field("error", error),
        }
        .finish_non_exhaustive()
    }
}

impl SegmentedLock {
    /// `named` makes the lock of a name.
    pub(crate) fn new(name: &str, count: usize, named: impl Fn(String) -> Lock) -> Self {
        let segments = match count {
            _ if name.is_empty() => {
                Err(Error::Invalid("the name of a lock must not be empty".into()))
            }
            1..=MOST_SEGMENTS => Ok((0..count).map(|i| named(format!("{name}:{i}"))).collect()),
            _ => Err(Error::Invalid(format!(
                "a lock of {count} segments: it must have from 1 to {MOST_SEGMENTS}"
            ))),
        };
        Self { segments }
    }

    /// Returns the number of segments. 0 when the lock cannot be used.
    #[must_use]
    pub fn count(&self) -> usize {
        self.segments.as_ref().map_or(0, |segments| segments.len())
    }

    /// Returns the lock of this segment, counted from 0. Does no I/O.
    ///
    /// A number that is out of range is reported by the first call on the lock, as
    /// [`Error::Invalid`].
    pub fn segment(&self, i: usize) -> Lock {
        match &self.segments {
            Ok(segments) => segments.get(i).cloned().unwrap_or_else(|| {
                let last = segments.len() - 1;
                let text = format!("there is no segment {i}: they are numbered from 0 to {last}");
                Lock::new(Err(Error::Invalid(text)))
            }),
            Err(error) => Lock::new(Err(error.clone())),
        }
    }

    /// Returns the locks of all segments, in the order of their numbers. Does no I/O. There are none
    /// when the lock cannot be used.
    pub fn iter(&self) -> impl Iterator<Item = Lock> {
        self.segments.iter().flat_map(|segments| segments.iter().cloned())
    }

    /// Returns the number of the segment of this key: see [the segment of a
    /// key](SegmentedLock#the-segment-of-a-key). Does no I/O.
    #[must_use]
    pub fn index_of(&self, key: impl AsRef<[u8]>) -> usize {
        // The remainder is less than the number of segments, so it fits.
        (crc32::of(key.as_ref()) as u64).checked_rem(self.count() as u64).unwrap_or(0) as usize
    }

    /// Returns the lock of the segment of this key: see [the segment of a
    /// key](SegmentedLock#the-segment-of-a-key). Does no I/O.
    ///
    /// Keys of one segment exclude each other. A caller that needs the segments of several keys
    /// takes them by [`MultiLock::all`], each of them once.
    pub fn of(&self, key: impl AsRef<[u8]>) -> Lock {
        self.segment(self.index_of(key))
    }

    /// Returns the lock of all segments together, for work on the whole: a count, a refill. Does no
    /// I/O. No segment can be acquired while it is held.
    pub fn all(&self) -> MultiLock {
        match &self.segments {
            Ok(segments) => MultiLock::all(segments.iter()),
            Err(error) => {
                MultiLock::all([Lock::<crate::guard::LockGuard>::new(Err(error.clone()))])
            }
        }
    }

    /// Returns the choice of any segment that is free. Does no I/O.
    pub fn any(&self) -> AnySegment {
        AnySegment::new(self.segments.clone())
    }
}
