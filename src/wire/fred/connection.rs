//! One connection over fred.

use std::time::Duration;

use fred::{
    clients::Client,
    error::{Error, ErrorKind},
    interfaces::{ClientLike, EventInterface, PubsubInterface},
    socket2::TcpKeepalive,
    types::{
        Builder, ClusterHash, ConnectHandle, CustomCommand, RespVersion, Value,
        config::{
            Config, ConnectionConfig, Options as FredOptions, PerformanceConfig, ReconnectPolicy,
            TcpConfig,
        },
    },
};
use futures::{
    FutureExt, TryFutureExt,
    future::{BoxFuture, try_join_all},
};
use tokio::{sync::broadcast::error::RecvError, time::timeout};

use super::answers::{answer, failure};
use crate::wire::{
    answers::Answer,
    connection::{Command, Connected, Connection, Done, Heard, Listener, OnBreak, Options},
    script::Arg,
};

/// Commands fred may hold back while it is busy or disconnected; past it callers get an error.
const QUEUE: usize = 1 << 18;

/// Messages fred may hold back until the listener takes them.
const MESSAGES: usize = 4096;

struct FredConnection {
    client: Client,
    command_timeout: Duration,
}

/// Connects, and tells what the server says.
pub(super) async fn connect(config: Config, options: Options) -> Result<Connected, Error> {
    let (client, running) = open(config, &options).await?;
    let Options { command_timeout, on_break, listener } = options;
    if let Some(listener) = listener {
        tokio::spawn(listen(&client, listener));
    }
    let (task, end) = (running.abort_handle(), running.map(drop).boxed());
    let connection = Box::new(FredConnection { client, command_timeout });
    Ok(Connected { connection, task, end, on_break })
}

impl Connection for FredConnection {
    fn send<'a>(&'a self, command: Command<'_>, within: Option<Duration>) -> BoxFuture<'a, Answer> {
        let (client, name, args) = (&self.client, command.name, values(&command));
        // fred's future has 5 KB. It is boxed where it is made, with nothing around it that would be copied as well.
        match (command.asking, within) {
            (false, None) => client.custom(custom(name), args).map(answer).boxed(),
            (false, Some(time)) => send_within(client, name, args, time).map(answer).boxed(),
            (true, within) => {
                let time = within.unwrap_or(self.command_timeout);
                ask(client, name, args, time).map(answer).boxed()
            }
        }
    }

    /// fred answers SUBSCRIBE before it has written it, and drops the server's confirmation. SSUBSCRIBE is sent as any
    /// command, one channel in each: channels need not share a slot, and each has an answer of its own.
    fn subscribe(&self, channels: Vec<String>, sharded: bool) -> Done<'_> {
        if !sharded {
            return self.client.subscribe(channels).map_err(failure).boxed();
        }
        let asked = channels.into_iter().map(|channel| {
            let name = custom("SSUBSCRIBE");
            self.client.custom::<Value, _>(name, vec![Value::from(channel)])
        });
        try_join_all(asked).map_ok(drop).map_err(failure).boxed()
    }

    fn unsubscribe(&self, channels: Vec<String>, sharded: bool) -> Done<'_> {
        if !sharded {
            return self.client.unsubscribe(channels).map_err(failure).boxed();
        }
        let each = async {
            for channel in channels {
                self.client.sunsubscribe(channel).await.map_err(failure)?;
            }
            Ok(())
        };
        each.boxed()
    }

    fn quit(&self) -> BoxFuture<'_, ()> {
        self.client.quit().map(drop).boxed()
    }
}

/// Tells the listener of all that the connection hears, until the client is gone.
///
/// fred's own `on_message` ends for good at the first lagged broadcast.
fn listen(client: &Client, mut listener: Listener) -> impl Future<Output = ()> + use<> {
    let mut messages = client.message_rx();
    let mut reconnects = client.reconnect_rx();
    let mut errors = client.error_rx();
    async move {
        loop {
            listener(tokio::select! {
                message = messages.recv() => match message {
                    Ok(message) => Heard::Message(message.channel.to_string()),
                    Err(RecvError::Lagged(missed)) => Heard::Dropped(missed),
                    Err(RecvError::Closed) => return,
                },
                // fred tells of each try to connect again, too.
                broken = errors.recv() => match broken {
                    Err(RecvError::Closed) => return,
                    _ => Heard::Lost,
                },
                reconnected = reconnects.recv() => match reconnected {
                    Ok(_) | Err(RecvError::Lagged(_)) => Heard::Reconnected,
                    Err(RecvError::Closed) => return,
                },
            });
        }
    }
}

/// Sends a command that has less than the usual time.
async fn send_within(
    client: &Client,
    name: &'static str,
    args: Vec<Value>,
    time: Duration,
) -> Result<Value, Error> {
    let options = FredOptions { timeout: Some(time), ..FredOptions::default() };
    client.with_options(&options).custom(custom(name), args).await
}

/// Sends a command for a slot that is on its way to this server.
async fn ask(
    client: &Client,
    name: &'static str,
    args: Vec<Value>,
    time: Duration,
) -> Result<Value, Error> {
    // Written together: ASKING counts for the very next command of the connection.
    let pipeline = client.pipeline();
    let _: () = pipeline.custom(custom("ASKING"), Vec::<Value>::new()).await?;
    let _: () = pipeline.custom(custom(name), args).await?;
    let answers = timeout(time, pipeline.try_all::<Value>()).await;
    let answers = answers.map_err(|_| Error::new(ErrorKind::Timeout, "no answer in time"))?;
    let mut answers = answers.into_iter();
    let asked = answers.next().unwrap_or_else(|| Err(Error::new_canceled()));
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

/// The same, as fred puts it: with the task that carries it.
pub(super) async fn open(
    config: Config,
    options: &Options,
) -> Result<(Client, ConnectHandle), Error> {
    let command_timeout = options.command_timeout;
    let performance = PerformanceConfig {
        default_command_timeout: command_timeout,
        broadcast_channel_capacity: if options.listener.is_some() { MESSAGES } else { 32 },
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
    let config = Config { version: RespVersion::RESP2, fail_fast: true, ..config };
    let mut builder = Builder::from_config(config);
    builder.set_performance_config(performance).set_connection_config(connection);
    if options.on_break == OnBreak::Reconnect {
        builder.set_policy(ReconnectPolicy::new_exponential(0, 20, 1000, 2));
    }
    let unusable = |error: Error| Error::new(ErrorKind::Config, error.details().to_owned());
    let client = builder.build().map_err(unusable)?;
    let running = client.init().await?;
    Ok((client, running))
}

fn values(command: &Command<'_>) -> Vec<Value> {
    let mut values = Vec::with_capacity(command.args.len() + 2);
    if let Some((script, keys)) = &command.script {
        values.extend([Value::Bytes(script.clone()), Value::Integer(*keys as i64)]);
    }
    values.extend(command.args.iter().map(|arg| match arg {
        Arg::Bytes(bytes) => Value::Bytes(bytes.clone()),
        Arg::Int(n) => Value::Integer(i64::try_from(*n).unwrap_or(i64::MAX)),
        Arg::Publish => Value::from_static_str(command.channels.publish()),
        Arg::Listening => Value::from_static_str(command.channels.count_listeners()),
    }));
    values
}
