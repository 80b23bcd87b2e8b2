//! Redisson's scripts, as a Java peer called them.

use harness::RedisServer;
use serde_json::json;

use super::call::Verb;
use super::terms::Sort;
use crate::capture::{COUNT, Capture};
use crate::model::Invocation;
use crate::template::{Filling, Template};

/// What Redisson calls for each operation; of a latch only two of them.
#[derive(Debug, Clone)]
pub(crate) struct CapturedCounter {
    set: Template,
    count_down: Option<Template>,
    acquire: Option<Template>,
    release: Option<Template>,
    add: Option<Template>,
    drain: Option<Template>,
}

impl CapturedCounter {
    /// Listens to a Java peer on this server; `None`, and a line that says so, when there is no Java.
    pub(super) fn capture(server: &RedisServer, test: &str, sort: Sort) -> Option<Self> {
        let kind = if sort == Sort::Latch { "latch" } else { "semaphore" };
        let mut capture = Capture::open(server, test, kind)?;
        let mut call = |op: &str| {
            capture.ask("a", json!({ "op": op, "n": COUNT }));
            capture.last_call()
        };
        let set = call("set");
        let captured = if sort == Sort::Latch {
            let count_down = Some(call("count_down"));
            Self { set, count_down, acquire: None, release: None, add: None, drain: None }
        } else {
            let (acquire, release) = (call("lock"), call("unlock"));
            let (add, drain) = (Some(call("add")), Some(call("drain")));
            let (acquire, release) = (Some(acquire), Some(release));
            Self { set, count_down: None, acquire, release, add, drain }
        };
        capture.close();
        Some(captured)
    }

    pub(super) fn invocation(&self, verb: Verb) -> Invocation {
        let (template, count) = match verb {
            Verb::Set(n) => (Some(&self.set), n),
            Verb::Acquire(n) => (self.acquire.as_ref(), n),
            Verb::Release { permits, .. } => (self.release.as_ref(), permits),
            Verb::Add(n) => (self.add.as_ref(), n),
            Verb::Drain { .. } => (self.drain.as_ref(), 0),
            Verb::CountDown => (self.count_down.as_ref(), 0),
            Verb::Withdraw(_) | Verb::Cancel | Verb::Delete | Verb::Expire(_) => (None, 0),
        };
        template.expect("a script of Redisson's").fill(Filling { count, ..Filling::default() })
    }
}
