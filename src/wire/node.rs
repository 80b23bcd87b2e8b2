//! [`Node`]: one server, and the connections to it: for calls, for messages, for calls that replicas
//! confirm.
//!
//! A connection that hangs is noticed by calls without an answer in time, and by [`Node::probe`]. The node
//! decides: after [`TIMEOUTS_UNTIL_RECONNECT`] such calls in a row it gives up all its connections, after
//! one such probe the subscriber. A [`Link`] that is given up makes a new session. Behind sentinels it makes
//! none, and the `topology` replaces the whole node.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::FutureExt;

use super::{
    Confirm,
    answers::{Answer, Failure, FailureKind, info_field},
    clock::ServerClock,
    connection::{Bound, ConnectionSettings},
    deployment::{Endpoint, Place},
    error::WireError,
    eviction::look_for_eviction,
    link::Link,
    node_id::NodeId,
    replicas::ReplicaPool,
    script::{Arg, Invocation, Reply},
    session::{QUIT_TIMEOUT, finished},
};
use crate::error::Error;

/// After so many timeouts in a row connections are replaced: a network that drops all sends no reset.
const TIMEOUTS_UNTIL_RECONNECT: u32 = 3;

/// Timeouts of calls count from this age of a connection on, or from the command timeout if that is shorter.
const TRIAL: Duration = Duration::from_secs(3);

/// A connection to a read-only server is given up at most once in this time. Its name may lead to another.
const READ_ONLY_PAUSE: Duration = Duration::from_millis(500);

/// How long a server that was replaced may take to answer what it was asked before.
const RETIRE_TIMEOUT: Duration = Duration::from_millis(100);

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// One server.
pub(super) struct Node {
    /// Unique among the nodes of this process.
    pub(super) id: u64,
    commands: Link,
    /// Pub/sub has a connection of its own. With some drivers a refused SUBSCRIBE shifts the queue
    /// of replies, and other callers would get wrong ones.
    subscriber: Link,
    pub(super) clock: ServerClock,
    replicas: ReplicaPool,
    server: Place,
    /// In a cluster, if it is known.
    node_id: Option<NodeId>,
    settings: ConnectionSettings,
    /// How many commands in a row had no answer in time.
    timeouts: AtomicU32,
    /// The same of calls that replicas are to confirm, which have other connections.
    unconfirmed: AtomicU32,
    is_down: AtomicBool,
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node").field("server", &self.server).finish()
    }
}

