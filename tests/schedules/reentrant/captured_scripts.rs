//! Redisson's calls for every lock that is not fair.

use harness::RedisServer;
use serde_json::json;

use crate::capture::{Capture, LEASE};
use crate::template::Template;

/// What Redisson calls for each operation.
#[derive(Debug, Clone)]
pub(crate) struct CapturedScripts {
    pub(crate) lock: Template,
    pub(crate) unlock: Template,
    pub(crate) renewal: Template,
    pub(crate) force_unlock: Template,
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
    capture.ask("a", json!({ "op": "unlock" }));
    let unlock = capture.last_call();
    capture.ask("a", json!({ "op": "lock" }));
    capture.last_call();
    let renewal = capture.next_call();
    capture.ask("a", json!({ "op": "force_unlock" }));
    let force_unlock = capture.last_call();
    capture.close();
    Some(CapturedScripts { lock, unlock, renewal, force_unlock })
}
