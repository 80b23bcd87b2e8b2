//! [`History`]: what the clients of a run saw, and what was done to them.

use serde::{Deserialize, Serialize};

use crate::lines::{self, Malformed};

/// A moment or a length of time, in nanoseconds. All moments of a run are of one clock.
pub type Nanos = u64;

/// The version of the written form.
pub(crate) const VERSION: u32 = 1;

/// The events of one run, in any order.
///
/// # The written form
/// One JSON object a line. The first is `{"history":1}`, the version. Each of the others is an [`Event`]:
/// ```text
/// {"at":10,"process":"a","event":"start","client":"5f0c","redisson":false,"policy":"none"}
/// {"at":20,"process":"a","event":"invoke","op":1,"call":"acquire","guard":1,"locks":[{"server":"","name":"shop","kind":"lock"}],"rule":"one","owner":null,"lease":null,"wait":null}
/// {"at":30,"process":"a","event":"answer","op":1,"answer":"granted","holds":[{"place":0,"id":"5f0c:1"}],"token":null,"acknowledged":null,"remaining":29698000000,"count":1}
/// {"at":40,"process":"a","event":"end"}
/// ```
/// Files of several processes may be joined: lines that repeat the version are passed over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// The events.
    pub events: Vec<Event>,
}

/// Something that was seen or done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When. An invocation is stamped before the call, an answer after it.
    pub at: Nanos,
    /// The process that it happened in or to. A process that is started again has another name.
    pub process: String,
    /// What.
    #[serde(flatten)]
    pub what: What,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum What {
    /// The process begins. Without this event it is a client of this crate whose id is not known.
    Start {
        /// The client's id: its holder ids are `<client>:<number>`.
        client: Option<String>,
        /// Whether it is Redisson: it tells nobody of a loss, and uses holder ids again.
        redisson: bool,
        /// How many replicas it asks to confirm a hold.
        policy: Policy,
    },
    /// An operation begins.
    Invoke {
        /// Its number within the process.
        op: u64,
        /// What is asked for.
        #[serde(flatten)]
        call: Call,
    },
    /// The operation has ended.
    Answer {
        /// Its number.
        op: u64,
        /// How.
        #[serde(flatten)]
        answer: Answer,
    },
    /// The operation's future was dropped. What it did is unknown. An operation without an answer and
    /// without this event is unknown as well: the process died, or the run ended.
    Cut {
        /// Its number.
        op: u64,
    },
    /// The operation's future is not polled from now on. Others may pass it by.
    Idle {
        /// Its number.
        op: u64,
    },
    /// It is polled again.
    Polled {
        /// Its number.
        op: u64,
    },
    /// A guard is dropped: about to be, for what is stamped is the moment before.
    Drop {
        /// The guard.
        guard: u64,
    },
    /// A guard's trust was seen to be renewed.
    Renewed {
        /// The guard.
        guard: u64,
        /// For how long it can be trusted.
        remaining: Nanos,
    },
    /// A server has joined the guard of a majority late.
    Joined {
        /// The guard.
        guard: u64,
        /// The hold there.
        #[serde(flatten)]
        hold: Held,
    },
    /// The user of a guard is told that it is lost.
    Lost {
        /// The guard.
        guard: u64,
        /// Why.
        why: Loss,
    },
    /// The process is stopped, or its runtime is blocked.
    Pause,
    /// The process goes on.
    Resume,
    /// The process is dead, however it ended.
    End,
    /// A fault begins. The process of the event is the nemesis.
    Begin {
        /// The fault's name, which [`Heal`](What::Heal) repeats.
        fault: String,
        /// What it may cost.
        class: Fault,
        /// What it is done to.
        target: String,
    },
    /// A fault ends. One that is done at once, such as a `FLUSHALL`, ends where it began.
    Heal {
        /// The fault's name.
        fault: String,
    },
}

/// An operation, as it is invoked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "call", rename_all = "snake_case")]
pub enum Call {
    /// An acquisition, or a re-entry: that is an acquisition by an owner who has a guard of the lock.
    Acquire {
        /// The number of the guard that it would give, within the process. Several guards may have one
        /// holder id: those of an owner, and those of a hold that is handed from one to the next.
        guard: u64,
        /// The lock, or the locks that are taken as one.
        locks: Vec<Place>,
        /// How many of them are enough.
        rule: Rule,
        /// The owner within the process. Without one, it is its own.
        owner: Option<String>,
        /// The lease. Without one it is watched: renewed for as long as the guard lives.
        lease: Option<Nanos>,
        /// How long it waits. `0`: for one answer. `None`: for ever.
        wait: Option<Nanos>,
    },
    /// A release.
    Unlock {
        /// The guard.
        guard: u64,
    },
    /// The server is asked whether the guard is held.
    Check {
        /// The guard.
        guard: u64,
    },
    /// The lock is freed, whoever holds it.
    Force {
        /// The lock.
        lock: Place,
    },
    /// Asks whether the lock is held.
    IsLocked {
        /// The lock.
        lock: Place,
    },
    /// Asks for holders and waiters.
    Inspect {
        /// The lock.
        lock: Place,
    },
    /// Asks for the rest of the lease.
    Remaining {
        /// The lock.
        lock: Place,
    },
    /// Asks for the token that was given last.
    Token {
        /// The lock.
        lock: Place,
    },
    /// The work under the lock: a write to a storage that knows the lock's name.
    Use {
        /// The guard.
        guard: u64,
        /// The token that the storage is shown.
        token: Option<u64>,
    },
    /// The client connects.
    Connect,
    /// The client is closed.
    Close,
}

