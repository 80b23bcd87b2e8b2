//! A client on a simulated clock, with a real Redis server, for tests of every single millisecond.
//!
//! The scripts run on the real server when the simulated network delivers them. The test sets how long that takes, and what is
//! lost. Only the time is simulated: TTLs do not run, and a not-after time is compared here, on the virtual clock.

mod all;
mod arrivals;
mod asking;
mod bounds;
mod cancellation;
mod combined;
mod counters;
pub(crate) mod ends;
mod fuzz;
mod handoff;
mod handoff_ways;
mod late_messages;
mod local_turns;
mod lost_replies;
mod majority;
mod majority_decisions;
mod multi;
mod multi_ends;
mod network;
mod owners;
mod parts;
mod read_answers;
mod read_turns;
mod releases;
mod renewals;
mod seeded;
mod segmented;
mod sharing;
mod silent_servers;
mod unpolled;
mod unpolled_moments;
mod unpolled_owners;
mod waiters;
mod world;
mod writers;

use std::{sync::Arc, time::Duration};

use tokio::time::sleep;

pub(crate) use self::world::World;
use self::{
    network::{Fault, Link, Network},
    world::ONE_WAY,
};
use crate::{
    Client, Lock,
    config::Config,
    engine::{Engine, Subscriptions},
    owner::Identity,
    runtime::ClientRuntime,
};

pub(super) const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// So long nobody waits for one who is not polled.
pub(super) const SOON: Duration = Duration::from_secs(5);

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
    Kind::new("plain", |client| client.plain_lock(LOCK)),
    Kind::new("write", WRITE),
    Kind {
        name: "read",
        lock: |client| client.read_write_lock(LOCK).read_lock().clone(),
        blocker: WRITE,
    },
];

/// A client on a fake clock, and its way to the server.
pub(super) struct Sim {
    pub(super) client: Client,
    network: Arc<Network>,
    world: Arc<World>,
}

impl Sim {
    /// One more client of the server. Its clock starts where the server's stands.
    pub(super) async fn new(world: &Arc<World>) -> Self {
        Self::with(world, |config| config).await
    }

    /// The same, otherwise configured.
    pub(super) async fn with(world: &Arc<World>, configure: impl FnOnce(Config) -> Config) -> Self {
        let subscriptions = Subscriptions::new();
        let network = Network::new(world, subscriptions.clone());
        Self::over(world, network, subscriptions, configure)
    }

    /// One whose server may be replaced by another.
    pub(super) async fn that_follows(world: &Arc<World>) -> Self {
        let subscriptions = Subscriptions::new();
        let network = Network::new(world, subscriptions.clone());
        network.may_fail_over();
        Self::over(world, network, subscriptions, |config| config)
    }

    fn over(
        world: &Arc<World>,
        network: Arc<Network>,
        subscriptions: Arc<Subscriptions>,
        configure: impl FnOnce(Config) -> Config,
    ) -> Self {
        let (_, mut settings) = configure(Config::default()).into_settings().unwrap();
        settings.server = world.server.url();
        let transport = Arc::new(Link { network: network.clone() });
        let engine = Engine::start(
            Identity::new(),
            settings,
            transport,
            subscriptions,
            ClientRuntime::current(),
        );
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
