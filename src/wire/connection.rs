//! One connection over fred.
//!
//! Three of fred's defaults would break locks and are always overruled, also in a configuration
//! the user brings: a command whose connection dies is sent again (here: never), nothing times out
//! (here: everything does), and nothing reconnects (here: without end, or [it is gone](Broken)).

use std::{panic::resume_unwind, time::Duration};

use bytes::Bytes;
use fred::{
    clients::Client,
    error::{Error as FredError, ErrorKind},
    interfaces::ClientLike,
    socket2::TcpKeepalive,
    types::{
        Builder, ClusterHash, ConnectHandle, CustomCommand, RespVersion, Value,
        config::{ConnectionConfig, PerformanceConfig, ReconnectPolicy, TcpConfig},
    },
};
use futures::{FutureExt, future::Either};
use tokio::{task::JoinHandle, time::timeout};

use super::{Arg, FredConfig, Invocation, login::Login, node::opaque};
use crate::{
    error::{Error, RedisError},
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

/// What fred answers.
pub(super) type RawAnswer = Result<Value, FredError>;

/// Closes connections, also while fred is busy connecting them.
pub(super) async fn quit(clients: impl IntoIterator<Item = Client>) {
    let closing = clients
        .into_iter()
        .map(async |client| timeout(QUIT_TIMEOUT, client.quit()).await.map(drop));
    futures::future::join_all(closing).await;
}

/// The same in the background.
pub(super) fn quit_later(runtime: &ClientRuntime, clients: impl IntoIterator<Item = Client>) {
    let clients: Vec<_> = clients.into_iter().collect();
    if !clients.is_empty() {
        runtime.spawn(async move { quit(clients).await });
    }
}

/// Sends one copy of the call over this connection.
pub(super) async fn evaluate(
    client: &Client,
    call: &Invocation,
    asking: bool,
    publish: &'static str,
) -> RawAnswer {
    let script = call.script;
    // What is rare is boxed: each call is as large as all that it may come to.
    let send = |name, script| {
        let args = values(script, call, publish);
        match asking {
            false => Either::Left(client.custom(custom(name), args)),
            true => Either::Right(ask(client, name, args).boxed()),
        }
    };
    match send("EVALSHA", script.sha()).await {
        // The first call of a script on a server, or after a restart or SCRIPT FLUSH.
        Err(error) if error.details().starts_with("NOSCRIPT") => {
            tracing::debug!(script = script.name, "sending the script itself");
            send("EVAL", Bytes::from_static(script.source.as_bytes())).boxed().await
        }
        answer => answer,
    }
}

/// Sends a command for a slot that is on its way to this server.
async fn ask(client: &Client, name: &'static str, args: Vec<Value>) -> RawAnswer {
    // Written together: ASKING counts for the very next command of the connection.
    let pipeline = client.pipeline();
    let _: () = pipeline.custom(custom("ASKING"), Vec::<Value>::new()).await?;
    let _: () = pipeline.custom(custom(name), args).await?;
    let mut answers = pipeline.try_all::<Value>().await.into_iter();
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

/// Why a first connection failed, as a caller is told of it.
pub(super) fn connecting_failed(error: FredError) -> Error {
    match error.kind() {
        ErrorKind::Config | ErrorKind::Url => Error::Config(error.details().into()),
        _ => Error::Redis(opaque(&error)),
    }
}

/// Connects a connection, which may also be closed while it is being connected. What is given ends
/// when the connection is gone.
pub(super) async fn init(
    runtime: &ClientRuntime,
    client: Client,
) -> Result<ConnectHandle, FredError> {
    let login = Login::of(&client);
    login.try_unheard(runtime, &client).await?;
    login.judge(begin(runtime, client).await)
}

/// The same whatever the server says.
pub(super) async fn begin(
    runtime: &ClientRuntime,
    client: Client,
) -> Result<ConnectHandle, FredError> {
    // In a task of its own: fred cannot quit what has begun to connect and is not yet running.
    finished(runtime.spawn(async move { client.init().await })).await?
}

/// What came of a task that does not panic: nothing, when its runtime has ended.
pub(super) async fn finished<T>(task: JoinHandle<T>) -> Result<T, FredError> {
    task.await.map_err(|error| match error.try_into_panic() {
        Ok(panic) => resume_unwind(panic),
        Err(_) => FredError::new(ErrorKind::Canceled, RedisError::from(RuntimeEnded).to_string()),
    })
}

/// A connection, not yet connected.
pub(super) fn client(
    config: &FredConfig,
    command_timeout: Duration,
    events: usize,
    broken: Broken,
) -> Result<Client, Error> {
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
    let config = FredConfig { version: RespVersion::RESP2, fail_fast: true, ..config.clone() };
    let mut builder = Builder::from_config(config);
    builder.set_performance_config(performance).set_connection_config(connection);
    if broken == Broken::Reconnects {
        builder.set_policy(ReconnectPolicy::new_exponential(0, 20, 1000, 2));
    }
    builder.build().map_err(|error| Error::Config(error.details().into()))
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
