//! One connection over fred.

use std::time::Duration;

use fred::{
    clients::{Client, Pipeline},
    error::{Error, ErrorKind},
    interfaces::{ClientLike, EventInterface, PubsubInterface},
    socket2::TcpKeepalive,
    types::{
        Builder, ClusterHash, ConnectHandle, CustomCommand, RespVersion, Value,
        config::{Config, ConnectionConfig, Options as FredOptions, PerformanceConfig, TcpConfig},
    },
};
use futures::{
    FutureExt, TryFutureExt,
    future::{BoxFuture, try_join_all},
};
use tokio::{sync::broadcast::error::RecvError, time::timeout};

use super::answers::{answer, failure};
use crate::wire::{
    answers::{Answer, Failure},
    barrier::{Barrier, confirmed},
    connection::{Command, Connected, Connection, Done, Heard, Listener, Options},
    script::Arg,
};

/// How many commands fred may queue while it is busy. Further commands fail.
const QUEUE: usize = 1 << 18;

/// How many messages fred may queue until the listener takes them.
const MESSAGES: usize = 4096;

struct FredConnection {
    client: Client,
    command_timeout: Duration,
    barrier: Barrier,
}

/// Connects. The error is the server's own.
pub(super) async fn connect(config: Config, options: Options) -> Result<Connected, Error> {
    let (client, running) = open(config, &options).await?;
    Ok(connected(client, running, options))
}

pub(super) fn connected(client: Client, running: ConnectHandle, options: Options) -> Connected {
    let Options { command_timeout, listener } = options;
    if let Some(listener) = listener {
        tokio::spawn(listen(&client, listener));
    }
    let (task, end) = (running.abort_handle(), running.map(drop).boxed());
    let connection = Box::new(FredConnection { client, command_timeout, barrier: Barrier::new() });
    Connected { connection, task, end }
}

impl Connection for FredConnection {
    fn send<'a>(&'a self, command: Command<'_>, within: Option<Duration>) -> BoxFuture<'a, Answer> {
        let (client, name, args) = (&self.client, command.name, values(&command));
        // fred's future has 5 KB. It is boxed where it is made, so that nothing copies it.
        match (command.asking, within) {
            (false, None) => client.custom(custom(name), args).map(answer).boxed(),
            (false, Some(time)) => send_within(client, name, args, time).map(answer).boxed(),
            (true, within) => {
                let time = within.unwrap_or(self.command_timeout);
                ask(client, name, args, time).map(answer).boxed()
            }
        }
    }

    /// SSUBSCRIBE is sent as a plain command with one channel each: channels need not share a slot, and
    /// each has its own answer.
    fn subscribe(&self, channels: Vec<String>, sharded: bool) -> Done<'_> {
        if !sharded {
            let all = self.client.pipeline();
            return async move {
                all.subscribe(channels).await.map_err(failure)?;
                self.write(all).await
            }
            .boxed();
        }
        let asked = channels.into_iter().map(async |channel| {
            let reply = self.client.custom(custom("SSUBSCRIBE"), vec![&*channel]).await;
            confirmed(answer(reply), "ssubscribe", &channel)
        });
        let (ping, asked) = (|mark| self.ping(self.client.pipeline(), mark), try_join_all(asked));
        self.barrier.in_step(self.command_timeout, ping, asked.map_ok(drop)).boxed()
    }

    fn unsubscribe(&self, channels: Vec<String>, sharded: bool) -> Done<'_> {
        let all = self.client.pipeline();
        async move {
            match sharded {
                false => all.unsubscribe(channels).await.map_err(failure)?,
                true => {
                    for channel in channels {
                        all.sunsubscribe(channel).await.map_err(failure)?;
                    }
                }
            }
            self.write(all).await
        }
        .boxed()
    }

    fn quit(&self) -> BoxFuture<'_, ()> {
        self.client.quit().map(drop).boxed()
    }
}

impl FredConnection {
    /// Writes commands that fred answers at once, and whose confirmation it drops.
    async fn write(&self, commands: Pipeline<Client>) -> Result<(), Failure> {
        let mut commands = Some(commands);
        let ping = |mark| {
            let commands = commands.take();
            self.ping(commands.unwrap_or_else(|| self.client.pipeline()), mark)
        };
        self.barrier.pass(self.command_timeout, ping).await
    }

    /// Writes PING right behind the commands.
    async fn ping(&self, commands: Pipeline<Client>, mark: String) -> Answer {
        let _: () = commands.custom(custom("PING"), vec![mark]).await.map_err(failure)?;
        answer(commands.last().await)
    }
}

/// Tells the listener what comes, until the client is gone.
///
/// fred's own `on_message` ends for good at the first lagged broadcast.
fn listen(client: &Client, mut listener: Listener) -> impl Future<Output = ()> + use<> {
    let mut messages = client.message_rx();
    async move {
        loop {
            listener(match messages.recv().await {
                Ok(message) => Heard::Message(message.channel.to_string()),
                Err(RecvError::Lagged(missed)) => Heard::Dropped(missed),
                Err(RecvError::Closed) => return,
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

/// Sends a command for a slot that is being moved to this server.
async fn ask(
    client: &Client,
    name: &'static str,
    args: Vec<Value>,
    time: Duration,
) -> Result<Value, Error> {
    // Written together: ASKING counts for the next command of the connection only.
    let pipeline = client.pipeline();
    let _: () = pipeline.custom(custom("ASKING"), Vec::<Value>::new()).await?;
    let _: () = pipeline.custom(custom(name), args).await?;
    let answers = timeout(time, pipeline.try_all::<Value>()).await;
    let answers = answers.map_err(|_| Error::new(ErrorKind::Timeout, "no answer in time"))?;
    let mut answers = answers.into_iter();
    let asked = answers.next().unwrap_or_else(|| Err(Error::new_canceled()));
    match (asked, answers.next()) {
        // A server that refuses ASKING redirects the command, and this error says why.
        (Err(why), Some(Err(error))) if *error.kind() == ErrorKind::Cluster => Err(why),
        (_, Some(answer)) => answer,
        (asked, None) => asked,
    }
}

pub(super) fn custom(name: &'static str) -> CustomCommand {
    CustomCommand::new_static(name, ClusterHash::FirstKey, false)
}

/// Opens a connection with fred. Returns its client, and the task that runs it.
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
    // Without a policy it does not reconnect.
    let mut builder = Builder::from_config(config);
    builder.set_performance_config(performance).set_connection_config(connection);
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