/// How an operation ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// The guard is there.
    Granted {
        /// The holds behind it: one, or those of several locks.
        holds: Vec<Held>,
        /// The token of a fenced lock.
        token: Option<u64>,
        /// How many replicas have confirmed it, if they were asked.
        acknowledged: Option<u32>,
        /// For how long it can be trusted.
        remaining: Nanos,
        /// How many guards the hold has.
        count: u32,
    },
    /// Others held the lock for all the time given.
    Refused,
    /// A release, a check, a `connect` or a `close` succeeded.
    Done,
    /// The hold is lost.
    NotHeld {
        /// Why.
        why: Loss,
    },
    /// It failed.
    Error {
        /// Why.
        code: Code,
    },
    /// Whether the lock was freed by force.
    Freed {
        /// Whether it was.
        freed: bool,
    },
    /// Whether the lock is held.
    Locked {
        /// Whether it is.
        locked: bool,
    },
    /// Holders and waiters.
    State {
        /// The holders.
        holders: Vec<Seen>,
        /// The ids of a fair lock's waiters, the first one first.
        queue: Vec<String>,
    },
    /// The rest of the lease. `None`: the lock is free.
    Remaining {
        /// The rest.
        left: Option<Nanos>,
    },
    /// The token that was given last. `None`: there is none.
    Token {
        /// The token.
        token: Option<u64>,
    },
    /// Whether the storage accepted the write.
    Used {
        /// Whether it did.
        accepted: bool,
    },
}

/// A lock on a server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Place {
    /// The server, or the servers that are masters of the same data one after another.
    pub server: String,
    /// The lock's name.
    pub name: String,
    /// Its kind.
    pub kind: Kind,
}

/// The kinds of lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// `lock`.
    Lock,
    /// `fair_lock`.
    Fair,
    /// `fenced_lock`.
    Fenced,
    /// `spin_lock`.
    Spin,
    /// The read side of `read_write_lock`.
    Read,
    /// The write side of `read_write_lock`.
    Write,
    /// `non_reentrant_lock`.
    NonReentrant,
    /// `non_reentrant_fair_lock`.
    NonReentrantFair,
}

impl Kind {
    /// How a hold of this kind stands beside others.
    pub fn mode(self) -> Mode {
        match self {
            Self::Read => Mode::Read,
            Self::Write => Mode::Write,
            _ => Mode::Whole,
        }
    }

    /// Whether its waiters have an order on the server.
    pub fn is_fair(self) -> bool {
        matches!(self, Self::Fair | Self::NonReentrantFair)
    }
}

/// How a hold stands beside others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// It is the only one.
    Whole,
    /// It is beside other reads, and under a write of its owner.
    Read,
    /// It is the only one but for reads of its owner.
    Write,
}

/// How many of several locks are enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// There is one.
    One,
    /// All of them.
    All,
    /// More than half.
    Majority,
}

impl Rule {
    /// How many of so many locks have to be held.
    pub fn quorum(self, of: usize) -> usize {
        match self {
            Self::One | Self::All => of,
            Self::Majority => of / 2 + 1,
        }
    }
}

/// The hold on one of the locks of an acquisition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Which of the locks.
    pub place: usize,
    /// The holder id on the server.
    pub id: String,
}

/// A holder, as an inspection shows it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Seen {
    /// The holder id.
    pub id: String,
    /// The hold count.
    pub count: u32,
}

/// Why a hold was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Loss {
    /// It could not be trusted any longer.
    Expired,
    /// The key is gone.
    Removed,
    /// The lock is another's.
    Taken,
    /// The client was closed.
    Closed,
    /// It may have been released.
    Unknown,
}

/// Why an operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// The server could not be reached, did not answer, or answered with an error.
    Redis,
    /// Too few replicas confirmed.
    NotReplicated,
    /// The owner holds it already.
    WouldDeadlock,
    /// The key is not a lock of this kind.
    WrongKind,
    /// The client is closed.
    Closed,
    /// An argument is out of range.
    Invalid,
}

/// How many replicas confirm a hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// None is asked.
    #[default]
    None,
    /// At least so many.
    AtLeast(u32),
    /// All that are connected.
    All,
}

/// What a fault may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// Time only: a slow, cut or lossy network, a stopped server, a server that refuses.
    Delay,
    /// Another server takes over.
    Failover,
    /// The network is parted: the old master may go on serving some clients.
    Partition,
    /// Data of a server are removed: flushed, evicted, lost in a restart.
    Data,
    /// A clock is set.
    Clock,
}

impl History {
    /// Reads the written form.
    ///
    /// # Errors
    /// When a line cannot be read, or the first one is not a version that is known.
    pub fn from_lines(text: &str) -> Result<Self, Malformed> {
        let mut events = Vec::new();
        lines::read(text, "history", VERSION, |event| {
            events.push(event);
            Ok(())
        })?;
        Ok(Self { events })
    }

    /// Writes all, with the version.
    pub fn to_lines(&self) -> String {
        let mut text = lines::header("history", VERSION);
        for event in &self.events {
            lines::write(&mut text, event);
        }
        text
    }
}
