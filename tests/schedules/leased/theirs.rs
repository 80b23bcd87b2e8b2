//! Redisson's scripts, as a Java peer called them.

use harness::RedisServer;
use serde_json::{Value, json};

use super::call::{Call, Verb};
use crate::capture::{COUNT, Capture, LEASE};
use crate::model::{Invocation, Ms};
use crate::template::{Filling, NO_END, Template};

/// What Redisson calls for each operation. It has other scripts for one permit than for several.
#[derive(Debug, Clone)]
pub(crate) struct CapturedLeased {
    set: Template,
    acquire: [Template; 2],
    release: [Template; 2],
    set_lease: Template,
    add: Template,
    set_total: Template,
    count: Template,
}

impl CapturedLeased {
    /// Listens to a Java peer on this server; `None`, and a line that says so, when there is no Java.
    pub(super) fn capture(server: &RedisServer, test: &str) -> Option<Self> {
        let mut capture = Capture::open(server, test, "expirable_semaphore")?;
        let mut call = |request: Value| {
            let value = capture.ask("a", request);
            (capture.last_call(), value)
        };
        let (set, _) = call(json!({ "op": "set", "n": COUNT }));
        let (acquire_one, one) = call(json!({ "op": "lock", "n": 1, "lease_ms": LEASE }));
        let (acquire_two, two) = call(json!({ "op": "lock", "n": 2, "lease_ms": LEASE }));
        let (set_lease, _) = call(json!({ "op": "set_lease", "ids": one, "lease_ms": LEASE }));
        let (release_one, _) = call(json!({ "op": "unlock", "ids": one }));
        let (release_two, _) = call(json!({ "op": "unlock", "ids": two }));
        let (add, _) = call(json!({ "op": "add", "n": COUNT }));
        let (set_total, _) = call(json!({ "op": "set_total", "n": COUNT }));
        let (count, _) = call(json!({ "op": "count" }));
        capture.close();
        let (acquire, release) = ([acquire_one, acquire_two], [release_one, release_two]);
        Some(Self { set, acquire, release, set_lease, add, set_total, count })
    }

    pub(super) fn invocation(&self, call: &Call, now: Ms) -> Invocation {
        let permits = call.permits();
        let end = |lease: Ms| now.cast_signed() + lease.cast_signed();
        let (template, count, end) = match call.verb {
            Verb::Set(n) => (&self.set, n, 0),
            Verb::By(n) => (&self.add, n, 0),
            Verb::To(n) => (&self.set_total, n, 0),
            Verb::Acquire { n, lease } => (&self.acquire[n - 1], 0, lease.map_or(NO_END, end)),
            Verb::Release { .. } => (&self.release[permits.n - 1], 0, 0),
            Verb::SetLease { lease, .. } => (&self.set_lease, 0, end(lease)),
            Verb::Count => (&self.count, 0, 0),
            _ => unreachable!("Redisson has no such call"),
        };
        let (permits, clock) = (&permits.ids()[..], now.cast_signed());
        template.fill(Filling { count, end, clock, permits, ..Filling::default() })
    }
}
