//! Many owners in one peer that acquire and release as fast as they can.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What the peer's `loop` is to do.
#[derive(Debug, Clone, Serialize)]
pub struct Load {
    owners: usize,
    millis: u64,
    each: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    hold_us: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wait_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    counter: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    write_percent: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    room: Option<String>,
}

impl Load {
    /// So many owners for so long, all at the same lock.
    pub fn new(owners: usize, time: Duration) -> Self {
        Self {
            owners,
            millis: millis(time),
            each: false,
            hold_us: None,
            wait_ms: None,
            lease_ms: None,
            counter: None,
            until: None,
            write_percent: None,
            room: None,
        }
    }

    /// Each owner has a lock of its own, `name:i`.
    pub fn each(mut self) -> Self {
        self.each = true;
        self
    }

    /// Each hold lasts so long.
    pub fn hold(mut self, time: Duration) -> Self {
        self.hold_us = Some(time.as_micros().try_into().expect("a short time"));
        self
    }

    /// Each try waits so long at most, and may be refused.
    pub fn wait(mut self, time: Duration) -> Self {
        self.wait_ms = Some(millis(time));
        self
    }

    /// Each hold is for a fixed lease.
    pub fn lease(mut self, time: Duration) -> Self {
        self.lease_ms = Some(millis(time));
        self
    }

    /// Each hold reads this key and writes it back with one added, in two commands.
    pub fn counter(mut self, key: impl Into<String>) -> Self {
        self.counter = Some(key.into());
        self
    }

    /// An owner that reads so high a counter adds nothing and stops.
    pub fn until(mut self, count: u64) -> Self {
        self.until = Some(count);
        self
    }

    /// For the kind `read_write`: so many turns in a hundred write, the others read.
    ///
    /// Only writers add to the counter; readers look at it at both ends of their hold.
    pub fn write_percent(mut self, percent: u8) -> Self {
        self.write_percent = Some(percent);
        self
    }

    /// For exclusive locks: whoever holds one is counted in this key, and whoever comes in sees if another is inside.
    pub fn room(mut self, key: impl Into<String>) -> Self {
        self.room = Some(key.into());
        self
    }

    pub(crate) fn time(&self) -> Duration {
        Duration::from_millis(self.millis)
    }
}

/// What came of a [`Load`].
#[derive(Debug, Clone, Deserialize)]
pub struct LoadReport {
    /// How many times a lock was taken.
    pub acquired: u64,
    /// How many tries were refused.
    pub refused: u64,
    /// How many operations failed.
    pub errors: u64,
    /// How many times one was added to the counter.
    #[serde(default)]
    pub counted: u64,
    /// How many readers saw the counter change.
    #[serde(default)]
    pub torn: u64,
    /// How many found another inside who came into a [`Load::room`].
    #[serde(default)]
    pub overlaps: u64,
    /// The least any owner got.
    pub min_per_owner: u64,
    /// The most any owner got.
    pub max_per_owner: u64,
    /// How long an acquisition took.
    #[serde(default)]
    pub acquire_us: Latency,
    /// How long a release took.
    #[serde(default)]
    pub release_us: Latency,
    /// How long it took to acquire, use and release.
    #[serde(default)]
    pub turn_us: Latency,
    /// What CPU the process used meanwhile, in microseconds.
    #[serde(default)]
    pub cpu_us: u64,
    /// What each owner got.
    #[serde(default)]
    pub per_owner: Vec<OwnerReport>,
    /// How many read locks were taken.
    #[serde(default)]
    pub reads: u64,
    /// How many write locks were taken.
    #[serde(default)]
    pub writes: u64,
    /// How long the acquisition of a read lock took.
    #[serde(default)]
    pub read_us: Latency,
    /// How long the acquisition of a write lock took.
    #[serde(default)]
    pub write_us: Latency,
}

/// What came of a [`Load`] for one owner.
#[derive(Debug, Clone, Deserialize)]
pub struct OwnerReport {
    /// How many times it took a lock.
    pub acquired: u64,
    /// How long an acquisition took.
    pub acquire_us: Latency,
}

/// A distribution of times, in microseconds.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub struct Latency {
    /// Half of them took no longer.
    pub p50: f64,
    /// All but one in a hundred took no longer.
    pub p99: f64,
    /// The longest.
    pub max: f64,
}

pub(crate) fn millis(time: Duration) -> u64 {
    time.as_millis().try_into().expect("a time of this age")
}
