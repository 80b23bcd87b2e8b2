//! One server, and the connections to it, over fred.
//!
//! fred is used for one server at a time only. Its own cluster client turns a redirect into an error
//! that does not say whether the command ran, sends to any node when it misses the right one, loses
//! sharded subscriptions without a word, and lets all nodes wait for one; its Sentinel client looks
//! for the master only when a connection breaks.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use fred::{
    error::{Error as FredError, ErrorKind},
    types::Value,
};
use futures::FutureExt;

use super::{
    Confirm,
    answers::{Answer, RawAnswer, classify, connecting_failed, is_read_only, reply},
    clock::ServerClock,
    connection::{Bound, ConnectionSettings, evaluate},
    deployment::{Endpoint, Place},
    error::WireError,
    eviction::look_for_eviction,
    link::{Link, Sort},
    pubsub,
    replicas::ReplicaPool,
    script::Invocation,
};
use crate::error::Error;

/// So many timeouts in a row and the connection counts as dead: a black hole sends no reset.
const TIMEOUTS_UNTIL_RECONNECT: u32 = 3;

/// A connection to a server that only reads is given up, for its name may lead elsewhere by now: once in so
/// long at most.
const READ_ONLY_PAUSE: Duration = Duration::from_secs(1);

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// One server.
pub(super) struct Node {
    /// Given to no other node of this process.
    pub(super) id: u64,
    commands: Link,
    /// Pub/sub never shares a connection with commands: a refused SUBSCRIBE shifts fred's queue of
    /// replies, and other callers would get wrong ones.
    subscriber: Link,
    pub(super) clock: ServerClock,
    replicas: ReplicaPool,
    server: Place,
    settings: ConnectionSettings,
    /// Commands in a row that had no answer in time.
    timeouts: AtomicU32,
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node").field("server", &self.server).finish()
    }
}

/// Whether it is the same one.
impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Node {
    /// Connects both connections, and takes the server's time. Events of the subscriber go to the
    /// sink until it is quit.
    pub(super) async fn connect(
        endpoint: Endpoint,
        settings: ConnectionSettings,
    ) -> Result<Arc<Self>, Error> {
        let name = endpoint.name();
        let commands = Link::new(endpoint.clone(), settings.clone(), Sort::Commands);
        let subscriber = Link::new(endpoint.clone(), settings.clone(), Sort::Subscriber);
        for link in [&commands, &subscriber] {
            link.connect().await.map_err(connecting_failed)?;
        }
        let node = Arc::new(Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            server: endpoint.place.clone(),
            replicas: ReplicaPool::new(endpoint, settings.clone(), commands.clone()),
            commands,
            subscriber,
            clock: ServerClock::new(0),
            settings,
            timeouts: AtomicU32::new(0),
        });
        node.time().await.map_err(|error| error.into_error(""))?;
        look_for_eviction(&node.settings, &node.commands, name);
        Ok(node)
    }

    /// Sends one copy of the call. `asking`: the slot is on its way to this server.
    pub(super) async fn call(
        self: &Arc<Self>,
        call: &Invocation,
        asking: bool,
        mut bound: Bound,
    ) -> Answer {
        let session = match self.commands.session() {
            Some(session) => session,
            None => {
                bound = bound.rest();
                self.commands.wait(bound.by).boxed().await?
            }
        };
        let publish = self.settings.publish;
        let client = session.client();
        let answer = session.ask(evaluate(client, call, asking, publish, bound)).await;
        self.note(&answer);
        answer.and_then(reply)
    }

    /// The same, and asks replicas to confirm it.
    pub(super) async fn call_confirmed(
        self: &Arc<Self>,
        call: &Invocation,
        asking: bool,
        confirm: Confirm,
        bound: Bound,
    ) -> Answer {
        let answer = self.replicas.call(call, asking, confirm, bound.rest()).await;
        if let Err(error) = &answer {
            self.note_error(error);
        }
        answer
    }

    async fn command(self: &Arc<Self>, name: &'static str, args: Vec<Value>) -> RawAnswer {
        let answer = self.commands.command(name, args).await;
        self.note(&answer);
        answer
    }

    /// Subscribes to the channels; done when the server has confirmed it.
    pub(super) async fn subscribe(
        &self,
        channels: Vec<String>,
        sharded: bool,
    ) -> Result<(), WireError> {
        let session = self.subscriber.wait_long().await.map_err(classify)?;
        pubsub::subscribe(&session, channels, sharded).await
    }

    /// Ends subscriptions; done when the server has confirmed it.
    pub(super) async fn unsubscribe(
        &self,
        channels: Vec<String>,
        sharded: bool,
    ) -> Result<(), WireError> {
        let session = self.subscriber.wait_long().await.map_err(classify)?;
        pubsub::unsubscribe(&session, channels, sharded).await
    }

    /// Asks the subscriber connection for a sign of life, and replaces it when there is none.
    pub(super) async fn probe(&self) -> Result<(), WireError> {
        let session = self.subscriber.wait_long().await.map_err(classify)?;
        let alive = pubsub::ping(&session).await;
        if matches!(&alive, Err(error) if *error.kind() == ErrorKind::Timeout) {
            self.subscriber.give_up();
        }
        alive.map_err(classify)
    }

    /// Asks for the server's clock, in ms since the epoch.
    pub(super) async fn time(self: &Arc<Self>) -> Result<u64, WireError> {
        let time = self.command("TIME", Vec::new()).await;
        let (seconds, micros): (u64, u64) =
            time.and_then(|value| value.convert()).map_err(classify)?;
        let now = seconds * 1000 + micros / 1000;
        self.clock.observe(now);
        Ok(now)
    }

    fn note(&self, answer: &RawAnswer) {
        match answer {
            Ok(_) => self.timeouts.store(0, Ordering::Relaxed),
            Err(error) => self.note_error(error),
        }
    }

    fn note_error(&self, error: &FredError) {
        if *error.kind() == ErrorKind::Timeout {
            return self.timed_out();
        }
        self.timeouts.store(0, Ordering::Relaxed);
        let since = || self.commands.session().map(|session| session.age());
        if is_read_only(error) && since().is_some_and(|age| age >= READ_ONLY_PAUSE) {
            tracing::warn!("redis takes no writes, reconnecting");
            self.give_up();
        }
    }

    /// A command had no answer in time.
    pub(super) fn timed_out(&self) {
        self.settings.refresh_requested.notify_one();
        let row = self.timeouts.fetch_add(1, Ordering::Relaxed) + 1;
        if row == TIMEOUTS_UNTIL_RECONNECT {
            self.timeouts.store(0, Ordering::Relaxed);
            tracing::warn!(timeouts = row, "redis does not answer, reconnecting");
            self.give_up();
        }
    }

    /// Has all connections made anew.
    fn give_up(&self) {
        self.commands.give_up();
        self.subscriber.give_up();
        self.replicas.give_up();
    }

    /// Whether another has to take its place, at the same server or elsewhere.
    pub(super) fn is_broken(&self) -> bool {
        self.commands.is_gone() || self.subscriber.is_gone()
    }

    /// Closes the connections; what is under way ends without an answer.
    pub(super) async fn quit(&self) {
        tokio::join!(self.commands.quit(), self.subscriber.quit(), self.replicas.quit());
    }
}
