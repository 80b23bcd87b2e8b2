//! [`Bounds`]: how long what may take.

use serde::{Deserialize, Serialize};

use crate::history::Nanos;

/// A millisecond.
pub const MS: Nanos = 1_000_000;

/// A second.
pub const SECOND: Nanos = 1_000_000_000;

/// How long what may take in a run: the settings of its clients, and what its machine and its servers add.
///
/// All are in nanoseconds. The default is the clients' default, on a machine that takes no time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Bounds {
    /// The lease of a hold that is watched. It is renewed every third of it.
    pub watchdog: Nanos,
    /// How long a client waits for an answer.
    pub command_timeout: Nanos,
    /// How long a client repeats what fails.
    pub retry_timeout: Nanos,
    /// How long a waiter of a fair lock keeps its place unseen.
    pub fair_wait: Nanos,
    /// The same for one of Redisson's.
    pub redisson_fair_wait: Nanos,
    /// How late a watchdog may look, which looks so often.
    pub tick: Nanos,
    /// The longest way to a server and back, while no fault lasts.
    pub rtt: Nanos,
    /// What the machine adds to any answer: measured by a timer beside the clients.
    pub slack: Nanos,
    /// How far the witness's clock may be from the history's.
    pub clock_error: Nanos,
    /// How long a process may take to see, once it runs again, that it slept.
    pub wake: Nanos,
    /// How long what nobody claims may stay, which a living client has given up: its request may arrive so
    /// late, and is then undone.
    pub undo: Nanos,
    /// How long after the end of a fault it may still be felt.
    pub recovery: Nanos,
    /// For how long a process that has had a lock may leave it to others, though it is free.
    pub courtesy: Nanos,
    /// How often a waiter looks that hears nothing.
    pub poll: Nanos,
    /// How soon a waiter takes a lock that is freed, where nothing is wrong with the messages.
    pub news: Nanos,
    /// For how long one that is not polled may keep those of its process waiting that came after it.
    pub idle: Nanos,
    /// How long after all faults have ended each process that waits has had a turn. Traffic decides how long
    /// that is; `None`: it is not judged.
    pub turn: Option<Nanos>,
    /// How long it takes until another server is the master.
    pub failover: Nanos,
    /// How long a client may take to find it.
    pub follow: Nanos,
    /// What a `connect` may add, where other servers are asked.
    pub discovery: Nanos,
    /// What a `close` may add.
    pub farewell: Nanos,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            watchdog: 30 * SECOND,
            command_timeout: 3 * SECOND,
            retry_timeout: 10 * SECOND,
            fair_wait: 10 * SECOND,
            redisson_fair_wait: 300 * SECOND,
            tick: 250 * MS,
            rtt: 0,
            slack: 0,
            clock_error: 0,
            wake: SECOND,
            undo: 13 * SECOND,
            recovery: SECOND,
            courtesy: 100 * MS,
            poll: 3 * SECOND,
            news: 3 * SECOND,
            idle: 3 * SECOND,
            turn: None,
            failover: 0,
            follow: SECOND,
            discovery: SECOND,
            farewell: SECOND,
        }
    }
}

impl Bounds {
    /// How long after its hold was taken away the user of a guard may not know it.
    pub(crate) fn told_of_removal(&self) -> Nanos {
        self.watchdog / 3 + self.tick + self.command_timeout + self.slack
    }

    /// The same after a failover.
    pub(crate) fn told_of_failover(&self) -> Nanos {
        self.watchdog / 3 + self.failover + self.follow + self.rtt + self.slack
    }

    /// One request of a waiter.
    pub(crate) fn attempt(&self) -> Nanos {
        self.rtt + self.slack
    }
}
