//! All that a seed decides, and what the command line decides in its place.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use fastrand::Rng;
use judge::{Bounds, Kind, MS, Policy, SECOND};
use serde::{Deserialize, Serialize};

/// The command line of `run`.
#[derive(Debug, Clone)]
pub(crate) struct Command {
    pub(crate) seed: u64,
    pub(crate) topology: Topology,
    pub(crate) seconds: u64,
    pub(crate) rust: usize,
    pub(crate) java: usize,
    pub(crate) replicas: Policy,
    /// Names of faults or of families; without any, the seed decides.
    pub(crate) faults: Vec<String>,
    /// Which of [`LOCKS`] there are; without any, the seed decides.
    pub(crate) locks: Vec<String>,
    /// How many of a hundred holds are long ones, and how many of a thousand operations free a lock by force; without it, the
    /// seed decides.
    pub(crate) long_percent: Option<u8>,
    pub(crate) force_permille: Option<u16>,
    pub(crate) out: PathBuf,
}

/// How the servers stand to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Topology {
    /// One server.
    Single,
    /// A master with two replicas, which takes nobody's place.
    Replicated,
    /// The same with sentinels, which do.
    Sentinel,
    /// Three masters with a replica each.
    Cluster,
}

/// What one round is made of. It is written before the round begins.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Options {
    pub(crate) seed: u64,
    pub(crate) topology: Topology,
    pub(crate) seconds: u64,
    pub(crate) rust: usize,
    pub(crate) java: usize,
    pub(crate) replicas: Policy,
    pub(crate) faults: Vec<String>,
    /// How long it is between the begins of two faults, on average.
    pub(crate) pace_ms: u64,
    pub(crate) names: Vec<(String, Vec<Kind>)>,
    pub(crate) workers: usize,
    pub(crate) watchdog_ms: u64,
    pub(crate) command_timeout_ms: u64,
    pub(crate) retry_timeout_ms: u64,
    pub(crate) fair_wait_ms: u64,
    pub(crate) redisson_fair_wait_ms: u64,
    pub(crate) cut_percent: u8,
    pub(crate) owner_percent: u8,
    pub(crate) lease_percent: u8,
    pub(crate) drop_percent: u8,
    pub(crate) force_permille: u16,
    pub(crate) hold_ms: u64,
    pub(crate) lease_ms: u64,
    pub(crate) pause_ms: u64,
    /// Of a hundred holds, so many last for several watchdog periods.
    #[serde(default)]
    pub(crate) long_percent: u8,
}

/// The locks there may be, by the beginning of their names.
const LOCKS: [(&str, &[Kind]); 6] = [
    ("lock", &[Kind::Lock]),
    ("fair", &[Kind::Fair]),
    ("rw", &[Kind::Read, Kind::Write]),
    ("fenced", &[Kind::Fenced]),
    ("spin", &[Kind::Spin]),
    ("non_reentrant", &[Kind::NonReentrant]),
];

/// How long the phases take.
pub(crate) const WARM_UP: u64 = 4;
pub(crate) const LIVENESS: u64 = 16;

impl Options {
    pub(crate) fn of(command: &Command, seed: u64, seconds: u64, faults: Vec<String>) -> Self {
        let mut rng = Rng::with_seed(seed);
        let watchdog_ms = rng.u64(1_500..=3_000);
        let mut names = Vec::new();
        for (stem, kinds) in LOCKS {
            let most = if matches!(stem, "lock" | "fair" | "rw") { 3 } else { 1 };
            let count = rng.usize(usize::from(most > 1)..=most);
            let count = match &command.locks[..] {
                [] => count,
                locks if locks.iter().any(|lock| lock == stem) => count.max(1),
                _ => 0,
            };
            for number in 0..count {
                names.push((format!("{stem}{number}"), kinds.to_vec()));
            }
        }
        Self {
            seed,
            topology: command.topology,
            seconds,
            rust: command.rust,
            java: command.java,
            replicas: command.replicas,
            faults,
            pace_ms: rng.u64(600..=2_500),
            names,
            workers: rng.usize(2..=4),
            watchdog_ms,
            command_timeout_ms: 1_500,
            retry_timeout_ms: 5_000,
            fair_wait_ms: rng.u64(2_000..=4_000),
            redisson_fair_wait_ms: rng.u64(2_000..=4_000),
            cut_percent: rng.u8(0..=20),
            owner_percent: rng.u8(10..=60),
            lease_percent: rng.u8(10..=50),
            drop_percent: rng.u8(5..=40),
            force_permille: command.force_permille.unwrap_or(rng.u16(0..=20)),
            hold_ms: rng.u64(20..=2 * watchdog_ms),
            lease_ms: rng.u64(500..=2 * watchdog_ms),
            pause_ms: rng.u64(20..=150),
            long_percent: command.long_percent.unwrap_or(rng.u8(0..=5)),
        }
    }

