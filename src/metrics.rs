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
//! | `redisson_lock.hand_offs` | counter | hand-offs | |
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
mod recorder;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use ::metrics::{
    Counter, Gauge, Key, Label, Level, Metadata, Recorder, SharedString, Unit, with_recorder,
};

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
const HAND_OFFS: &str = "redisson_lock.hand_offs";
const RELEASE_FAILURES: &str = "redisson_lock.release.failures";

/// The label of all locks beyond the most.
const OTHER: &str = "other";

const LOSSES: [Loss; 5] = [Loss::Expired, Loss::Removed, Loss::Taken, Loss::Closed, Loss::Unknown];

/// How many labels of locks there are at most, by default.
const MAX_LABELS: usize = 100;

static METADATA: Metadata<'static> =
    Metadata::new(module_path!(), Level::INFO, Some(module_path!()));

/// An [`Observer`] that records metrics with the recorder of the process.
///
/// The recorder may be installed later. Acquisitions that have begun before are not recorded then,
/// nor are their holds. Install it first. Without a recorder an acquisition costs as much as without
/// an observer. In a pair with an observer that is enabled, it hears of all acquisitions: of those that
/// began before there was a recorder only the ends are recorded.
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
        // It may start a thread. Not in an acquisition.
        recorder::is_installed();
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
            counter(HAND_OFFS, "Holds that went to the next local caller");
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
        {
            let labels = self.labels.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(known) = known(&labels) {
                return known;
            }
            // No label is ever removed.
            if labels.len() >= self.max_labels {
                return (OTHER.into(), self.other.is_new(kind));
            }
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

    /// Records one event of a lock.
    fn record(&self, lock: &str, kind: LockKind, event: impl FnOnce(&Recording<'_>)) {
        if !self.is_enabled() {
            return;
        }
        let (lock, is_new) = self.label_of(lock, kind);
        with_recorder(|recorder| {
            let recording = Recording { recorder, lock, kind };
            if is_new {
                recording.begin_at_zero();
            }
            event(&recording);
        });
    }
}

/// A further label of a metric: its name and its value.
type More = Option<(&'static str, &'static str)>;

/// The recorder, for the metrics of one lock.
struct Recording<'a> {
    recorder: &'a dyn Recorder,
    lock: SharedString,
    kind: LockKind,
}

impl Recording<'_> {
    fn key(&self, name: &'static str, more: More) -> Key {
        let lock = Label::new("lock", self.lock.clone());
        let mut labels = vec![lock, Label::new("kind", self.kind.as_str())];
        labels.extend(more.map(|(name, value)| Label::new(name, value)));
        Key::from_parts(name, labels)
    }

    fn seconds(&self, name: &'static str, more: More, duration: Duration) {
        let histogram = self.recorder.register_histogram(&self.key(name, more), &METADATA);
        histogram.record(duration.as_secs_f64());
    }

    fn gauge(&self, name: &'static str) -> Gauge {
        self.recorder.register_gauge(&self.key(name, None), &METADATA)
    }

    fn counter(&self, name: &'static str, more: More) -> Counter {
        self.recorder.register_counter(&self.key(name, more), &METADATA)
    }

    fn losses(&self, why: Loss) -> Counter {
        self.counter(LOST, Some(("reason", reason(why))))
    }

    fn failures(&self, given_up: bool) -> Counter {
        self.counter(RELEASE_FAILURES, Some(("result", result(given_up))))
    }

    /// Makes the counters known that alerts look at. Of a counter that begins with 1 the first step
    /// is not seen.
    fn begin_at_zero(&self) {
        for counter in LOSSES.map(|why| self.losses(why)) {
            counter.increment(0);
        }
        for counter in [false, true].map(|given_up| self.failures(given_up)) {
            counter.increment(0);
        }
    }
}

impl Observer for MetricsObserver {
    /// Whether there is a recorder.
    fn is_enabled(&self) -> bool {
        recorder::is_installed()
    }

    fn wait_begun(&self, wait: &WaitBegun<'_>) {
        self.record(wait.lock, wait.kind, |of| of.gauge(WAITERS).increment(1.0));
    }

    fn acquire_ended(&self, end: &AcquireEnded<'_>) {
        self.record(end.lock, end.kind, |of| {
            of.seconds(ACQUIRE_DURATION, Some(("outcome", end.outcome.as_str())), end.duration);
            if end.waited {
                of.gauge(WAITERS).decrement(1.0);
            }
        });
    }

    fn hold_begun(&self, hold: &HoldBegun<'_>) {
        self.record(hold.lock, hold.kind, |of| of.gauge(HOLDS).increment(1.0));
    }

    fn hold_ended(&self, ended: &HoldEnded<'_>) {
        self.record(ended.lock, ended.kind, |of| {
            of.seconds(HOLD_DURATION, Some(("end", ended.end.as_str())), ended.duration);
            of.gauge(HOLDS).decrement(1.0);
            match ended.end {
                HoldEnd::HandedOff => of.counter(HAND_OFFS, None).increment(1),
                HoldEnd::Lost(why) => of.losses(why).increment(1),
                HoldEnd::Released | HoldEnd::ReleaseGivenUp => {}
            }
        });
    }

    fn renewed(&self, renewal: &Renewal<'_>) {
        self.record(renewal.lock, renewal.kind, |of| {
            of.seconds(RENEWAL_MARGIN, None, renewal.margin);
        });
    }

    fn release_failed(&self, failure: &ReleaseFailed<'_>) {
        self.record(failure.lock, failure.kind, |of| of.failures(failure.given_up).increment(1));
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

fn result(given_up: bool) -> &'static str {
    if given_up { "given_up" } else { "repeated" }
}
