//! [`MetricsObserver`]: metrics of locks, by the crate [`metrics`](https://docs.rs/metrics), for the
//! exporter of your choice. Needs the feature `metrics`.
//!
//! | name | type | unit | labels beside `lock` and `kind` |
//! |---|---|---|---|
//! | `redisson_lock.acquire.duration` | histogram | seconds | `outcome` |
//! | `redisson_lock.hold.duration` | histogram | seconds | `end` |
//! | `redisson_lock.renewal.margin` | histogram | seconds | |
//! | `redisson_lock.waiters` | gauge | acquisitions | |
//! | `redisson_lock.holds` | gauge | holds | |
//! | `redisson_lock.lost` | counter | holds | `reason` |
//! | `redisson_lock.passed_on` | counter | hand-offs | |
//! | `redisson_lock.release.failures` | counter | releases | `result` |
//!
//! | label | values |
//! |---|---|
//! | `lock` | the name of the lock without its ids: see [`collapse_ids`] |
//! | `kind` | [`LockKind::as_str`](crate::observer::LockKind::as_str) |
//! | `outcome` | [`Outcome::as_str`](crate::observer::Outcome::as_str) |
//! | `end` | [`HoldEnd::as_str`](crate::observer::HoldEnd::as_str) |
//! | `reason` | `expired`, `removed`, `taken`, `closed`, `unknown`: see [`Loss`] |
//! | `result` | `repeated`: it goes on in the background; `given_up`: the lock ends with its lease |
//!
//! `lost` and `release.failures` begin at 0, with each of their values, when a lock's label is first
//! used: so the `increase()` of a Prometheus counts the first one, too.
//!
//! Names, units and values are stable: a change of one is a breaking change. Later versions may add
//! metrics and values.
//!
//! # Examples
//! ```
//! use redisson_lock::{Config, metrics::MetricsObserver};
//!
//! // Install the recorder of an exporter before this.
//! let config = Config::from_url("redis://127.0.0.1:6379")?.observer(MetricsObserver::new());
//! # Ok::<(), redisson_lock::Error>(())
//! ```

mod label;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicU32, Ordering},
    },
};

use ::metrics::{Key, Label, Level, Metadata, Recorder, SharedString, Unit, with_recorder};

pub use self::label::collapse_ids;
use crate::{
    error::Loss,
    observer::{
        AcquireEnded, HoldBegun, HoldEnd, HoldEnded, LockKind, Observer, ReleaseFailed, Renewal,
        WaitBegun,
    },
};

const ACQUIRE_DURATION: &str = "redisson_lock.acquire.duration";
const HOLD_DURATION: &str = "redisson_lock.hold.duration";
const RENEWAL_MARGIN: &str = "redisson_lock.renewal.margin";
const WAITERS: &str = "redisson_lock.waiters";
const HOLDS: &str = "redisson_lock.holds";
const LOST: &str = "redisson_lock.lost";
const PASSED_ON: &str = "redisson_lock.passed_on";
const RELEASE_FAILURES: &str = "redisson_lock.release.failures";

/// The label of all locks beyond the most.
const OTHER: &str = "other";

const REASONS: [&str; 5] = ["expired", "removed", "taken", "closed", "unknown"];
const RESULTS: [&str; 2] = ["repeated", "given_up"];

/// How many labels of locks there are at most, by default.
const MAX_LABELS: usize = 100;

static METADATA: Metadata<'static> =
    Metadata::new(module_path!(), Level::INFO, Some(module_path!()));

/// An [`Observer`] that records metrics with the recorder of the process.
///
/// The recorder is asked at each event, so it may be installed later. What happened before is not
/// recorded then: gauges are wrong by the holds and waiters of that time, and the counters of the
/// locks of that time begin with their first event. Install it first.
///
/// Several clients may share one observer, in an [`Arc`], or have one each. The metrics are the same;
/// only [`max_labels`](MetricsObserver::max_labels) counts for each observer by itself.
#[must_use = "an observer does nothing by itself: `config.observer(observer)`"]
pub struct MetricsObserver {
    label: Box<dyn Fn(&str) -> String + Send + Sync>,
    max_labels: usize,
    labels: RwLock<HashMap<Arc<str>, Kinds>>,
    /// Those of the label `other`.
    other: Kinds,
}

