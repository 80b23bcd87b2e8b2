//! One connection over fred.
//!
//! Three of fred's defaults would break locks and are always overruled, also in a configuration
//! the user brings: a command whose connection dies is sent again (here: never), nothing times out
//! (here: everything does), and nothing reconnects (here: without end, or [it is gone](Broken)).
//! And a connection is ended by ending the task that carries it: what fred is told it may never hear.

use std::{panic::resume_unwind, sync::Arc, time::Duration};

use ::fred::{
    clients::Client,
    error::{Error as FredError, ErrorKind},
    interfaces::ClientLike,
    socket2::TcpKeepalive,
    types::{
        Builder, ClusterHash, CustomCommand, RespVersion, Value,
        config::{
            Config, ConnectionConfig, Options, PerformanceConfig, ReconnectPolicy, TcpConfig,
        },
    },
};
use bytes::Bytes;
use futures::{FutureExt, future::join_all};
use tokio::{
    sync::{Notify, watch},
    task::{AbortHandle, JoinHandle},
    time::{Instant, timeout},
};

use super::{
    EventSink,
    answers::{RawAnswer, not_sent, timed_out},
    deployment::Endpoint,
    fred,
    script::{Arg, Invocation},
};
use crate::{
    error::RedisError,
    runtime::{ClientRuntime, RuntimeEnded},
};

/// Commands fred may hold back while it is busy or disconnected; past it callers get an error.
const QUEUE: usize = 1 << 18;

/// How long a goodbye may take.
const QUIT_TIMEOUT: Duration = Duration::from_secs(1);

/// What becomes of a connection that breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// It is made again, to the same address, without end.
    Reconnects,
    /// It stays broken.
    IsGone,
}

/// What all connections of one client have in common.
#[derive(Clone)]
pub(super) struct ConnectionSettings {
    /// What outlives a call runs here.
    pub(super) runtime: ClientRuntime,
    pub(super) command_timeout: Duration,
    /// The word by which scripts publish.
    pub(super) publish: &'static str,
    /// Takes what subscribers hear.
    pub(super) sink: EventSink,
    /// Told when there is reason to look whether this is still the right server.
    pub(super) refresh_requested: Arc<Notify>,
    pub(super) broken: Broken,
}

/// Until when a call is to be answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    pub(super) by: Instant,
    /// All of the usual time is left: fred has a timer for that anyway.
    pub(super) is_fresh: bool,
}

impl Bound {
    /// So long from now on.
    pub(super) fn of(time: Duration) -> Self {
        Self { by: Instant::now() + time, is_fresh: true }
    }

    /// Until then. What is almost the usual time is taken for all of it.
    pub(super) fn until(by: Instant, usual: Duration) -> Self {
        let is_fresh = by.saturating_duration_since(Instant::now()) > usual - usual / 16;
        Self { by, is_fresh }
    }

    /// For what is sent after something else: what is left.
    pub(super) fn rest(self) -> Self {
        Self { is_fresh: false, ..self }
    }

    /// What is left for a command. An error, and nothing is sent, when that is nothing.
    fn left(self) -> Result<Duration, FredError> {
        let left = self.by.saturating_duration_since(Instant::now());
        // For fred, no time at all is no bound.
        if left < Duration::from_millis(1) { Err(not_sent("no time is left")) } else { Ok(left) }
    }
}

/// One connection, from the moment it is there. Dropped, it ends at once; fred's own clients never do.
pub(super) struct Session {
    client: Client,
    /// fred's, which carries it. It may be busy for ever with writing what nobody reads, and deaf to whatever it is
    /// told. With it the socket goes, and whoever waits for an answer is told that there will be none.
    task: AbortHandle,
    has_ended: watch::Receiver<bool>,
    broken: Broken,
    since: Instant,
}

