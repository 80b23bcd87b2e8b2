//! [`Witness`]: what the servers did.

use serde::{Deserialize, Serialize};

use crate::{
    history::{Mode, Nanos},
    lines::{self, Malformed},
};

/// The version of the written form.
pub(crate) const VERSION: u32 = 1;

/// What the servers of a run did to its locks.
///
/// # The written form
/// One JSON object a line. The first is `{"witness":1}`, the version. A line that is a `log` begins the log of a
/// server; the lines that are an `effect` after it belong to it, in the order in which they took effect.
/// ```text
/// {"line":"log","server":"","node":"7001","reign":{"from":0,"until":null},"synced":[]}
/// {"line":"effect","at":25,"server_ms":1795316413255,"lock":"shop","deed":"granted","id":"5f0c:1","mode":"whole","until":30000000025,"token":null}
/// {"line":"effect","at":50,"server_ms":null,"lock":"shop","deed":"released","id":"5f0c:1"}
/// {"line":"left","server":"","key":"redisson_lock_queue:{shop}"}
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Witness {
    /// One for each server that was a master, for each time that it was.
    pub logs: Vec<Log>,
    /// What was left when all clients had gone and all leases were over, token counters and what
    /// Redisson leaves apart.
    pub left: Vec<Left>,
}

/// What one server did while it was a master, and what it knew from the master before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Log {
    /// The server's name in [`Place::server`](crate::history::Place::server). All masters of the same data
    /// have the same.
    pub server: String,
    /// The process.
    pub node: String,
    /// When it was a master.
    pub reign: Reign,
    /// When it was a replica that its master knew to be connected, before that.
    pub synced: Vec<Reign>,
    /// The effects. Those stamped before the reign came from the master before.
    #[serde(skip)]
    pub effects: Vec<Effect>,
}

/// A time that may not have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reign {
    /// From this moment on.
    pub from: Nanos,
    /// Up to this moment.
    pub until: Option<Nanos>,
}

/// A key that should be gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    /// The server.
    pub server: String,
    /// The key, or the channel.
    pub key: String,
}

/// A change of a lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effect {
    /// When, on the clock of the history.
    pub at: Nanos,
    /// When, on the clock of the server, if that is known.
    pub server_ms: Option<u64>,
    /// The lock's name.
    pub lock: String,
    /// What was done to it.
    #[serde(flatten)]
    pub deed: Deed,
}

/// What was done to a lock. A hold that is passed to another id is `Released` and `Granted` at once. A request that is
/// repeated, and finds its holder there, is `Renewed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "deed", rename_all = "snake_case")]
pub enum Deed {
    /// A holder was put in.
    Granted {
        /// The holder id.
        id: String,
        /// How it stands beside others.
        mode: Mode,
        /// When its lease ends, on the clock of the history.
        until: Nanos,
        /// The token of a fenced lock.
        token: Option<u64>,
    },
    /// The hold count was set.
    Counted {
        /// The holder id.
        id: String,
        /// The count.
        count: u32,
    },
    /// The lease was set.
    Renewed {
        /// The holder id.
        id: String,
        /// When it ends.
        until: Nanos,
    },
    /// A holder let go.
    Released {
        /// The holder id.
        id: String,
    },
    /// The lease ended.
    Expired {
        /// The holder id.
        id: String,
    },
    /// The hold was taken away.
    Removed {
        /// The holder id.
        id: String,
        /// By what.
        by: Taker,
    },
    /// A waiter stands in line, at its end.
    Pushed {
        /// The id it will hold by.
        id: String,
    },
    /// A waiter left the line.
    Popped {
        /// The id.
        id: String,
        /// Why.
        why: Leave,
    },
    /// The token counter is gone, or lower than it was.
    CounterLost,
    /// The key has become something that is no lock. It stays so until the next grant.
    Spoilt,
}

/// Who took a hold away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Taker {
    /// A forced unlock.
    Force,
    /// `DEL`, `RENAME`, `FLUSHALL` or another command of an operator.
    Operator,
    /// The server, to make room.
    Eviction,
    /// A restart without the data.
    Restart,
}

/// Why a waiter left the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Leave {
    /// It has the lock.
    Granted,
    /// It gave up.
    GaveUp,
    /// It was not seen for too long.
    Dropped,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "snake_case")]
enum Line {
    Log(Log),
    Effect(Effect),
    Left(Left),
}

impl Witness {
    /// Reads the written form.
    ///
    /// # Errors
    /// When a line cannot be read, the first one is not a version that is known, or an effect is of no log.
    pub fn from_lines(text: &str) -> Result<Self, Malformed> {
        let mut witness = Self::default();
        lines::read(text, "witness", VERSION, |line| {
            match line {
                Line::Log(log) => witness.logs.push(log),
                Line::Left(left) => witness.left.push(left),
                Line::Effect(effect) => {
                    let log = witness.logs.last_mut().ok_or("an effect before any log")?;
                    log.effects.push(effect);
                }
            }
            Ok(())
        })?;
        Ok(witness)
    }

    /// Writes all, with the version.
    pub fn to_lines(&self) -> String {
        let mut text = lines::header("witness", VERSION);
        for log in &self.logs {
            lines::write(&mut text, &Line::Log(log.clone()));
            for effect in &log.effects {
                lines::write(&mut text, &Line::Effect(effect.clone()));
            }
        }
        for left in &self.left {
            lines::write(&mut text, &Line::Left(left.clone()));
        }
        text
    }
}
