//! Where scenarios are run: one server, and peers that are started when first needed and shared.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use harness::{
    Commands, Holder, Inspector, Lang, PATIENCE, Party, Peer, PeerArgs, PeerError, RedisServer,
    assert_nothing_left_where, eventually, lock_channel,
};
use tokio::runtime::Runtime;

use crate::scenario::{Mix, Test};

/// The watchdog of a peer that has to be seen renewing, or seen no more.
pub(crate) const SHORT_WATCHDOG: Duration = Duration::from_millis(1_500);
/// The watchdog of all others: nobody waits for that.
pub(crate) const WATCHDOG: Duration = Duration::from_secs(30);
/// What a message takes at most. Who looks every 3 s, as this crate does in case a message is lost, is not so quick.
pub(crate) const PROMPT: Duration = Duration::from_millis(2_500);
/// What anything takes at most on a busy machine; much less than a [`WATCHDOG`].
pub(crate) const SLACK: Duration = Duration::from_secs(10);
/// A whole scenario.
const SCENARIO_LIMIT: Duration = Duration::from_secs(120);

/// Which of two peers of one language.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Role {
    A,
    B,
}

/// The server, the peers and the runtime that all tests share.
pub(crate) struct Stage {
    cast: tokio::sync::Mutex<HashMap<(Lang, Role, PeerArgs), Peer>>,
    /// The clients of peers that were there when a scenario failed: who knows what they still hold.
    dirty: Mutex<HashSet<String>>,
    server: OnceLock<RedisServer>,
    runtime: Runtime,
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self {
            cast: tokio::sync::Mutex::default(),
            dirty: Mutex::default(),
            server: OnceLock::new(),
            runtime: Runtime::new().expect("a runtime"),
        }
    }

    pub(crate) fn try_java(&self) -> Result<(), PeerError> {
        self.runtime.block_on(self.peer(Lang::Java, Role::A, &self.args())).map(drop)
    }

    /// Runs a test to its end and looks that nothing is left of it.
    pub(crate) fn run(self: &Arc<Self>, test: &Test) {
        self.runtime.block_on(async {
            // Not counted: the first start of a peer may have to build it.
            let pair = Pair::new(self, test).await;
            let story = tokio::time::timeout(SCENARIO_LIMIT, (test.scenario.run)(&pair));
            story.await.unwrap_or_else(|_| panic!("not over after {SCENARIO_LIMIT:?}"));
            pair.assert_nothing_left().await;
        });
    }

    fn server(&self) -> &RedisServer {
        self.server.get_or_init(RedisServer::start)
    }

    fn args(&self) -> PeerArgs {
        PeerArgs::redis(self.server().url())
    }

    /// The shared peer of this role: the one that runs, or a new one.
    async fn peer(&self, lang: Lang, role: Role, args: &PeerArgs) -> Result<Peer, PeerError> {
        let mut cast = self.cast.lock().await;
        let part = (lang, role, args.clone());
        if let Some(peer) = cast.get(&part).filter(|peer| peer.is_alive() && !self.is_dirty(peer)) {
            return Ok(peer.clone());
        }
        let peer = Peer::spawn(lang, args).await?;
        cast.insert(part, peer.clone());
        Ok(peer)
    }

    fn is_dirty(&self, peer: &Peer) -> bool {
        self.dirty.lock().expect("the dirty ones").contains(peer.client())
    }
}

/// Two peers, a lock name of the scenario's own, and an eye on the server.
pub(crate) struct Pair {
    stage: Arc<Stage>,
    mix: Mix,
    kind: &'static str,
    name: String,
    a: Peer,
    b: Peer,
    redis: Inspector,
    /// How many processes may leave a subscription behind.
    forgetful: Cell<usize>,
}

impl Pair {
    async fn new(stage: &Arc<Stage>, test: &Test) -> Self {
        let kind = test.kind.name();
        let name = format!("conformance/{kind}/{}/{}", test.scenario.name, test.mix);
        Self::with_args(stage, test.mix, kind, name, stage.args()).await
    }

    async fn with_args(
        stage: &Arc<Stage>,
        mix: Mix,
        kind: &'static str,
        name: String,
        args: PeerArgs,
    ) -> Self {
        // Two Java peers are enough for all mixes, and so are two Rust ones.
        let b = if mix.a == mix.b { Role::B } else { Role::A };
        let peer = async |lang, role| {
            stage.peer(lang, role, &args).await.unwrap_or_else(|error| panic!("{lang}: {error}"))
        };
        Self {
            a: peer(mix.a, Role::A).await,
            b: peer(mix.b, b).await,
            redis: stage.server().inspector(),
            forgetful: Cell::new(0),
            stage: Arc::clone(stage),
            mix,
            kind,
            name,
        }
    }

