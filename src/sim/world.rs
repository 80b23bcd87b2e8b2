//! The server that all clients of a test share.

use std::{
    borrow::Cow,
    fs,
    path::Path,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use harness::{Inspector, Messages, RedisServer};
use tokio::time::Instant;

use crate::{engine::Subscriptions, wire::Script};

/// How long one way over the network takes.
pub(crate) const ONE_WAY: Duration = Duration::from_millis(3);

/// A real server, and who listens there.
pub(crate) struct World {
    pub(super) server: RedisServer,
    pub(super) inspector: Mutex<Inspector>,
    /// When it was made, by the virtual clock and in ms by the server's.
    begun: (Instant, u64),
    listeners: Mutex<Vec<Listener>>,
}

/// One client's subscription.
pub(super) struct Listener {
    /// How much longer messages to it take.
    pub(super) late_by: Arc<Mutex<Duration>>,
    pub(super) client: Arc<Subscriptions>,
    pub(super) channel: String,
    pub(super) messages: Messages,
}

impl World {
    pub(crate) fn new() -> Arc<Self> {
        let server = RedisServer::start();
        let inspector = server.inspector();
        let time: (u64, u64) = inspector.query(&redis::cmd("TIME"));
        let begun = (Instant::now(), time.0 * 1000);
        let inspector = Mutex::new(inspector);
        Arc::new(Self { server, inspector, begun, listeners: Mutex::default() })
    }

    /// The server's time in ms, if its clock were the virtual one.
    pub(super) fn now(&self) -> u64 {
        self.begun.1 + self.begun.0.elapsed().as_millis() as u64
    }

    /// The source of a script. For those about leases, the server's clock is the virtual one.
    pub(super) fn in_its_time(&self, script: &'static Script) -> Cow<'static, str> {
        let source = script.source;
        if !script.name.starts_with("expirable/") {
            return source.into();
        }
        let (seconds, micros) = (self.now() / 1000, self.now() % 1000 * 1000);
        format!(
            "local redis = setmetatable({{call = function(...)
                if select(1, ...) == 'time' then return {{'{seconds}', '{micros}'}} end
                return redis.call(...)
            end}}, {{__index = redis}})\n{source}"
        )
        .into()
    }

    /// What a client that was closed did not release.
    pub(super) fn forget(&self, lock: &str) {
        self.inspector.lock().unwrap().query::<()>(redis::cmd("DEL").arg(lock));
    }

    /// A master that knows of this hold, and of nothing since.
    pub(super) fn forget_since(&self, lock: &str, holder: &str) {
        let inspector = self.inspector.lock().unwrap();
        inspector.query::<()>(redis::cmd("DEL").arg(lock));
        inspector.query::<()>(redis::cmd("HSET").arg(lock).arg(holder).arg(1));
        inspector.query::<()>(redis::cmd("PEXPIRE").arg(lock).arg(3_600_000));
    }

    /// A master that has not heard of the release of this write.
    pub(super) fn put_back(&self, lock: &str, writer: &str) {
        let mut write = redis::cmd("HSET");
        write.arg(lock).arg(writer).arg(1).arg("mode").arg("write");
        self.inspector.lock().unwrap().query::<()>(&write);
    }

    pub(super) fn pttl(&self, key: &str) -> i64 {
        self.inspector.lock().unwrap().query(redis::cmd("PTTL").arg(key))
    }

    pub(super) fn write(&self, key: &str, value: &str) {
        self.inspector.lock().unwrap().query::<()>(redis::cmd("SET").arg(key).arg(value));
    }

    pub(super) fn listeners(&self) -> MutexGuard<'_, Vec<Listener>> {
        self.listeners.lock().unwrap()
    }
}

/// Whether a script of `lua/` has a name that ends so: `acquire`, or `counter/try_set`. Every name
/// ends with an empty one.
pub(super) fn is_script(name: &str) -> bool {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("lua");
    let has_it = |folder: &Path| folder.join(name).with_extension("lua").exists();
    name.is_empty()
        || has_it(&scripts)
        || fs::read_dir(&scripts).expect("the scripts").flatten().any(|kind| has_it(&kind.path()))
}