impl Session {
    /// Connects, and tells what the server says. May be dropped meanwhile.
    pub(super) async fn begin(
        runtime: &ClientRuntime,
        endpoint: &Endpoint,
        command_timeout: Duration,
        events: usize,
        broken: Broken,
    ) -> Result<Arc<Self>, FredError> {
        let client = client(endpoint, command_timeout, events, broken)?;
        let (ended, has_ended) = watch::channel(false);
        let here = runtime.clone();
        // In a task of its own: what fred has begun to connect has to be carried to where it can be ended.
        let connecting = runtime.spawn(async move {
            let running = client.init().await?;
            let (task, since) = (running.abort_handle(), Instant::now());
            here.spawn(async move {
                let _ = running.await;
                ended.send_replace(true);
            });
            Ok(Arc::new(Self { client, task, has_ended, broken, since }))
        });
        finished(connecting).await?
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn is_gone(&self) -> bool {
        *self.has_ended.borrow()
    }

    pub(super) fn age(&self) -> Duration {
        self.since.elapsed()
    }

    /// Done when nothing can be sent over it any more. Does not keep it.
    pub(super) fn end(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut has_ended = self.has_ended.clone();
        async move {
            let _ = has_ended.wait_for(|has_ended| *has_ended).await;
        }
    }

    /// Ends it at once. Whoever waits for an answer is told that there will be none.
    pub(super) fn abandon(&self) {
        self.task.abort();
    }

    /// An answer, or that there will be none: fred lets those wait for ever who ask when a connection is gone that
    /// it does not make again.
    pub(super) async fn ask<T>(
        &self,
        answer: impl Future<Output = Result<T, FredError>>,
    ) -> Result<T, FredError> {
        if self.broken == Broken::Reconnects {
            return answer.await;
        }
        if self.is_gone() {
            return Err(not_sent("the connection is gone"));
        }
        tokio::select! {
            biased;
            answer = answer => answer,
            () = self.end() => Err(FredError::new(ErrorKind::IO, "the connection is gone")),
        }
    }

    pub(super) async fn command(&self, name: &'static str, args: Vec<Value>) -> RawAnswer {
        self.ask(self.client.custom(custom(name), args).boxed()).await
    }

    /// Closes it, with a word to the server if that can be had soon.
    pub(super) async fn quit(&self) {
        let goodbye = async {
            let _ = self.client.quit().await;
            self.end().await;
        };
        let _ = timeout(QUIT_TIMEOUT, goodbye).await;
        self.abandon();
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.abandon();
    }
}

/// Closes connections.
pub(super) async fn quit_all(sessions: impl IntoIterator<Item = Arc<Session>>) {
    join_all(sessions.into_iter().map(async |session| session.quit().await)).await;
}

/// Sends one copy of the call over this connection.
pub(super) async fn evaluate(
    client: &Client,
    call: &Invocation,
    asking: bool,
    publish: &'static str,
    bound: Bound,
) -> RawAnswer {
    let script = call.script;
    // Boxed where it is made: 5 KB of fred's, and each future around them would be another copy.
    let send = |name, script, bound: Bound| {
        let args = values(script, call, publish);
        match (asking, bound.is_fresh) {
            (false, true) => client.custom(custom(name), args).boxed(),
            (false, false) => send_within(client, name, args, bound).boxed(),
            (true, _) => ask(client, name, args, bound).boxed(),
        }
    };
    match send("EVALSHA", script.sha(), bound).await {
        // The first call of a script on a server, or after a restart or SCRIPT FLUSH.
        Err(error) if error.details().starts_with("NOSCRIPT") => {
            tracing::debug!(script = script.name, "sending the script itself");
            let source = Bytes::from_static(script.source.as_bytes());
            send("EVAL", source, bound.rest()).await
        }
        answer => answer,
    }
}

/// Sends a command that has less than the usual time.
async fn send_within(
    client: &Client,
    name: &'static str,
    args: Vec<Value>,
    bound: Bound,
) -> RawAnswer {
    let options = Options { timeout: Some(bound.left()?), ..Options::default() };
    client.with_options(&options).custom(custom(name), args).await
}

/// Sends a command for a slot that is on its way to this server.
async fn ask(client: &Client, name: &'static str, args: Vec<Value>, bound: Bound) -> RawAnswer {
    let left = bound.left()?;
    // Written together: ASKING counts for the very next command of the connection.
    let pipeline = client.pipeline();
    let _: () = pipeline.custom(custom("ASKING"), Vec::<Value>::new()).await?;
    let _: () = pipeline.custom(custom(name), args).await?;
    let answers = timeout(left, pipeline.try_all::<Value>()).await;
    let mut answers = answers.map_err(|_| timed_out())?.into_iter();
    let asked = answers.next().unwrap_or_else(|| Err(FredError::new_canceled()));
    match (asked, answers.next()) {
        // A server that does not listen to ASKING sends elsewhere, and says here why.
        (Err(why), Some(Err(error))) if *error.kind() == ErrorKind::Cluster => Err(why),
        (_, Some(answer)) => answer,
        (asked, None) => asked,
    }
}

pub(super) fn custom(name: &'static str) -> CustomCommand {
    CustomCommand::new_static(name, ClusterHash::FirstKey, false)
}

/// What came of a task that does not panic: nothing, when its runtime has ended.
async fn finished<T>(task: JoinHandle<T>) -> Result<T, FredError> {
    task.await.map_err(|error| match error.try_into_panic() {
        Ok(panic) => resume_unwind(panic),
        Err(_) => FredError::new(ErrorKind::Canceled, RedisError::from(RuntimeEnded).to_string()),
    })
}

/// A connection, not yet connected.
fn client(
    endpoint: &Endpoint,
    command_timeout: Duration,
    events: usize,
    broken: Broken,
) -> Result<Client, FredError> {
    let performance = PerformanceConfig {
        default_command_timeout: command_timeout,
        broadcast_channel_capacity: events,
        ..PerformanceConfig::default()
    };
    let connection = ConnectionConfig {
        max_command_attempts: 1,
        max_command_buffer_len: QUEUE,
        connection_timeout: command_timeout,
        internal_command_timeout: command_timeout,
        tcp: TcpConfig {
            nodelay: Some(true),
            keepalive: Some(TcpKeepalive::new().with_time(Duration::from_secs(15))),
            ..TcpConfig::default()
        },
        ..ConnectionConfig::default()
    };
    let config = fred::config(endpoint);
    let config = Config { version: RespVersion::RESP2, fail_fast: true, ..config };
    let mut builder = Builder::from_config(config);
    builder.set_performance_config(performance).set_connection_config(connection);
    if broken == Broken::Reconnects {
        builder.set_policy(ReconnectPolicy::new_exponential(0, 20, 1000, 2));
    }
    builder.build().map_err(|error| FredError::new(ErrorKind::Config, error.details().to_owned()))
}

fn values(script: Bytes, call: &Invocation, publish: &'static str) -> Vec<Value> {
    let mut values = Vec::with_capacity(call.args.len() + 2);
    values.push(Value::Bytes(script));
    values.push(Value::Integer(call.keys as i64));
    values.extend(call.args.iter().map(|arg| match arg {
        Arg::Bytes(bytes) => Value::Bytes(bytes.clone()),
        Arg::Int(n) => Value::Integer(i64::try_from(*n).unwrap_or(i64::MAX)),
        Arg::Publish => Value::from_static_str(publish),
        Arg::Listening => Value::from_static_str(match publish {
            "spublish" => "shardnumsub",
            _ => "numsub",
        }),
    }));
    values
}
