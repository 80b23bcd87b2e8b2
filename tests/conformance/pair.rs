//! What a scenario gets: two peers, its own lock, and an inspector of the servers.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use harness::redis::cmd;
use harness::{
    Commands, Holder, Inspector, Lang, Messages, PATIENCE, Party, Peer, PeerArgs, Pending,
    assert_nothing_left_where, eventually, member_names, token_key,
};
use serde_json::json;
use tokio::time::sleep;

use crate::kind::Kind;
use crate::mix::Mix;
use crate::shared::{Role, SHORT_WATCHDOG, Shared};
use crate::topology::Topology;

/// Two peers, a lock name of the scenario's own, and an eye on the servers.
pub(crate) struct Pair {
    shared: Arc<Shared>,
    mix: Mix,
    kind: Kind,
    name: String,
    args: PeerArgs,
    a: Peer,
    b: Peer,
    redis: Inspector,
    /// How many processes may leave a subscription behind.
    forgetful: Cell<usize>,
    /// The Rust processes in which a waiter sleeps.
    asleep: RefCell<BTreeSet<String>>,
}

impl Pair {
    pub(crate) async fn new(shared: &Arc<Shared>, mix: Mix, kind: Kind, name: String) -> Self {
        Self::with_args(shared, mix, kind, name, shared.args()).await
    }

    async fn with_args(
        shared: &Arc<Shared>,
        mix: Mix,
        kind: Kind,
        name: String,
        args: PeerArgs,
    ) -> Self {
        // Two Java peers are enough for all mixes, and so are two Rust ones.
        let b = if mix.a == mix.b { Role::B } else { Role::A };
        let peer = async |lang, role| {
            shared.peer(lang, role, &args).await.unwrap_or_else(|error| panic!("{lang}: {error}"))
        };
        Self {
            a: peer(mix.a, Role::A).await,
            b: peer(mix.b, b).await,
            redis: shared.servers().inspector(),
            forgetful: Cell::new(0),
            asleep: RefCell::default(),
            shared: Arc::clone(shared),
            mix,
            kind,
            name,
            args,
        }
    }

    /// The same scenario with peers of other terms.
    pub(crate) async fn with(&self, terms: impl FnOnce(PeerArgs) -> PeerArgs) -> Self {
        let args = terms(self.shared.args());
        Self::with_args(&self.shared, self.mix, self.kind, self.name.clone(), args).await
    }

    /// The name of the scenario's lock.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The names of the locks it is made of: one, but of several locks.
    fn names(&self) -> Vec<String> {
        match self.kind {
            Kind::Multi | Kind::Majority => member_names(&self.name).into(),
            _ => vec![self.name.clone()],
        }
    }

    /// The kind of the scenario's lock.
    pub(crate) fn kind(&self) -> Kind {
        self.kind
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

    /// An owner in a Rust process, at the scenario's lock.
    ///
    /// # Panics
    /// When there is none: the scenario is not for this mix.
    pub(crate) fn rust(&self, role: impl std::fmt::Display) -> Party {
        let peer = [&self.a, &self.b].into_iter().find(|peer| peer.lang() == Lang::Rust);
        self.party(peer.expect("a Rust peer in the mix"), role)
    }

    /// An owner at the scenario's lock, in a process like A that nobody else uses and that may be killed.
    pub(crate) async fn doomed(&self, role: impl std::fmt::Display) -> Party {
        let peer = Peer::spawn(self.mix.a, &self.args.clone().watchdog(SHORT_WATCHDOG))
            .await
            .unwrap_or_else(|error| panic!("{}: {error}", self.mix.a));
        self.party(&peer, role)
    }

    fn party(&self, peer: &Peer, role: impl std::fmt::Display) -> Party {
        peer.party(format!("{role} of {}", self.name), self.kind.name(), &self.name)
    }

    /// Takes the lock twice, if the kind allows it.
    pub(crate) async fn lock_deeply(&self, party: &Party) {
        for _ in 0..self.kind.depth() {
            party.lock().await;
        }
    }

    /// Gives back what [`Self::lock_deeply`] took.
    pub(crate) async fn unlock_deeply(&self, party: &Party) {
        for _ in 0..self.kind.depth() {
            party.unlock().await;
        }
    }

    /// Begins to take a lock that is held, and comes back when the waiter sleeps behind its subscription.
    ///
    /// The waiters of a Rust process stand in one line of which only the first looks at the server: one is enough.
    pub(crate) async fn start_asleep(&self, party: &Party) -> Pending {
        let (peer, watch) = (party.peer(), self.watch());
        let turn = party.start_lock();
        if peer.lang() == Lang::Java || self.asleep.borrow_mut().insert(peer.client().to_owned()) {
            watch.refused_twice().await;
            if peer.lang() == Lang::Java && matches!(self.kind, Kind::Read | Kind::Write) {
                // Until it sleeps a moment later, Redisson's message wakes nobody.
                sleep(Duration::from_millis(200)).await;
            }
        } else {
            peer.call(json!({ "op": "hello" })).await.expect("a hello");
        }
        turn
    }

    /// A look at the server.
    pub(crate) fn redis(&self) -> &Inspector {
        &self.redis
    }

    /// An eye on the counters of peers, which are not always beside the locks.
    pub(crate) fn counters(&self) -> Inspector {
        self.shared.counters()
    }

    /// How the servers stand to each other.
    pub(crate) fn topology(&self) -> Topology {
        self.shared.topology()
    }

    /// Listens on a channel.
    pub(crate) fn messages(&self, channel: &str) -> Messages {
        self.shared.servers().messages(channel)
    }

    /// Sees what the server carries out that keeps a lock of this name.
    fn commands_at(&self, name: &str) -> Commands {
        Commands::watch_at(name, self.shared.servers().client_of(name))
    }

    /// Who holds the scenario's lock, which has one holder at most.
    pub(crate) fn holder(&self) -> Option<Holder> {
        self.redis.holder(&self.name)
    }

    /// Waits until so many processes listen for the lock to become free.
    pub(crate) async fn listening(&self, processes: usize) {
        self.listening_at(&self.name, processes).await;
    }

    /// The same at a lock of another name.
    pub(crate) async fn listening_at(&self, name: &str, processes: usize) {
        if self.kind == Kind::Spin {
            return self.polling_at(name, processes).await;
        }
        let listening = || (self.listeners(name) == processes).then_some(());
        eventually(PATIENCE, &format!("{processes} processes to listen for {name:?}"), listening)
            .await;
    }

    /// How many processes listen for a lock of this name to become free.
    pub(crate) fn listeners(&self, name: &str) -> usize {
        if self.kind.is_fair() {
            return self.listening_clients(name).len();
        }
        self.redis.subscribers(&self.kind.channel(name))
    }

    /// Waits until so many waiters stand in line for the scenario's fair lock, and each listens.
    pub(crate) async fn standing(&self, waiters: usize) {
        let what = format!("{waiters} waiters to stand in line for {:?}", self.name);
        let standing = || {
            let line = self.redis.line(&self.name);
            (line.len() == waiters && line.iter().all(|id| self.listens(id))).then_some(())
        };
        eventually(PATIENCE, &what, standing).await;
    }

    /// Tells the waiters that the lock is free, as its release would; how many processes heard it.
    pub(crate) fn wake(&self) -> usize {
        let mut channel = self.kind.channel(&self.name);
        if self.kind.is_fair() {
            let line = self.redis.line(&self.name);
            channel = format!("{channel}:{}", line.first().expect("somebody in line"));
        }
        self.redis.publish(&channel, "0")
    }

    /// Sees what will happen at the scenario's lock.
    pub(crate) fn watch(&self) -> Watch<'_> {
        Watch { pair: self, commands: self.commands_at(&self.name) }
    }

