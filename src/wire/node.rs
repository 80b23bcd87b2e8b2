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
    types::{Value, config::ServerConfig},
};
use futures::FutureExt;
use tokio::sync::Notify;

use super::{
    Confirm, FredConfig, Invocation, Reply, ServerClock, WireError,
    confirm::Patient,
    connection::{Bound, Broken, NOT_SENT, RawAnswer, evaluate},
    eviction::look_for_eviction,
    line::{Line, Sort},
    login::connecting_failed,
    pubsub, server_name,
};
use crate::{
    error::{Error, RedisError},
    runtime::ClientRuntime,
};

/// So many timeouts in a row and the connection counts as dead: a black hole sends no reset.
const TIMEOUTS_UNTIL_RECONNECT: u32 = 3;

/// So many levels of arrays a reply may have. No script of ours answers more than three.
const DEEPEST_REPLY: usize = 8;

/// A connection to a server that only reads is given up, for its name may lead elsewhere by now: once in so
/// long at most.
const READ_ONLY_PAUSE: Duration = Duration::from_secs(1);

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

pub(super) type Answer = Result<Reply, FredError>;

/// What all nodes of one client have in common.
#[derive(Clone)]
pub(super) struct Terms {
    /// What outlives a call runs here.
    pub(super) runtime: ClientRuntime,
    pub(super) command_timeout: Duration,
    /// The word by which scripts publish.
    pub(super) publish: &'static str,
    /// Takes what subscribers hear.
    pub(super) sink: pubsub::EventSink,
    /// Told when there is reason to look whether this is still the right server.
    pub(super) doubt: Arc<Notify>,
    pub(super) broken: Broken,
}

/// One server.
pub(super) struct Node {
    /// Given to no other node of this process.
    pub(super) id: u64,
    commands: Line,
    /// Pub/sub never shares a connection with commands: a refused SUBSCRIBE shifts fred's queue of
    /// replies, and other callers would get wrong ones.
    pub(super) subscriber: Line,
    pub(super) clock: ServerClock,
    patient: Patient,
    server: ServerConfig,
    terms: Terms,
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
    pub(super) async fn connect(config: FredConfig, terms: Terms) -> Result<Arc<Self>, Error> {
        let name = server_name(&config);
        let commands = Line::new(config.clone(), terms.clone(), Sort::Commands);
        let subscriber = Line::new(config.clone(), terms.clone(), Sort::Subscriber);
        for line in [&commands, &subscriber] {
            line.connect().await.map_err(connecting_failed)?;
        }
        let node = Arc::new(Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            server: config.server.clone(),
            patient: Patient::new(config, terms.clone(), commands.clone()),
            commands,
            subscriber,
            clock: ServerClock::new(0),
            terms,
            timeouts: AtomicU32::new(0),
        });
        node.time().await.map_err(|error| error.into_error(""))?;
        look_for_eviction(&node.terms, &node.commands, name);
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
        let publish = self.terms.publish;
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
        let answer = self.patient.call(call, asking, confirm, bound.rest()).await;
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
        self.terms.doubt.notify_one();
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
        self.patient.give_up();
    }

    /// Whether another has to take its place, at the same server or elsewhere.
    pub(super) fn is_broken(&self) -> bool {
        self.commands.is_gone() || self.subscriber.is_gone()
    }

    /// Closes the connections; what is under way ends without an answer.
    pub(super) async fn quit(&self) {
        tokio::join!(self.commands.quit(), self.subscriber.quit(), self.patient.quit());
    }
}

/// Whether the server says that it is no master.
pub(super) fn is_read_only(error: &FredError) -> bool {
    error.details().contains("READONLY")
}

/// Whether the connection is gone, or may be: there is or will be no answer over it.
pub(super) fn is_of_connection(error: &FredError) -> bool {
    matches!(
        error.kind(),
        ErrorKind::IO | ErrorKind::Timeout | ErrorKind::Canceled | ErrorKind::Routing
    ) || is_of_ended_task(error)
        || is_deaf(error)
}

/// fred's task was ended with the call in hand.
fn is_of_ended_task(error: &FredError) -> bool {
    *error.kind() == ErrorKind::Unknown && error.details() == "channel closed"
}

/// fred's task had been ended before.
fn is_deaf(error: &FredError) -> bool {
    matches!(error.details(), "Failed to send command to router." | "Client is not initialized.")
}

pub(super) fn reply(value: Value) -> Answer {
    reply_within(DEEPEST_REPLY, value)
}

fn reply_within(depth: usize, value: Value) -> Answer {
    Ok(match value {
        Value::Null => Reply::Nil,
        Value::Integer(n) => Reply::Int(n),
        Value::String(text) => Reply::Bytes(text.into_inner()),
        Value::Bytes(bytes) => Reply::Bytes(bytes),
        Value::Array(_) if depth == 0 => {
            return Err(FredError::new(ErrorKind::Parse, "a reply with too many levels of arrays"));
        }
        Value::Array(values) => {
            let parts = values.into_iter().map(|part| reply_within(depth - 1, part));
            Reply::Array(parts.collect::<Result<_, _>>()?)
        }
        other => {
            let what = format!("a reply of kind {}", other.kind());
            return Err(FredError::new(ErrorKind::Parse, what));
        }
    })
}

/// Did the call run, and is another try worth it?
pub(super) fn classify(error: FredError) -> WireError {
    let details = error.details();
    match error.kind() {
        // Never left fred's queue.
        ErrorKind::Backpressure => return WireError::NotNow(opaque(&error)),
        ErrorKind::IO | ErrorKind::Timeout | ErrorKind::Canceled => {
            return WireError::Unanswered(opaque(&error));
        }
        _ => {}
    }
    if details.starts_with(NOT_SENT) || is_deaf(&error) {
        // There was no connection: it never left.
        WireError::NotNow(opaque(&error))
    } else if is_of_ended_task(&error) {
        WireError::unanswered("the connection is gone")
    } else if details.contains("Too many failed write attempts") {
        // A command of a connection that is gone may have run.
        WireError::Unanswered(opaque(&error))
    } else {
        WireError::said(details)
    }
}

pub(super) fn opaque(error: &FredError) -> RedisError {
    RedisError::new(match error.kind() {
        ErrorKind::Timeout => "no answer in time".to_owned(),
        _ => error.details().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_has_a_bounded_number_of_levels() {
        let nested = |levels: usize| {
            (0..levels).fold(Value::Integer(1), |inner, _| Value::Array(vec![inner]))
        };
        assert!(reply(nested(DEEPEST_REPLY)).is_ok());
        for levels in [DEEPEST_REPLY + 1, 1_000] {
            let error = reply(nested(levels)).unwrap_err();
            assert!(matches!(classify(error), WireError::Refused(_)));
        }
    }
}
