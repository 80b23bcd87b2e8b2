//! One server, and the connections to it, over fred.
//!
//! fred is used for one server at a time only. Its own cluster client turns a redirect into an error
//! that does not say whether the command ran, sends to any node when it misses the right one, loses
//! sharded subscriptions without a word, and lets all nodes wait for one; its Sentinel client looks
//! for the master only when a connection breaks.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use fred::{
    clients::Client,
    error::{Error as FredError, ErrorKind},
    interfaces::ClientLike,
    types::Value,
};
use tokio::sync::Notify;

use super::{
    Confirm, FredConfig, Invocation, Reply, ServerClock, WireError,
    confirm::Patient,
    connection::{Broken, RawAnswer, connecting_failed, evaluate, finished, quit, quit_later},
    line::Line,
    pubsub,
};
use crate::{
    error::{Error, RedisError},
    runtime::ClientRuntime,
};

/// So many timeouts in a row and the connection counts as dead: a black hole sends no reset.
const TIMEOUTS_UNTIL_RECONNECT: u32 = 3;

/// So many levels of arrays a reply may have. No script of ours answers more than three.
const DEEPEST_REPLY: usize = 8;

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
    terms: Terms,
    /// Commands in a row that had no answer in time.
    timeouts: AtomicU32,
    /// New connections were asked for and are not there yet. fred would make one more for each time
    /// it is asked, over healthy ones.
    reconnecting: AtomicBool,
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node")
            .field("server", &self.commands.client().client_config().server)
            .finish()
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
        let commands = Line::new(&config, &terms, 32)?;
        let subscriber = Line::new(&config, &terms, 4096)?;
        pubsub::forward(&subscriber, &terms);
        let runtime = terms.runtime.clone();
        let node = Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            patient: Patient::new(config, terms.clone(), commands.clone()),
            commands,
            subscriber,
            clock: ServerClock::new(0),
            terms,
            timeouts: AtomicU32::new(0),
            reconnecting: AtomicBool::new(false),
        };
        // In a task of its own: fred cannot quit what has begun to connect and is not yet running.
        let connecting = runtime.spawn(async move {
            for line in [&node.commands, &node.subscriber] {
                line.connect().await.map_err(connecting_failed)?;
            }
            let node = Arc::new(node);
            node.time().await.map_err(|error| error.into_error(""))?;
            Ok(node)
        });
        finished(connecting).await.map_err(connecting_failed)?
    }

    /// Sends one copy of the call. `asking`: the slot is on its way to this server.
    pub(super) async fn call(self: &Arc<Self>, call: &Invocation, asking: bool) -> Answer {
        let client = self.commands.client();
        let answer = self.commands.ask(evaluate(client, call, asking, self.terms.publish)).await;
        self.note(&answer);
        answer.and_then(reply)
    }

    /// The same, and asks replicas to confirm it.
    pub(super) async fn call_confirmed(
        self: &Arc<Self>,
        call: &Invocation,
        asking: bool,
        confirm: Confirm,
    ) -> Answer {
        let answer = self.patient.call(call, asking, confirm).await;
        if matches!(&answer, Err(error) if *error.kind() == ErrorKind::Timeout) {
            self.timed_out();
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

    fn note(self: &Arc<Self>, answer: &RawAnswer) {
        match answer {
            Err(error) if *error.kind() == ErrorKind::Timeout => self.timed_out(),
            _ => self.timeouts.store(0, Ordering::Relaxed),
        }
    }

    /// A command had no answer in time.
    pub(super) fn timed_out(self: &Arc<Self>) {
        self.terms.doubt.notify_one();
        let row = self.timeouts.fetch_add(1, Ordering::Relaxed) + 1;
        if row < TIMEOUTS_UNTIL_RECONNECT || self.reconnecting.swap(true, Ordering::Relaxed) {
            return;
        }
        tracing::warn!(timeouts = row, "redis does not answer, reconnecting");
        let lines = [self.commands.clone(), self.subscriber.clone()];
        let this = Arc::downgrade(self);
        self.terms.runtime.spawn(async move {
            futures::future::join_all(lines.iter().map(Line::give_up)).await;
            if let Some(this) = this.upgrade() {
                this.timeouts.store(0, Ordering::Relaxed);
                this.reconnecting.store(false, Ordering::Relaxed);
            }
        });
    }

    /// Whether another has to take its place, at the same server or elsewhere.
    pub(super) fn is_broken(&self) -> bool {
        self.commands.is_gone() || self.subscriber.is_gone()
    }

    fn both(&self) -> [Client; 2] {
        [self.commands.client().clone(), self.subscriber.client().clone()]
    }

    /// Closes the connections; what is under way ends without an answer.
    pub(super) async fn quit(&self) {
        tokio::join!(quit(self.both()), self.patient.quit());
    }
}

/// fred closes nothing by itself, not even connections that nobody has a handle to.
impl Drop for Node {
    fn drop(&mut self) {
        quit_later(&self.terms.runtime, self.both());
    }
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
    if details.starts_with("Failed to route command") {
        // There was no connection: it never left.
        WireError::NotNow(opaque(&error))
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
