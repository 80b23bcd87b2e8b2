//! Redisson's calls for a fair lock.

use harness::RedisServer;
use serde_json::json;

use crate::capture::{Capture, LEASE, SHORT_WAIT};
use crate::template::Template;

/// What Redisson calls for each operation.
#[derive(Debug, Clone)]
pub(crate) struct CapturedScripts {
    pub(super) lock: Template,
    pub(super) give_up: Template,
    pub(super) unlock: Template,
    pub(super) renewal: Template,
    pub(super) force_unlock: Template,
}

/// Listens to a Java peer on this server; `None`, and a line that says so, when there is no Java.
pub(crate) fn capture_scripts(server: &RedisServer, test: &str) -> Option<CapturedScripts> {
    let mut capture = Capture::open(server, test, "fair")?;
    capture.ask("a", json!({ "op": "lock", "lease_ms": LEASE }));
    let lock = capture.last_call();
    capture.ask("b", json!({ "op": "try_lock", "wait_ms": SHORT_WAIT, "lease_ms": LEASE }));
    let give_up = capture.last_call();
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