/// Whether it is the same node.
impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Node {
    /// Makes both connections, and asks for the server's time. Events of the subscriber go to the
    /// sink until `quit`.
    pub(super) async fn connect(
        endpoint: Endpoint,
        settings: ConnectionSettings,
    ) -> Result<Arc<Self>, Error> {
        let name = endpoint.name();
        let subscriber = Link::subscriber(endpoint.clone(), settings.clone());
        let commands = Link::commands(&subscriber);
        tokio::try_join!(commands.connect(), subscriber.connect())
            .map_err(Failure::into_connect_error)?;
        let node = Arc::new(Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            server: endpoint.place.clone(),
            node_id: endpoint.node_id.clone(),
            replicas: ReplicaPool::new(endpoint, settings.clone(), commands.clone()),
            commands,
            subscriber,
            clock: ServerClock::new(0),
            settings,
            timeouts: AtomicU32::new(0),
            unconfirmed: AtomicU32::new(0),
            is_down: AtomicBool::new(false),
        });
        node.time().await.map_err(|error| error.into_error(""))?;
        look_for_eviction(&node.settings, &node.commands, name);
        Ok(node)
    }

    /// Sends one copy of the call. `asking`: the slot is being moved to this server.
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
        let answer = session.call(call, asking, self.settings.channels, bound).await;
        self.note(&answer);
        answer
    }

    /// Sends one copy of the call, and asks replicas to confirm it.
    pub(super) async fn call_confirmed(
        self: &Arc<Self>,
        call: &Invocation,
        asking: bool,
        confirm: Confirm,
        bound: Bound,
    ) -> Answer {
        let (node, call) = (self.clone(), call.clone());
        let run = async move { node.replicas.call(&call, asking, confirm, bound.rest()).await };
        // In a task of its own, which ends in time: the caller may not be polled, and other calls
        // wait for its place.
        let answer = finished(self.settings.runtime.spawn(run)).await?;
        self.note_confirmed(&answer);
        answer
    }

    /// Subscribes to the channels. Completes when the server has confirmed it.
    pub(super) async fn subscribe(
        &self,
        channels: Vec<String>,
        sharded: bool,
    ) -> Result<(), WireError> {
        let session = self.subscriber.session_or_wait().await?;
        Ok(session.subscribe(channels, sharded).await?)
    }

    /// Ends subscriptions. Completes when the server has confirmed it, or has none: they end with their
    /// connection, and when the server gives their slot away.
    pub(super) async fn unsubscribe(
        &self,
        channels: Vec<String>,
        sharded: bool,
    ) -> Result<(), WireError> {
        let Some(session) = self.subscriber.session() else { return Ok(()) };
        match session.unsubscribe(channels, sharded).await {
            Err(error) if matches!(error.kind, FailureKind::NotSent | FailureKind::Gone) => Ok(()),
            Err(error) if sharded && error.text.starts_with("MOVED") => Ok(()),
            ended => Ok(ended?),
        }
    }

    /// Whether there may be subscriptions.
    pub(super) fn has_subscriber(&self) -> bool {
        self.subscriber.session().is_some()
    }

    /// Asks for a sign of life on the subscriber connection. Replaces the connection if there is
    /// none.
    pub(super) async fn probe(&self) -> Result<(), WireError> {
        let session = self.subscriber.session_or_wait().await?;
        let alive = session.ping().await;
        if matches!(&alive, Err(error) if error.kind == FailureKind::TimedOut) {
            self.subscriber.give_up();
        }
        Ok(alive?)
    }

    /// Asks for the server's time, in ms since the epoch.
    pub(super) async fn time(self: &Arc<Self>) -> Result<u64, WireError> {
        let answer = self.commands.command("TIME", &[]).await;
        self.note(&answer);
        let now = in_ms(&answer?).ok_or_else(|| WireError::unreadable("TIME tells no time"))?;
        self.clock.observe(now);
        Ok(now)
    }

    /// Sends one copy of a command that is no call of a script. `asking`: it is for a slot that is being moved
    /// to this server.
    pub(super) async fn command(&self, name: &'static str, args: &[Arg], asking: bool) -> Answer {
        self.commands.session_or_wait().await?.command_for(name, args, asking).await
    }

    /// Its address.
    #[cfg(feature = "_servers")]
    pub(super) fn name(&self) -> String {
        match &self.server {
            Place::Tcp(address) => address.to_string(),
            Place::UnixSocket(path) => path.display().to_string(),
        }
    }

    fn note(&self, answer: &Answer) {
        match answer {
            Ok(_) => {
                self.timeouts.store(0, Ordering::Relaxed);
                self.is_down.store(false, Ordering::Relaxed);
            }
            Err(error) => self.note_error(error),
        }
    }

    /// The same of an answer over another connection. It is no sign of life of the one for commands.
    fn note_confirmed(&self, answer: &Answer) {
        match answer {
            Ok(_) => {
                self.unconfirmed.store(0, Ordering::Relaxed);
                self.is_down.store(false, Ordering::Relaxed);
            }
            Err(error) if error.kind == FailureKind::TimedOut => {
                self.count_timeout(&self.unconfirmed, TRIAL);
            }
            Err(error) => self.note_role(error),
        }
    }

    pub(super) fn note_error(&self, error: &Failure) {
        if error.kind == FailureKind::TimedOut {
            return self.timed_out(TRIAL);
        }
        self.timeouts.store(0, Ordering::Relaxed);
        self.note_role(error);
    }

    fn note_role(&self, error: &Failure) {
        self.is_down.store(error.is_cluster_down(), Ordering::Relaxed);
        if error.is_read_only() {
            self.was_demoted();
        }
    }

    /// Asks the server whether it was demoted, as nobody learns who only reads. Without the right nothing is known.
    pub(super) async fn look_for_demotion(&self) {
        let answer = self.commands.command("INFO", &["replication".into()]).await;
        let Ok(Some(info)) = answer.map(|info| info.as_text()) else { return };
        let says = |name, value| info_field(&info, name) == Some(value);
        if says("role", "slave") && says("slave_read_only", "1") {
            self.was_demoted();
        }
    }

    /// Replaces all connections: the server's address may lead to another one.
    fn was_demoted(&self) {
        let since = self.commands.session().map(|session| session.age());
        if since.is_some_and(|age| age >= READ_ONLY_PAUSE) {
            log!(warn, "redis takes no writes, reconnecting");
            self.give_up();
        }
    }

    /// Notes that a command had no answer for so long.
    pub(super) fn timed_out(&self, silence: Duration) {
        self.count_timeout(&self.timeouts, silence);
    }

    /// It says nothing about a connection that was made meanwhile, for which the command may have waited.
    fn count_timeout(&self, in_a_row: &AtomicU32, silence: Duration) {
        self.settings.refresh_requested.notify_one();
        let silence = silence.min(self.settings.command_timeout);
        if self.commands.session().is_none_or(|session| session.age() < silence) {
            return;
        }
        let row = in_a_row.fetch_add(1, Ordering::Relaxed) + 1;
        if row == TIMEOUTS_UNTIL_RECONNECT {
            in_a_row.store(0, Ordering::Relaxed);
            log!(warn, timeouts = row, "redis does not answer, reconnecting");
            self.give_up();
        }
    }

    /// Replaces all connections.
    fn give_up(&self) {
        self.commands.give_up();
        self.subscriber.give_up();
        self.replicas.give_up();
    }

    /// Whether a command could be sent now.
    pub(super) fn is_connected(&self) -> bool {
        self.commands.session().is_some()
    }

    /// Whether it may be the node with this id.
    pub(super) fn may_be(&self, id: Option<&NodeId>) -> bool {
        self.node_id.as_ref().is_none_or(|known| id.is_none_or(|id| known == id))
    }

    /// Whether it is the node with this id.
    pub(super) fn is(&self, id: Option<&NodeId>) -> bool {
        id.is_some() && self.node_id.as_ref() == id
    }

    /// Whether it says that its cluster is down. It may be cut off from that, and another process be this node.
    pub(super) fn is_down(&self) -> bool {
        self.is_down.load(Ordering::Relaxed)
    }

    /// Whether another node has to take its place, for the same server or another one.
    pub(super) fn is_broken(&self) -> bool {
        self.commands.is_gone() || self.subscriber.is_gone()
    }

    /// Closes the connections. Calls under way end without an answer.
    pub(super) async fn quit(&self) {
        self.close(QUIT_TIMEOUT).await;
    }

    /// Closes the connections to a server that another has replaced, sooner than [`quit`](Self::quit).
    /// It may hang, and the callers are to try the other one.
    pub(super) async fn retire(&self) {
        self.close(RETIRE_TIMEOUT).await;
    }

    async fn close(&self, within: Duration) {
        let (commands, subscriber) = (self.commands.quit(within), self.subscriber.quit(within));
        tokio::join!(commands, subscriber, self.replicas.quit(within));
    }
}

/// Converts the reply of TIME, seconds and microseconds, to ms.
fn in_ms(time: &Reply) -> Option<u64> {
    let Reply::Array(parts) = time else { return None };
    let [seconds, micros] = &parts[..] else { return None };
    let number = |part: &Reply| part.as_text()?.parse::<u64>().ok();
    Some(number(seconds)? * 1000 + number(micros)? / 1000)
}

#[cfg(test)]
mod tests;