    /// What the judge allows. The machine's part is measured by the run.
    pub(crate) fn bounds(&self, clock_error: u64, lateness: u64) -> Bounds {
        let (command_timeout, retry_timeout) =
            (self.command_timeout_ms * MS, self.retry_timeout_ms * MS);
        let fails_over = matches!(self.topology, Topology::Sentinel | Topology::Cluster);
        Bounds {
            watchdog: self.watchdog_ms * MS,
            command_timeout,
            retry_timeout,
            fair_wait: self.fair_wait_ms * MS,
            redisson_fair_wait: self.redisson_fair_wait_ms * MS,
            rtt: 20 * MS,
            slack: 250 * MS + 2 * lateness,
            clock_error: 3 * MS + clock_error,
            wake: 100 * MS,
            undo: retry_timeout + command_timeout,
            // A connection that was cut is there again, and has subscribed.
            recovery: 2 * SECOND,
            turn: Some(LIVENESS * SECOND * 3 / 4),
            failover: if fails_over { 6 * SECOND } else { 0 },
            follow: if fails_over { 5 * SECOND } else { command_timeout },
            discovery: 2 * SECOND,
            farewell: 2 * SECOND,
            ..Bounds::default()
        }
    }
}

impl Command {
    /// Reads the command line.
    pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut command = Self {
            seed: fastrand::u64(0..1_000_000),
            topology: Topology::Single,
            seconds: 60,
            rust: 3,
            java: 0,
            replicas: Policy::None,
            faults: Vec::new(),
            locks: Vec::new(),
            long_percent: None,
            force_permille: None,
            out: PathBuf::from("target/chaos"),
        };
        while let Some(option) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("{option} needs a value"))?;
            match option.as_str() {
                "--seed" => command.seed = number(&option, &value)?,
                "--topology" => command.topology = value.parse()?,
                "--seconds" => command.seconds = number(&option, &value)?,
                "--rust" => command.rust = number(&option, &value)?,
                "--java" => command.java = number(&option, &value)?,
                "--replicas" => {
                    command.replicas = match value.as_str() {
                        "none" => Policy::None,
                        "all" => Policy::All,
                        _ => Policy::AtLeast(number(&option, &value)?),
                    }
                }
                "--faults" => command.faults = value.split(',').map(str::to_owned).collect(),
                "--locks" => command.locks = value.split(',').map(str::to_owned).collect(),
                "--long" => command.long_percent = Some(number(&option, &value)?),
                "--force" => command.force_permille = Some(number(&option, &value)?),
                "--out" => command.out = value.into(),
                _ => return Err(format!("unknown option {option}")),
            }
        }
        if command.seconds < WARM_UP + LIVENESS + 10 {
            return Err(format!("--seconds needs at least {}", WARM_UP + LIVENESS + 10));
        }
        let names = LOCKS.map(|(name, _)| name);
        match command.locks.iter().find(|lock| !names.contains(&&***lock)) {
            Some(lock) => Err(format!("no lock is named {lock}: {}", names.join(", "))),
            None => Ok(command),
        }
    }
}

fn number<N: FromStr>(option: &str, value: &str) -> Result<N, String> {
    value.parse().map_err(|_| format!("{option} needs a number, not {value}"))
}

impl FromStr for Topology {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Ok(match name {
            "single" => Self::Single,
            "replicated" => Self::Replicated,
            "sentinel" => Self::Sentinel,
            "cluster" => Self::Cluster,
            _ => return Err(format!("no topology is named {name}")),
        })
    }
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Single => "single",
            Self::Replicated => "replicated",
            Self::Sentinel => "sentinel",
            Self::Cluster => "cluster",
        })
    }
}
