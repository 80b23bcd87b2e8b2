//! The [`Transport`] over fred.
//!
//! Three of fred's defaults would break locks and are always overruled, also in a configuration
//! the user brings: a command whose connection dies is sent again (here: never), nothing times out
//! (here: everything does), and nothing reconnects (here: without end).

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use fred::{
    clients::Client,
    error::{Error as FredError, ErrorKind},
    interfaces::ClientLike,
    socket2::TcpKeepalive,
    types::{
        Builder, ClusterHash, CustomCommand, RespVersion, Value,
        config::{ConnectionConfig, PerformanceConfig, ReconnectPolicy, ServerConfig, TcpConfig},
    },
};
use futures::{FutureExt, future::BoxFuture};
use tokio::time::timeout;

use super::{Arg, Flight, Invocation, Reply, Transport, WireError, pubsub};
use crate::error::{Error, RedisError};

/// fred's own configuration: server, credentials, database and TLS are taken from it.
pub type FredConfig = fred::types::config::Config;

/// So many timeouts in a row and the connection counts as dead: a black hole sends no reset.
const TIMEOUTS_UNTIL_RECONNECT: u32 = 3;

/// Commands fred may hold back while it is busy or disconnected; past it callers get an error.
const QUEUE: usize = 1 << 18;

/// How long a goodbye may take.
const QUIT_TIMEOUT: Duration = Duration::from_secs(1);

/// Reads a Redis URL.
pub(crate) fn check_url(url: &str) -> Result<FredConfig, Error> {
    // fred takes rediss:// without TLS compiled in for redis://, and sends passwords in the clear.
    let tls =
        cfg!(any(feature = "tls-rustls", feature = "tls-rustls-ring", feature = "tls-native"));
    let scheme = url.trim_start().to_ascii_lowercase();
    if (scheme.starts_with("rediss") || scheme.starts_with("valkeys")) && !tls {
        return Err(Error::Config(
            "a rediss:// URL needs one of the features tls-rustls, tls-rustls-ring, tls-native"
                .into(),
        ));
    }
    // The form other clients use for a Unix socket.
    let url = match url.strip_prefix("unix://") {
        Some(path) => format!("redis+unix://{path}"),
        None => url.to_owned(),
    };
    FredConfig::from_url(&url)
        .map_err(|error| Error::Config(format!("the URL: {}", error.details())))
}

/// The address of the server, and the database on it.
pub(crate) fn server_name(config: &FredConfig) -> String {
    let mut hosts: Vec<_> = config.server.hosts().iter().map(ToString::to_string).collect();
    hosts.sort_unstable();
    format!("{}/{}", hosts.join(","), config.database.unwrap_or(0))
}

/// One client's connections.
#[derive(Clone, Debug)]
pub(crate) struct FredTransport {
    connections: Arc<Connections>,
}

#[derive(Debug)]
struct Connections {
    commands: Client,
    /// Pub/sub never shares a connection with commands: a refused SUBSCRIBE shifts fred's queue of
    /// replies, and other callers would get wrong ones.
    subscriber: Client,
    /// Commands in a row that had no answer in time.
    timeouts: AtomicU32,
    /// New connections were asked for and are not there yet. fred would make one more for each time
    /// it is asked, over healthy ones.
    reconnecting: AtomicBool,
}

impl FredTransport {
    /// Connects both connections. Events of the subscriber go to `sink` until it is quit.
    pub(crate) async fn connect(
        mut config: FredConfig,
        command_timeout: Duration,
        sink: pubsub::EventSink,
    ) -> Result<Self, Error> {
        match config.server {
            ServerConfig::Centralized { .. } | ServerConfig::Unix { .. } => {}
            _ => {
                return Err(Error::Config(
                    "Redis Cluster and Sentinel are not supported yet: name one server".into(),
                ));
            }
        }
        config.version = RespVersion::RESP2;
        config.fail_fast = true;
        let commands = client(&config, command_timeout, 32)?;
        let subscriber = client(&config, command_timeout, 4096)?;
        pubsub::forward(&subscriber, sink);
        let connections = Arc::new(Connections {
            commands,
            subscriber,
            timeouts: AtomicU32::new(0),
            reconnecting: AtomicBool::new(false),
        });
        // In a task of its own: fred cannot quit what has begun to connect and is not yet running.
        let connecting = tokio::spawn(async move {
            for client in connections.both() {
                client.init().await.map_err(|error| match error.kind() {
                    ErrorKind::Config | ErrorKind::Url => Error::Config(error.details().into()),
                    _ => Error::Redis(opaque(&error)),
                })?;
            }
            Ok(Self { connections })
        });
        connecting.await.expect("connecting does not panic")
    }
}

impl Connections {
    async fn command(self: &Arc<Self>, name: &'static str, args: Vec<Value>) -> Answer {
        let command = CustomCommand::new_static(name, ClusterHash::FirstKey, false);
        let answer: Answer = self.commands.custom(command, args).await;
        match &answer {
            Err(error) if *error.kind() == ErrorKind::Timeout => self.timed_out(),
            _ => self.timeouts.store(0, Ordering::Relaxed),
        }
        answer
    }

