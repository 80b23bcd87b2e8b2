//! A real Redis on a fake clock, for tests that look at every single millisecond.
//!
//! The scripts run on a real server, at the (virtual) moment the network delivers them; how long
//! that takes, and what gets lost on the way, the test says. Only time is not real: TTLs do not
//! run, and a not-after is compared here, on the virtual clock.

mod cancellation;
mod link;
mod lost_replies;
mod majority;
mod multi;

use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use harness::{Inspector, Messages, RedisServer, redis};
use tokio::time::{Instant, sleep};

use crate::{
    Client, Lock,
    config::Config,
    engine::{Engine, Wakeups},
    wire::{Arg, Event, Invocation, Reply, WireError},
};

use self::link::{Link, convert};

/// How long one way over the network takes.
pub(super) const ONE_WAY: Duration = Duration::from_millis(3);

/// The lock that all these tests want.
pub(super) const LOCK: &str = "cut";

/// A kind of lock, and what keeps its waiters waiting.
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) lock: fn(&Client) -> Lock,
    pub(super) blocker: fn(&Client) -> Lock,
}

impl Kind {
    const fn new(name: &'static str, lock: fn(&Client) -> Lock) -> Self {
        Self { name, lock, blocker: lock }
    }
}

const WRITE: fn(&Client) -> Lock = |client| client.read_write_lock(LOCK).write_lock().clone();

pub(super) const KINDS: &[Kind] = &[
    Kind::new("lock", |client| client.lock(LOCK)),
    Kind::new("fair", |client| client.fair_lock(LOCK)),
    Kind::new("spin", |client| client.spin_lock(LOCK)),
    Kind::new("write", WRITE),
    Kind {
        name: "read",
        lock: |client| client.read_write_lock(LOCK).read_lock().clone(),
        blocker: WRITE,
    },
];

/// A real server, and who listens there.
pub(super) struct World {
    server: RedisServer,
    inspector: Mutex<Inspector>,
    listeners: Mutex<Vec<Listener>>,
}

/// One client's subscription.
struct Listener {
    client: Arc<Wakeups>,
    channel: String,
    messages: Messages,
}

impl World {
    pub(super) fn new() -> Arc<Self> {
        let server = RedisServer::start();
        let inspector = Mutex::new(server.inspector());
        Arc::new(Self { server, inspector, listeners: Mutex::default() })
    }

    /// What a client that was closed did not release.
    pub(super) fn forget(&self, lock: &str) {
        self.inspector.lock().unwrap().query::<()>(redis::cmd("DEL").arg(lock));
    }

    fn listeners(&self) -> MutexGuard<'_, Vec<Listener>> {
        self.listeners.lock().unwrap()
    }
}

/// A client on a fake clock, and its way to the server.
pub(super) struct Sim {
    pub(super) client: Client,
    pub(super) network: Arc<Network>,
    world: Arc<World>,
}

impl Sim {
    /// One more client of the server. Its clock starts where the server's stands.
    pub(super) async fn new(world: &Arc<World>) -> Self {
        let wakeups = Wakeups::new();
        let network = Network::new(world, wakeups.clone());
        let (_, mut settings) = Config::default().into_settings().unwrap();
        settings.server = world.server.url();
        let transport = Arc::new(Link { network: network.clone() });
        let engine = Engine::start(settings, transport, wakeups).await.unwrap();
        Self { client: Client::on(engine), network, world: world.clone() }
    }

    /// Lets everything come to rest that was begun, and says what is left on the server.
    pub(super) async fn left(&self) -> Vec<String> {
        self.client.settled().await;
        // Longer than any copy is on its way, and than a poll.
        sleep(Duration::from_secs(1)).await;
        self.client.settled().await;
        let mut left = self.world.inspector.lock().unwrap().keys();
        // The counter of fencing tokens is to stay; a test begins it anew.
        left.retain(|key| !key.starts_with("redisson_lock_token:"));
        left.extend(self.world.listeners().iter().map(|listener| listener.channel.clone()));
        left
    }

    pub(super) fn holder(&self, lock: &str) -> Option<harness::Holder> {
        self.world.inspector.lock().unwrap().holder(lock)
    }