/// The kinds of lock that a label was used for, a bit each.
#[derive(Debug, Default)]
struct Kinds(AtomicU32);

impl Kinds {
    /// Whether this kind is new. Only one caller is told so.
    fn is_new(&self, kind: LockKind) -> bool {
        let bit = 1 << kind as u32;
        // A load first: it is nearly always known.
        self.0.load(Ordering::Relaxed) & bit == 0
            && self.0.fetch_or(bit, Ordering::Relaxed) & bit == 0
    }
}

impl fmt::Debug for MetricsObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetricsObserver")
            .field("max_labels", &self.max_labels)
            .finish_non_exhaustive()
    }
}

impl Default for MetricsObserver {
    fn default() -> Self {
        Self::new()
    }
}

impl MetricsObserver {
    /// Labels locks by [`collapse_ids`], with 100 labels at most. [Describes](Self::describe) the
    /// metrics to the recorder of the process.
    pub fn new() -> Self {
        Self::describe();
        Self {
            label: Box::new(collapse_ids),
            max_labels: MAX_LABELS,
            labels: RwLock::default(),
            other: Kinds::default(),
        }
    }

    /// Sets the function that makes the label of a lock from its key on the server, prefix included.
    ///
    /// It must return the same label each time, or gauges drift. It is called for each event, so it
    /// must be fast.
    pub fn label(mut self, label: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        self.label = Box::new(label);
        self
    }

    /// Sets how many different labels of locks there are at most. Locks beyond that have the label
    /// `other`. Default: 100.
    pub fn max_labels(mut self, max_labels: usize) -> Self {
        self.max_labels = max_labels;
        self
    }

    /// Tells the recorder of the process what the metrics mean, and their units.
    /// [`new`](Self::new) does so. Call it if the recorder is installed later.
    pub fn describe() {
        with_recorder(|recorder| {
            let seconds = |name: &'static str, text: &'static str| {
                recorder.describe_histogram(name.into(), Some(Unit::Seconds), text.into());
            };
            seconds(ACQUIRE_DURATION, "How long acquisitions took, by their outcome");
            seconds(HOLD_DURATION, "How long callers had locks, by the end of the hold");
            seconds(
                RENEWAL_MARGIN,
                "How long holds would still have been trusted when a renewal was confirmed",
            );
            let gauge = |name: &'static str, text: &'static str| {
                recorder.describe_gauge(name.into(), Some(Unit::Count), text.into());
            };
            gauge(WAITERS, "Acquisitions that wait for others");
            gauge(HOLDS, "Locks that are held");
            let counter = |name: &'static str, text: &'static str| {
                recorder.describe_counter(name.into(), Some(Unit::Count), text.into());
            };
            counter(LOST, "Holds that were lost, by the reason");
            counter(PASSED_ON, "Holds that went to the next local caller");
            counter(RELEASE_FAILURES, "Releases that failed, by what came of them");
        });
    }

    /// The label of a lock, and whether it is new for this kind.
    fn label_of(&self, lock: &str, kind: LockKind) -> (SharedString, bool) {
        let label = (self.label)(lock);
        let known = |labels: &HashMap<Arc<str>, Kinds>| {
            let (label, kinds) = labels.get_key_value(&*label)?;
            Some((label.clone().into(), kinds.is_new(kind)))
        };
        if let Some(known) = known(&self.labels.read().unwrap_or_else(PoisonError::into_inner)) {
            return known;
        }
        let mut labels = self.labels.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known(&labels) {
            return known;
        }
        if labels.len() >= self.max_labels {
            return (OTHER.into(), self.other.is_new(kind));
        }
        let (label, kinds) = (Arc::<str>::from(label), Kinds::default());
        let is_new = kinds.is_new(kind);
        labels.insert(label.clone(), kinds);
        (label.into(), is_new)
    }

    fn key(
        &self,
        name: &'static str,
        lock: &str,
        kind: LockKind,
        more: Option<(&'static str, &'static str)>,
    ) -> Key {
        let (label, is_new) = self.label_of(lock, kind);
        if is_new {
            begin_at_zero(&label, kind);
        }
        key_of(name, label, kind, more)
    }
}

