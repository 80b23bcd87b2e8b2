//! [`Session`]: one connection of a driver, from its start to its end. It sends a script by its hash,
//! and its text to a server that has forgotten it.

use std::{panic::resume_unwind, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{
    FutureExt,
    future::{BoxFuture, join_all},
};
use tokio::{
    sync::watch,
    task::{AbortHandle, JoinHandle, spawn_blocking},
    time::{Instant, timeout},
};

use super::{
    answers::{Answer, Failure, FailureKind},
    client_name::ClientName,
    connection::{Bound, Channels, Command, Connected, Connection, Driver, Options},
    deployment::{Endpoint, PasswordFile},
    node_id::{NodeId, another},
    script::{Arg, Invocation},
    set_name::set_name,
};
use crate::{
    redis_error::{RedisError, RedisErrorKind},
    runtime::{ClientRuntime, RuntimeEnded},
};

/// How long a goodbye may take.
pub(super) const QUIT_TIMEOUT: Duration = Duration::from_secs(1);

/// One connection. Dropping it closes it at once.
pub(super) struct Session {
    connection: Arc<dyn Connection>,
    /// Aborting this task closes the socket. Pending calls then fail.
    task: AbortHandle,
    has_ended: watch::Receiver<bool>,
    since: Instant,
}

/// Completes at the end of a session, with how long it has lasted since this was asked for.
pub(super) type Lifetime = BoxFuture<'static, Duration>;

impl Session {
    /// Connects. May be dropped meanwhile. `client_name`: the name that the connection gets.
    pub(super) async fn connect(
        driver: &Arc<dyn Driver>,
        runtime: &ClientRuntime,
        endpoint: &Endpoint,
        options: Options,
        client_name: Option<ClientName>,
    ) -> Result<Arc<Self>, Failure> {
        let mut endpoint = endpoint.clone();
        let (file, node_id) = (endpoint.password_file.take(), endpoint.node_id.take());
        if let Some(file) = file {
            endpoint.credentials.password = Some(read(file, options.command_timeout).await?);
        }
        let connecting = driver.connect(endpoint, options);
        let (ended, has_ended) = watch::channel(false);
        let here = runtime.clone();
        // In a task of its own: a connection that the driver has begun must reach a state in which
        // it can be closed.
        let connecting = runtime.spawn(async move {
            let Connected { connection, task, end } = connecting.await?;
            let connection: Arc<dyn Connection> = connection.into();
            if let Some(client_name) = client_name {
                set_name(&connection, client_name, &here);
            }
            here.spawn(async move {
                end.await;
                ended.send_replace(true);
            });
            let since = Instant::now();
            let session = Arc::new(Self { connection, task, has_ended, since });
            if let Some(node_id) = node_id {
                session.check(&node_id).await?;
            }
            Ok(session)
        });
        finished(connecting).await?
    }

    /// Fails if the server is not this node.
    async fn check(&self, node_id: &NodeId) -> Result<(), Failure> {
        match self.command("CLUSTER", &["NODES".into()]).await {
            Ok(nodes) => node_id.check(&nodes.as_text().unwrap_or_default()),
            // It is no node of a cluster.
            Err(error) if error.kind == FailureKind::Config => Err(another()),
            Err(error) => Err(error),
        }
    }

    pub(super) fn is_gone(&self) -> bool {
        *self.has_ended.borrow()
    }

    pub(super) fn age(&self) -> Duration {
        self.since.elapsed()
    }

    /// Completes when nothing can be sent over it any more. Does not keep it open.
    pub(super) fn end(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut has_ended = self.has_ended.clone();
        async move {
            let _ = has_ended.wait_for(|has_ended| *has_ended).await;
        }
    }

    /// See [`Lifetime`]. Does not keep it open.
    pub(super) fn lifetime(&self) -> Lifetime {
        let (end, now) = (self.end(), Instant::now());
        end.map(move |()| now.elapsed()).boxed()
    }

    /// Closes it at once. Pending calls fail.
    pub(super) fn abandon(&self) {
        self.task.abort();
    }

    /// Returns the answer, or a failure when the connection ends.
    async fn ask<T>(&self, answer: BoxFuture<'_, Result<T, Failure>>) -> Result<T, Failure> {
        if self.is_gone() {
            return Err(Failure::gone_before_sending());
        }
        tokio::select! {
            biased;
            answer = answer => answer,
            () = self.end() => Err(Failure::gone()),
        }
    }

    pub(super) async fn command(&self, name: &'static str, args: &[Arg]) -> Answer {
        self.command_for(name, args, false).await
    }

    /// The same. `asking`: it is for a slot that is being moved to this server.
    pub(super) async fn command_for(
        &self,
        name: &'static str,
        args: &[Arg],
        asking: bool,
    ) -> Answer {
        let command = Command { name, script: None, args, channels: Channels::Plain, asking };
        self.ask(self.connection.send(command, None)).await
    }

    /// The answer to a command that sentinels do not know. If it failed because the server is one,
    /// the failure says so.
    pub(super) async fn unless_a_sentinel(&self, answer: Answer) -> Answer {
        match answer {
            Err(error) if error.text.contains("unknown command") => {
                let info = self.command("INFO", &["server".into()]).await;
                Err(Failure::of_sentinel(&info).unwrap_or(error))
            }
            answer => answer,
        }
    }

    /// Sends one copy of the call.
    pub(super) async fn call(
        &self,
        call: &Invocation,
        asking: bool,
        channels: Channels,
        bound: Bound,
    ) -> Answer {
        let send = |name, text, within| {
            let script = Some((text, call.keys));
            let command = Command { name, script, args: &call.args, channels, asking };
            self.ask(self.connection.send(command, within))
        };
        let script = call.script;
        let within = bound.within()?;
        match send("EVALSHA", script.sha(), within).await {
            // The first call of a script on a server, or the first after a restart or SCRIPT FLUSH.
            Err(error) if error.text.starts_with("NOSCRIPT") => {
                log!(debug, script = script.name, "sending the script itself");
                let source = Bytes::from_static(script.source.as_bytes());
                let within = bound.rest().within()?;
                send("EVAL", source, within).boxed().await
            }
            answer => answer,
        }
    }

    /// Subscribes to the channels. Completes when the server has confirmed it.
    pub(super) async fn subscribe(
        &self,
        channels: Vec<String>,
        sharded: bool,
    ) -> Result<(), Failure> {
        self.ask(self.connection.subscribe(channels, sharded)).await
    }

    /// Ends subscriptions. Completes when the server has confirmed it.
    pub(super) async fn unsubscribe(
        &self,
        channels: Vec<String>,
        sharded: bool,
    ) -> Result<(), Failure> {
        self.ask(self.connection.unsubscribe(channels, sharded)).await
    }

    /// Asks for a sign of life.
    pub(super) async fn ping(&self) -> Result<(), Failure> {
        match self.command("PING", &[]).await {
            Err(error) if error.cannot_save() => Ok(()),
            answer => answer.map(drop),
        }
    }

    /// Closes it, and says goodbye to the server if that is quick. Calls under way may end with their
    /// answers until then, and end without an answer afterwards.
    pub(super) async fn quit(&self, within: Duration) {
        let goodbye = async {
            self.connection.quit().await;
            self.end().await;
        };
        let _ = timeout(within, goodbye).await;
        self.abandon();
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.abandon();
    }
}

async fn read(file: PasswordFile, within: Duration) -> Result<String, Failure> {
    match timeout(within, spawn_blocking(move || file.read())).await {
        Ok(Ok(password)) => {
            password.map_err(|why| Failure::not_sent(why).because(RedisErrorKind::Auth))
        }
        _ => Err(Failure::not_sent("the password file cannot be read in time")
            .because(RedisErrorKind::Auth)),
    }
}

/// Closes connections.
pub(super) async fn quit_all(sessions: impl IntoIterator<Item = Arc<Session>>, within: Duration) {
    join_all(sessions.into_iter().map(async |session| session.quit(within).await)).await;
}

/// The result of a task that does not panic. It has none when its runtime has ended.
pub(super) async fn finished<T>(task: JoinHandle<T>) -> Result<T, Failure> {
    task.await.map_err(|error| match error.try_into_panic() {
        Ok(panic) => resume_unwind(panic),
        Err(_) => {
            let ended = RedisError::from(RuntimeEnded);
            Failure::new(FailureKind::Gone, ended.text().to_owned()).because(ended.kind())
        }
    })
}