    pub(super) fn holders(&self, lock: &str) -> Vec<harness::Holder> {
        self.world.inspector.lock().unwrap().holders(lock)
    }
}

impl Client {
    /// Done when nothing is left to be undone.
    async fn settled(&self) {
        self.engine().janitor.drained().await;
    }
}

/// The way to the server, and what happens on it.
pub(super) struct Network {
    world: Arc<World>,
    wakeups: Arc<Wakeups>,
    /// Where the clock of this client, and that of the server, began.
    begun: (Instant, u64),
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    faults: Vec<(&'static str, Fault)>,
    calls: usize,
    closed: bool,
}

/// What happens to the next call of a script.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// It never gets there.
    LoseRequest,
    /// It runs, and nobody hears of it.
    LoseReply,
    /// It runs so much later than its sender hears that there is no answer.
    Linger(Duration),
    /// Its reply takes so much longer.
    SlowReply(Duration),
}

impl Network {
    fn new(world: &Arc<World>, wakeups: Arc<Wakeups>) -> Arc<Self> {
        let time: (u64, u64) = world.inspector.lock().unwrap().query(&redis::cmd("TIME"));
        Arc::new(Self {
            world: world.clone(),
            wakeups,
            begun: (Instant::now(), time.0 * 1000 + time.1 / 1000),
            state: Mutex::default(),
        })
    }

    /// The next calls of the script named so meet these faults, one each.
    pub(super) fn fail(&self, script: &'static str, faults: impl IntoIterator<Item = Fault>) {
        self.state().faults.extend(faults.into_iter().map(|fault| (script, fault)));
    }

    /// How many scripts were sent.
    pub(super) fn calls(&self) -> usize {
        self.state().calls
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn now(&self) -> u64 {
        self.begun.1 + self.begun.0.elapsed().as_millis() as u64
    }

    fn fault(&self, script: &str) -> Option<Fault> {
        let mut state = self.state();
        state.calls += 1;
        let next = state.faults.iter().position(|(name, _)| script.ends_with(name))?;
        Some(state.faults.remove(next).1)
    }

    /// Ends this client's subscriptions to such channels.
    fn forget(&self, such: impl Fn(&str) -> bool) {
        self.world.listeners().retain(|listener| {
            !Arc::ptr_eq(&listener.client, &self.wakeups) || !such(&listener.channel)
        });
    }

    /// Runs the script, here and now, and delivers what it published.
    fn run(&self, call: &Invocation) -> Result<Reply, WireError> {
        let not_after = match call.script.name {
            "reentrant/acquire" | "reentrant/reenter" | "read/acquire" | "read/reenter"
            | "write/acquire" | "fair/force_unlock" => Some(3),
            "fenced/acquire" => Some(4),
            "fair/acquire" => Some(5),
            "reentrant/force_unlock" | "read/force_unlock" | "write/force_unlock" => Some(1),
            _ => None,
        };
        let mut command = redis::cmd("EVAL");
        command.arg(call.script.source).arg(call.keys);
        for (i, arg) in call.args.iter().enumerate() {
            match arg {
                Arg::Int(limit) if not_after == Some(i) => {
                    command.arg(if self.now() > *limit { 0 } else { i64::MAX / 1000 })
                }
                Arg::Int(n) => command.arg(*n),
                Arg::Bytes(bytes) => command.arg(&bytes[..]),
            };
        }
        let inspector = self.world.inspector.lock().unwrap();
        let reply = convert(inspector.query(&command));
        for listener in self.world.listeners().iter_mut() {
            for _ in listener.messages.so_far(&inspector) {
                let (client, channel) = (listener.client.clone(), listener.channel.clone());
                tokio::spawn(async move {
                    sleep(ONE_WAY).await;
                    client.take(Event::Message(channel));
                });
            }
        }
        match reply {
            // "Too late": the time it tells is the real one.
            Reply::Array(answer) if not_after.is_some() && answer.len() == 1 => {
                Ok(Reply::Array(vec![Reply::Int(self.now() as i64)]))
            }
            reply => Ok(reply),
        }
    }
}

impl std::fmt::Debug for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Network")
    }
}
