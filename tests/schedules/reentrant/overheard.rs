//! What Redisson calls for every lock that is not fair.

use harness::RedisServer;
use serde_json::json;

use crate::ear::{Ear, LEASE};
use crate::template::Template;

/// What Redisson calls for each operation.
#[derive(Debug, Clone)]
pub(crate) struct Overheard {
    pub(crate) lock: Template,
    pub(crate) unlock: Template,
    pub(crate) renewal: Template,
    pub(crate) force_unlock: Template,
}

/// Listens to a Java peer on this server as it uses a lock of this kind; `None`, and a line that says so, when there is no Java.
pub(crate) fn overhear(server: &RedisServer, test: &str, kind: &str) -> Option<Overheard> {
    let mut ear = Ear::open(server, test, kind)?;
    ear.ask("a", json!({ "op": "lock", "lease_ms": LEASE }));
    let lock = ear.last_call();
    ear.ask("a", json!({ "op": "unlock" }));
    let unlock = ear.last_call();
    ear.ask("a", json!({ "op": "lock" }));
    ear.last_call();
    let renewal = ear.next_call();
    ear.ask("a", json!({ "op": "force_unlock" }));
    let force_unlock = ear.last_call();
    ear.close();
    Some(Overheard { lock, unlock, renewal, force_unlock })
}