fn key_of(
    name: &'static str,
    label: SharedString,
    kind: LockKind,
    more: Option<(&'static str, &'static str)>,
) -> Key {
    let mut labels = vec![Label::new("lock", label), Label::new("kind", kind.as_str())];
    labels.extend(more.map(|(name, value)| Label::new(name, value)));
    Key::from_parts(name, labels)
}

/// Makes the counters known that alerts look at. Of a counter that begins with 1 the first step is
/// not seen.
fn begin_at_zero(label: &SharedString, kind: LockKind) {
    let lost = REASONS.map(|reason| (LOST, ("reason", reason)));
    let failed = RESULTS.map(|result| (RELEASE_FAILURES, ("result", result)));
    with_recorder(|recorder| {
        for (name, more) in lost.into_iter().chain(failed) {
            let key = key_of(name, label.clone(), kind, Some(more));
            recorder.register_counter(&key, &METADATA).increment(0);
        }
    });
}

fn count(recorder: &dyn Recorder, key: &Key) {
    recorder.register_counter(key, &METADATA).increment(1);
}

impl Observer for MetricsObserver {
    fn wait_begun(&self, wait: &WaitBegun<'_>) {
        let key = self.key(WAITERS, wait.lock, wait.kind, None);
        with_recorder(|recorder| recorder.register_gauge(&key, &METADATA).increment(1.0));
    }

    fn acquire_ended(&self, end: &AcquireEnded<'_>) {
        let outcome = ("outcome", end.outcome.as_str());
        let duration = self.key(ACQUIRE_DURATION, end.lock, end.kind, Some(outcome));
        let waiters = end.waited.then(|| self.key(WAITERS, end.lock, end.kind, None));
        with_recorder(|recorder| {
            let seconds = end.duration.as_secs_f64();
            recorder.register_histogram(&duration, &METADATA).record(seconds);
            if let Some(waiters) = &waiters {
                recorder.register_gauge(waiters, &METADATA).decrement(1.0);
            }
        });
    }

    fn hold_begun(&self, hold: &HoldBegun<'_>) {
        let key = self.key(HOLDS, hold.lock, hold.kind, None);
        with_recorder(|recorder| recorder.register_gauge(&key, &METADATA).increment(1.0));
    }

    fn hold_ended(&self, ended: &HoldEnded<'_>) {
        let (lock, kind) = (ended.lock, ended.kind);
        let duration = self.key(HOLD_DURATION, lock, kind, Some(("end", ended.end.as_str())));
        let holds = self.key(HOLDS, lock, kind, None);
        let counted = match ended.end {
            HoldEnd::HandedOn => Some(self.key(PASSED_ON, lock, kind, None)),
            HoldEnd::Lost(why) => Some(self.key(LOST, lock, kind, Some(("reason", reason(why))))),
            HoldEnd::Released | HoldEnd::NotReleased => None,
        };
        with_recorder(|recorder| {
            let seconds = ended.duration.as_secs_f64();
            recorder.register_histogram(&duration, &METADATA).record(seconds);
            recorder.register_gauge(&holds, &METADATA).decrement(1.0);
            if let Some(counted) = &counted {
                count(recorder, counted);
            }
        });
    }

    fn renewed(&self, renewal: &Renewal<'_>) {
        let key = self.key(RENEWAL_MARGIN, renewal.lock, renewal.kind, None);
        let seconds = renewal.margin.as_secs_f64();
        with_recorder(|recorder| recorder.register_histogram(&key, &METADATA).record(seconds));
    }

    fn release_failed(&self, failure: &ReleaseFailed<'_>) {
        let result = if failure.given_up { "given_up" } else { "repeated" };
        let more = Some(("result", result));
        let key = self.key(RELEASE_FAILURES, failure.lock, failure.kind, more);
        with_recorder(|recorder| count(recorder, &key));
    }
}

fn reason(why: Loss) -> &'static str {
    match why {
        Loss::Expired => "expired",
        Loss::Removed => "removed",
        Loss::Taken => "taken",
        Loss::Closed => "closed",
        Loss::Unknown => "unknown",
    }
}
