//! Moods in which a server refuses commands.

use std::collections::BTreeSet;

use crate::reply::Refused;

/// Why a server refuses commands that it would run otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    /// No memory left (OOM): refuses what may need more. A replica does not mind.
    OutOfMemory,
    /// A snapshot has failed (MISCONF): refuses writes, and PING.
    Misconfigured,
    /// Too few replicas are connected (NOREPLICAS): refuses writes. A replica does not mind.
    NoReplicas,
    /// It is a replica (READONLY): refuses writes, and leaves what has expired to its master.
    ReadOnly,
    /// A replica that has lost its master, and serves nothing stale (MASTERDOWN): refuses nearly all.
    MasterDown,
    /// It reads its file after a start (LOADING): refuses nearly all.
    Loading,
    /// It runs a script without end (BUSY): refuses all.
    Busy,
}

impl Refusal {
    /// The first word of its errors.
    pub fn code(self) -> &'static str {
        match self {
            Self::OutOfMemory => "OOM",
            Self::Misconfigured => "MISCONF",
            Self::NoReplicas => "NOREPLICAS",
            Self::ReadOnly => "READONLY",
            Self::MasterDown => "MASTERDOWN",
            Self::Loading => "LOADING",
            Self::Busy => "BUSY",
        }
    }
}

/// What is to be known of a command to tell whether it is refused.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Nature {
    pub(crate) writes: bool,
    pub(crate) needs_memory: bool,
    /// Runs on a replica without a master.
    pub(crate) when_stale: bool,
    pub(crate) when_loading: bool,
    pub(crate) is_ping: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Refusals {
    held: BTreeSet<Refusal>,
}

impl Refusals {
    pub(crate) fn hold(&mut self, refusal: Refusal) {
        self.held.insert(refusal);
    }

    pub(crate) fn drop(&mut self, refusal: Refusal) {
        self.held.remove(&refusal);
    }

    pub(crate) fn clear(&mut self) {
        self.held.clear();
    }

    fn has(&self, refusal: Refusal) -> bool {
        self.held.contains(&refusal)
    }

    /// A replica without a master is a replica.
    pub(crate) fn is_replica(&self) -> bool {
        self.has(Refusal::ReadOnly) || self.has(Refusal::MasterDown)
    }

    /// A replica leaves its memory to its master, too.
    fn is_out_of_memory(&self) -> bool {
        self.has(Refusal::OutOfMemory) && !self.is_replica()
    }

    fn lacks_replicas(&self) -> bool {
        self.has(Refusal::NoReplicas) && !self.is_replica()
    }

    /// Whether a client's command is refused, in the order of Redis.
    pub(crate) fn of_client(&self, command: Nature) -> Result<(), Refused> {
        if self.held.is_empty() {
            return Ok(());
        }
        let why = if command.needs_memory && self.is_out_of_memory() {
            OUT_OF_MEMORY
        } else if (command.writes || command.is_ping) && self.has(Refusal::Misconfigured) {
            MISCONFIGURED
        } else if command.writes && self.lacks_replicas() {
            NO_REPLICAS
        } else if command.writes && self.is_replica() {
            READ_ONLY
        } else if !command.when_stale && self.has(Refusal::MasterDown) {
            MASTER_DOWN
        } else if !command.when_loading && self.has(Refusal::Loading) {
            LOADING
        } else if self.has(Refusal::Busy) {
            BUSY
        } else {
            return Ok(());
        };
        Err(why.into())
    }

    /// Whether a script may not begin.
    pub(crate) fn of_script(&self) -> Result<(), Refused> {
        if self.has(Refusal::MasterDown) { Err(MASTER_DOWN.into()) } else { Ok(()) }
    }

    /// Whether a command of a script is refused. After a first write nothing is.
    pub(crate) fn in_script(&self, command: Nature, has_written: bool) -> Result<(), Refused> {
        if self.held.is_empty() || has_written {
            return Ok(());
        }
        let why = if command.writes && self.is_replica() {
            READ_ONLY
        } else if command.writes && self.has(Refusal::Misconfigured) {
            MISCONFIGURED
        } else if command.writes && self.lacks_replicas() {
            NO_REPLICAS
        } else if command.needs_memory && self.is_out_of_memory() {
            OUT_OF_MEMORY
        } else {
            return Ok(());
        };
        Err(why.into())
    }
}

const OUT_OF_MEMORY: &str = "OOM command not allowed when used memory > 'maxmemory'.";
const MISCONFIGURED: &str = "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. \
     Commands that may modify the data set are disabled, because this instance is configured to report errors during writes \
     if RDB snapshotting fails (stop-writes-on-bgsave-error option). Please check the Redis logs for details about the RDB error.";
const NO_REPLICAS: &str = "NOREPLICAS Not enough good replicas to write.";
const READ_ONLY: &str = "READONLY You can't write against a read only replica.";
const MASTER_DOWN: &str =
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.";
const LOADING: &str = "LOADING Redis is loading the dataset in memory";
const BUSY: &str =
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";
