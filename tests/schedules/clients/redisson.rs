//! What Redisson's threads call, and its scripts, as a Java peer called them.

use std::fmt;

use harness::RedisServer;
use harness::redis::Value;
use serde_json::json;

use crate::capture::{Capture, LEASE, SHORT_WAIT};
use crate::model::{Invocation, Ms};
use crate::template::{Filling, Template};

/// The lease of a hold without one, renewed every third of it.
pub(crate) const WATCHDOG: Ms = 90;
/// How long a waiter of Redisson's fair lock keeps its place.
pub(crate) const THEIR_WAIT: Ms = 600;

/// A call of Redisson's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Redisson {
    Lock {
        /// `None`: by the watchdog.
        lease: Option<Ms>,
        /// How long its place in a fair lock's line is kept.
        wait: Ms,
    },
    /// A waiter of a fair lock leaves the line.
    GiveUp {
        wait: Ms,
    },
    Unlock {
        lease: Ms,
        twice: bool,
    },
    Renewal,
    Force,
}

/// What Redisson calls for each operation.
#[derive(Debug, Clone)]
pub(crate) struct CapturedScripts {
    lock: Template,
    /// Of a fair lock only.
    give_up: Option<Template>,
    unlock: Template,
    renewal: Template,
    force_unlock: Template,
}

/// Listens to a Java peer on this server as it uses a lock of this kind; `None`, and a line that says so, when there is no Java.
pub(crate) fn capture_scripts(
    server: &RedisServer,
    test: &str,
    kind: &str,
) -> Option<CapturedScripts> {
    let mut capture = Capture::open(server, test, kind)?;
    capture.ask("a", json!({ "op": "lock", "lease_ms": LEASE }));
    let lock = capture.last_call();
    let give_up = (kind == "fair").then(|| {
        capture.ask("b", json!({ "op": "try_lock", "wait_ms": SHORT_WAIT, "lease_ms": LEASE }));
        capture.last_call()
    });
    capture.ask("a", json!({ "op": "unlock" }));
    let unlock = capture.last_call();
    capture.ask("a", json!({ "op": "lock" }));
    capture.last_call();
    let renewal = capture.next_call();
    capture.ask("a", json!({ "op": "force_unlock" }));
    let force_unlock = capture.last_call();
    capture.close();
    Some(CapturedScripts { lock, give_up, unlock, renewal, force_unlock })
}

impl CapturedScripts {
    /// What clients of another sort call.
    pub(crate) fn by_hand(
        lock: Template,
        unlock: Template,
        renewal: Template,
        force_unlock: Template,
    ) -> Self {
        Self { lock, give_up: None, unlock, renewal, force_unlock }
    }

    /// What goes to the server; who calls, which operation it is, and the time are filled in already.
    pub(crate) fn invocation(&self, call: Redisson, with: Filling<'_>) -> Invocation {
        let (template, lease, wait) = match call {
            Redisson::Lock { lease, wait } => (&self.lock, lease.unwrap_or(WATCHDOG), wait),
            Redisson::GiveUp { wait } => {
                (self.give_up.as_ref().expect("a fair lock's script"), 0, wait)
            }
            Redisson::Unlock { lease, .. } => (&self.unlock, lease, THEIR_WAIT),
            Redisson::Renewal => (&self.renewal, WATCHDOG, THEIR_WAIT),
            Redisson::Force => (&self.force_unlock, WATCHDOG, THEIR_WAIT),
        };
        template.fill(Filling { lease, wait, ..with })
    }
}

/// Whether a renewal is answered "done".
pub(crate) fn is_renewed(answer: &Value) -> bool {
    match answer {
        Value::Array(renewed) => renewed[..] == [Value::Int(1)],
        answer => *answer == Value::Int(1),
    }
}

impl fmt::Display for Redisson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lock { lease, wait } => {
                let lease = lease.map_or("watched".into(), |lease| format!("lease {lease}"));
                let wait = if *wait > 0 { format!(", wait {wait}") } else { String::new() };
                write!(f, "lock, {lease}{wait},")
            }
            Self::GiveUp { wait } => write!(f, "giving up, wait {wait},"),
            Self::Unlock { twice, .. } => {
                write!(f, "unlock{}", if *twice { ", twice," } else { "" })
            }
            Self::Renewal => write!(f, "renewal"),
            Self::Force => write!(f, "forceUnlock"),
        }
    }
}