    /// The same scenario with peers of other terms.
    pub(crate) async fn with(&self, terms: impl FnOnce(PeerArgs) -> PeerArgs) -> Self {
        let args = terms(self.stage.args());
        Self::with_args(&self.stage, self.mix, self.kind, self.name.clone(), args).await
    }

    /// The name of the scenario's lock.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// A key beside the lock.
    pub(crate) fn key(&self, of: &str) -> String {
        format!("{}:{of}", self.name)
    }

    /// An owner in the first process, at the scenario's lock.
    pub(crate) fn a(&self, role: impl std::fmt::Display) -> Party {
        self.party(&self.a, role)
    }

    /// An owner in the second process, at the scenario's lock.
    pub(crate) fn b(&self, role: impl std::fmt::Display) -> Party {
        self.party(&self.b, role)
    }

    /// An owner at the scenario's lock, in a process like A that nobody else uses and that may be killed.
    pub(crate) async fn doomed(&self, role: impl std::fmt::Display) -> Party {
        let args = self.stage.args().watchdog(SHORT_WATCHDOG);
        let peer = Peer::spawn(self.mix.a, &args)
            .await
            .unwrap_or_else(|error| panic!("{}: {error}", self.mix.a));
        self.party(&peer, role)
    }

    fn party(&self, peer: &Peer, role: impl std::fmt::Display) -> Party {
        peer.party(format!("{role} of {}", self.name), self.kind, &self.name)
    }

    /// A look at the server.
    pub(crate) fn redis(&self) -> &Inspector {
        &self.redis
    }

    /// A new connection to the server.
    pub(crate) fn connect(&self) -> harness::redis::Connection {
        self.stage.server().client()
    }

    /// Who holds the scenario's lock.
    pub(crate) fn holder(&self) -> Option<Holder> {
        self.redis.holder(&self.name)
    }

    /// Waits until so many processes listen for the lock to become free.
    pub(crate) async fn listening(&self, processes: usize) {
        self.listening_at(&self.name, processes).await;
    }

    /// The same at a lock of another name.
    pub(crate) async fn listening_at(&self, name: &str, processes: usize) {
        let channel = lock_channel(name);
        let listening = || (self.redis.subscribers(&channel) == processes).then_some(());
        eventually(PATIENCE, &format!("{processes} processes to listen on {channel:?}"), listening)
            .await;
    }

    /// Sees what will happen at the scenario's lock.
    pub(crate) fn watch(&self) -> Watch<'_> {
        Watch { pair: self, commands: Commands::watch(self.connect()) }
    }

    /// Redisson does not unsubscribe after an acquisition that ended while it was subscribing: bear with it.
    pub(crate) fn java_may_stay_subscribed_for(&self, parties: &[&Party]) {
        let forgetful = parties.iter().filter(|party| party.peer().lang() == Lang::Java).count();
        self.forgetful.set(forgetful);
    }

    /// Waits until nobody listens any more but for those who may.
    pub(crate) async fn listening_no_more(&self) {
        let channel = lock_channel(&self.name);
        let is_quiet = || (self.redis.subscribers(&channel) <= self.forgetful.get()).then_some(());
        eventually(PATIENCE, &format!("the last to listen on {channel:?}"), is_quiet).await;
    }

    async fn assert_nothing_left(&self) {
        let mut excused = None;
        if self.forgetful.get() > 0 {
            self.listening_no_more().await;
            excused = Some(lock_channel(&self.name));
        }
        let is_ours = |name: &str| name.contains(&self.name) && Some(name) != excused.as_deref();
        assert_nothing_left_where(self.stage.server(), is_ours).await;
    }
}

/// Sees what the server carries out, from the moment this is made.
pub(crate) struct Watch<'a> {
    pair: &'a Pair,
    commands: Commands,
}

impl Watch<'_> {
    /// Waits until a waiter really waits: it has been refused, has subscribed, and has been refused again.
    ///
    /// Before that Redisson is not to be interrupted: the attempt it has in flight then is carried out all the same,
    /// and the lock is held and renewed for an owner who was told that it was interrupted.
    pub(crate) async fn refused_twice(mut self) {
        let refusal = format!(r#"lua] "pttl" "{}""#, self.pair.name);
        let mut refusals = 0;
        let twice = || {
            let lines = self.commands.so_far(&self.pair.redis);
            refusals += lines.iter().filter(|line| line.ends_with(&refusal)).count();
            (refusals >= 2).then_some(())
        };
        eventually(PATIENCE, "a waiter to be refused twice", twice).await;
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let clients = [&self.a, &self.b].map(|peer| peer.client().to_owned());
            self.stage.dirty.lock().expect("the dirty ones").extend(clients);
        }
    }
}