    fn timed_out(self: &Arc<Self>) {
        let row = self.timeouts.fetch_add(1, Ordering::Relaxed) + 1;
        if row < TIMEOUTS_UNTIL_RECONNECT || self.reconnecting.swap(true, Ordering::Relaxed) {
            return;
        }
        tracing::warn!(timeouts = row, "redis does not answer, reconnecting");
        let (clients, this) = (self.both(), Arc::downgrade(self));
        tokio::spawn(async move {
            futures::future::join_all(clients.iter().map(ClientLike::force_reconnection)).await;
            if let Some(this) = this.upgrade() {
                this.timeouts.store(0, Ordering::Relaxed);
                this.reconnecting.store(false, Ordering::Relaxed);
            }
        });
    }

    fn both(&self) -> [Client; 2] {
        [self.commands.clone(), self.subscriber.clone()]
    }
}

/// fred closes nothing by itself, not even connections that nobody has a handle to.
impl Drop for Connections {
    fn drop(&mut self) {
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(quit(self.both()));
        }
    }
}

/// Closes connections, also while fred is busy connecting them.
async fn quit(clients: [Client; 2]) {
    let closing = clients.iter().map(|client| timeout(QUIT_TIMEOUT, client.quit()));
    futures::future::join_all(closing).await;
}

type Answer = Result<Value, FredError>;

impl Transport for FredTransport {
    fn call(&self, call: Invocation) -> Flight {
        let connections = self.connections.clone();
        async move {
            let script = call.script;
            match connections.command("EVALSHA", values(script.sha(), &call)).await {
                // The first call of a script on a server, or after a restart or SCRIPT FLUSH.
                Err(error) if error.details().starts_with("NOSCRIPT") => {
                    tracing::debug!(script = script.name, "sending the script itself");
                    let source = Bytes::from_static(script.source.as_bytes());
                    connections.command("EVAL", values(source, &call)).await
                }
                answer => answer,
            }
            .map_err(classify)
            .and_then(reply)
        }
        .boxed()
    }

    fn server_time(&self) -> BoxFuture<'static, Result<u64, WireError>> {
        let connections = self.connections.clone();
        async move {
            let time = connections.command("TIME", Vec::new()).await;
            let (seconds, micros): (u64, u64) =
                time.and_then(|value| value.convert()).map_err(classify)?;
            Ok(seconds * 1000 + micros / 1000)
        }
        .boxed()
    }

    fn subscribe(&self, channels: Vec<String>) -> BoxFuture<'static, Result<(), WireError>> {
        pubsub::subscribe(self.connections.subscriber.clone(), channels).boxed()
    }

    fn unsubscribe(&self, channels: Vec<String>) -> BoxFuture<'static, Result<(), WireError>> {
        pubsub::unsubscribe(self.connections.subscriber.clone(), channels).boxed()
    }

    fn probe(&self) -> BoxFuture<'static, Result<(), WireError>> {
        pubsub::probe(self.connections.subscriber.clone()).boxed()
    }

    fn given_up(&self) {
        self.connections.timed_out();
    }

    fn quit(&self) -> BoxFuture<'static, ()> {
        quit(self.connections.both()).boxed()
    }
}

fn client(config: &FredConfig, command_timeout: Duration, events: usize) -> Result<Client, Error> {
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
    Builder::from_config(config.clone())
        .set_performance_config(performance)
        .set_connection_config(connection)
        .set_policy(ReconnectPolicy::new_exponential(0, 20, 1000, 2))
        .build()
        .map_err(|error| Error::Config(error.details().into()))
}

fn values(script: Bytes, call: &Invocation) -> Vec<Value> {
    let mut values = Vec::with_capacity(call.args.len() + 2);
    values.push(Value::Bytes(script));
    values.push(Value::Integer(call.keys as i64));
    values.extend(call.args.iter().map(|arg| match arg {
        Arg::Bytes(bytes) => Value::Bytes(bytes.clone()),
        Arg::Int(n) => Value::Integer(i64::try_from(*n).unwrap_or(i64::MAX)),
    }));
    values
}

fn reply(value: Value) -> Result<Reply, WireError> {
    Ok(match value {
        Value::Null => Reply::Nil,
        Value::Integer(n) => Reply::Int(n),
        Value::String(text) => Reply::Bytes(text.into_inner()),
        Value::Bytes(bytes) => Reply::Bytes(bytes),
        Value::Array(values) => {
            Reply::Array(values.into_iter().map(reply).collect::<Result<_, _>>()?)
        }
        other => return Err(WireError::refused(format!("a reply of kind {}", other.kind()))),
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
    // Inside a script, Redis 6 puts its own words around an error: "ERR ...: -READONLY ...".
    let details = details.split_once(": -").map_or(details, |(_, inner)| inner);
    match details.split_whitespace().next().unwrap_or_default() {
        "WRONGTYPE" => WireError::WrongType,
        "LOADING" | "READONLY" | "MASTERDOWN" | "CLUSTERDOWN" | "TRYAGAIN" | "BUSY" | "MOVED"
        | "ASK" | "NOREPLICAS" => WireError::NotNow(opaque(&error)),
        // There was no connection: it never left.
        _ if details.starts_with("Failed to route command") => WireError::NotNow(opaque(&error)),
        // A command of a connection that is gone may have run.
        _ if details.contains("Too many failed write attempts") => {
            WireError::Unanswered(opaque(&error))
        }
        _ => WireError::Refused(opaque(&error)),
    }
}

fn opaque(error: &FredError) -> RedisError {
    RedisError::new(match error.kind() {
        ErrorKind::Timeout => "no answer in time".to_owned(),
        _ => error.details().to_owned(),
    })
}
