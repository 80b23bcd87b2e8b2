//! The arguments of a peer.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// The language a peer is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Lang {
    /// This crate.
    Rust,
    /// The real Redisson.
    Java,
    /// The Lock of redis-py: plain locks only.
    Python,
}

impl fmt::Display for Lang {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Rust => "rust",
            Self::Java => "java",
            Self::Python => "python",
        })
    }
}

/// What a peer is started with.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct PeerArgs {
    pub(super) arguments: Vec<String>,
    pub(super) launcher: Option<PathBuf>,
    pub(super) clock: Option<String>,
    pub(super) optimized: bool,
    pub(super) hands_nothing_on: bool,
}

impl PeerArgs {
    /// One server.
    pub fn redis(url: impl Into<String>) -> Self {
        Self::default().option("--redis", url)
    }

    /// A cluster, by some of its nodes as `host:port`.
    pub fn cluster(nodes: &[impl AsRef<str>]) -> Self {
        Self::default().option("--cluster", comma_separated(nodes))
    }

    /// The master of this name, as the sentinels at `host:port` know it.
    pub fn sentinel(sentinels: &[impl AsRef<str>], master: &str) -> Self {
        Self::default().option("--sentinel", comma_separated(sentinels)).option("--master", master)
    }

    /// The server of the counters of loops, where that is another than the locks'.
    pub fn counters(self, url: impl Into<String>) -> Self {
        self.option("--counters", url)
    }

    /// How long a hold without a lease lives on after its process has died.
    pub fn watchdog(self, time: Duration) -> Self {
        self.option("--watchdog-ms", time.as_millis().to_string())
    }

    /// How long a place in a fair queue is kept.
    pub fn fair_wait(self, time: Duration) -> Self {
        self.option("--fair-wait-ms", time.as_millis().to_string())
    }

    /// Which replicas confirm a hold: `none` or `all`. Without it, each crate's default.
    pub fn replicas(self, replicas: &str) -> Self {
        self.option("--replicas", replicas)
    }

    /// What stands before every name.
    pub fn prefix(self, prefix: &str) -> Self {
        self.option("--prefix", prefix)
    }

    /// A JVM whose wall clock is wrong: ahead by so many seconds.
    pub fn clock_ahead(mut self, seconds: i64) -> Self {
        self.clock = Some(format!("{seconds:+}s"));
        self
    }

    /// A peer of this crate that is built with optimizations, or a JVM with all of its own: for what is measured.
    pub fn optimized(mut self) -> Self {
        self.optimized = true;
        self
    }

    /// A peer of this crate whose local callers hand nothing on, and share nothing.
    pub fn handing_nothing_on(mut self) -> Self {
        self.hands_nothing_on = true;
        self
    }

    /// A program in place of `tests/peers/run`.
    pub fn launcher(mut self, program: impl Into<PathBuf>) -> Self {
        self.launcher = Some(program.into());
        self
    }

    /// What only a program other than `tests/peers/run` knows.
    pub fn option(mut self, option: &str, value: impl Into<String>) -> Self {
        self.arguments.extend([option.into(), value.into()]);
        self
    }
}

fn comma_separated(parts: &[impl AsRef<str>]) -> String {
    parts.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(",")
}