    /// Redisson does not unsubscribe after an acquisition that ended while it was subscribing: bear with it.
    pub(crate) fn java_may_stay_subscribed_for(&self, parties: &[&Party]) {
        let forgetful = parties.iter().filter(|party| party.peer().lang() == Lang::Java).count();
        self.forgetful.set(forgetful);
    }

    /// Waits until nobody listens any more but for those who may.
    pub(crate) async fn listening_no_more(&self) {
        let names = self.names();
        let is_quiet = || {
            let quiet = |name: &String| self.listeners(name) <= self.forgetful.get();
            names.iter().all(quiet).then_some(())
        };
        eventually(PATIENCE, &format!("the last to listen for {:?}", self.name), is_quiet).await;
    }

    /// The counter of a fenced lock outlives it: takes it away.
    pub(crate) fn forget_tokens(&self, name: &str) {
        if self.kind == Kind::Fenced {
            self.redis.query::<()>(cmd("DEL").arg(token_key(name)));
        }
    }

    pub(crate) async fn assert_nothing_left(&self) {
        let mut excused = Vec::new();
        if self.forgetful.get() > 0 {
            self.listening_no_more().await;
            excused.extend(self.names().iter().map(|name| self.kind.channel(name)));
        }
        let is_excused = |name: &str| {
            excused.iter().any(|channel| match self.kind.is_fair() {
                true => name.starts_with(channel),
                false => name == channel,
            })
        };
        self.forget_tokens(&self.name);
        let is_ours = |name: &str| name.contains(&self.name) && !is_excused(name);
        assert_nothing_left_where(self.shared.servers(), is_ours).await;
    }

    /// The clients whose waiters listen for a fair lock of this name, each on a channel of its own.
    fn listening_clients(&self, name: &str) -> BTreeSet<String> {
        let channel = self.kind.channel(name);
        let channels = self.redis.channels();
        let waiters =
            channels.iter().filter_map(|one| one.strip_prefix(&channel)?.strip_prefix(':'));
        waiters.filter_map(|id| Some(id.rsplit_once(':')?.0.to_owned())).collect()
    }

    fn listens(&self, waiter: &str) -> bool {
        self.redis.subscribers(&format!("{}:{waiter}", self.kind.channel(&self.name))) > 0
    }

    /// Waits until so many processes have come to look at a lock of which nobody tells.
    async fn polling_at(&self, name: &str, processes: usize) {
        let mut commands = self.commands_at(name);
        let mut seen = BTreeSet::new();
        let polling = || {
            for line in commands.so_far(&self.redis) {
                if line.contains(&format!("{:?}", name)) {
                    let clients = [&self.a, &self.b].map(Peer::client);
                    seen.extend(clients.into_iter().filter(|id| line.contains(id)));
                }
            }
            (seen.len() >= processes).then_some(())
        };
        eventually(PATIENCE, &format!("{processes} processes to look at {name:?}"), polling).await;
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
            self.shared.distrust([&self.a, &self.b].map(|peer| peer.client().to_owned()));
        }
    }
}
