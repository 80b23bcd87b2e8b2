//! What Redisson calls for a fair lock.

use harness::RedisServer;
use serde_json::json;

use crate::ear::{Ear, LEASE, SHORT_WAIT};
use crate::template::Template;

/// What Redisson calls for each operation.
#[derive(Debug, Clone)]
pub(crate) struct Overheard {
    pub(super) lock: Template,
    pub(super) give_up: Template,
    pub(super) unlock: Template,
    pub(super) renewal: Template,
    pub(super) force_unlock: Template,
}

/// Listens to a Java peer on this server; `None`, and a line that says so, when there is no Java.
pub(crate) fn overhear(server: &RedisServer, test: &str) -> Option<Overheard> {
    let mut ear = Ear::open(server, test, "fair")?;
    ear.ask("a", json!({ "op": "lock", "lease_ms": LEASE }));
    let lock = ear.last_call();
    ear.ask("b", json!({ "op": "try_lock", "wait_ms": SHORT_WAIT, "lease_ms": LEASE }));
    let give_up = ear.last_call();
    ear.ask("a", json!({ "op": "unlock" }));
    let unlock = ear.last_call();
    ear.ask("a", json!({ "op": "lock" }));
    ear.last_call();
    let renewal = ear.next_call();
    ear.ask("a", json!({ "op": "force_unlock" }));
    let force_unlock = ear.last_call();
    ear.close();
    Some(Overheard { lock, give_up, unlock, renewal, force_unlock })
}
