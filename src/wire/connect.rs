//! Connects a [`RedisTransport`]: the driver, the first look at the servers, the connections.

use std::{sync::Arc, time::Duration};

use futures::FutureExt;
use tokio::sync::Notify;

use super::{
    EventSink,
    answers::Failure,
    client_name::ClientName,
    connection::{self, Channels, ConnectionSettings, OnBreak},
    deployment::Deployment,
    drivers,
    node::Node,
    tls::Tls,
    tls_library,
    topology::{
        ALL_SLOTS, Discovery, Patience, Router, Routes, ServerMap, ask_again, connect_all, refresh,
    },
    transport::RedisTransport,
};
use crate::{
    error::Error,
    options::{Driver, ShardedPubsub},
    redis_error::RedisErrorKind,
    runtime::ClientRuntime,
};

/// What is needed to connect.
#[derive(Clone)]
pub(crate) struct ConnectOptions {
    pub(crate) deployment: Deployment,
    pub(crate) driver: Driver,
    pub(crate) command_timeout: Duration,
    pub(crate) sharding: ShardedPubsub,
    /// The name of the connections on the server.
    pub(crate) name: Option<String>,
    /// Gets the events of subscribers until the transport is quit.
    pub(crate) sink: EventSink,
    pub(crate) runtime: ClientRuntime,
}

/// How often sentinels are asked once more, after a master was connected to.
const MOST_TRIES: u32 = 4;

/// The pause before that if they have not answered.
const PAUSE: Duration = Duration::from_millis(50);

impl RedisTransport {
    pub(crate) async fn connect(options: ConnectOptions) -> Result<Self, Error> {
        let driver = options.driver()?;
        let ConnectOptions { deployment, command_timeout, sharding, name, sink, runtime, .. } =
            options;
        let client_name = name.map(|name| ClientName::new(&name));
        let mut settings = ConnectionSettings {
            driver,
            runtime,
            command_timeout,
            channels: Channels::Plain,
            client_name,
            sink,
            refresh_requested: Arc::new(Notify::new()),
            on_break: OnBreak::Reconnect,
        };
        if let Some(server) = deployment.single() {
            let node = Node::connect(server, settings.clone()).boxed().await?;
            let routes = Routes {
                slots: vec![(ALL_SLOTS, node.clone())],
                nodes: vec![(None, node)],
                epoch: 0,
            };
            return Ok(Self::new(Router::new(settings, None, routes, ServerMap::default())));
        }
        let mut discovery = Discovery::new(&deployment, &settings);
        let (map, sharded) = look_around(&mut discovery, sharding).await?;
        if sharded {
            settings.channels = Channels::Sharded;
        }
        if !discovery.is_cluster() {
            settings.on_break = OnBreak::End;
        }
        let (map, routes, errors) = connect_confirmed(map, &mut discovery, &settings).await?;
        if !errors.is_empty() {
            // The other servers of a cluster serve their slots meanwhile.
            settings.refresh_requested.notify_one();
        }
        for error in &errors {
            log!(warn, %error, "cannot connect");
        }
        let is_final = |error: &Error| routes.slots.is_empty() || !may_come_back(error);
        if let Some(error) = errors.into_iter().find(is_final) {
            return Err(error);
        }
        let deployment = Some(discovery.deployment().clone());
        let runtime = settings.runtime.clone();
        let transport = Self::new(Router::new(settings, deployment, routes, map));
        runtime.spawn(refresh(Arc::downgrade(&transport.router), discovery));
        Ok(transport)
    }
}

impl ConnectOptions {
    /// The driver for all connections of a client.
    pub(super) fn driver(&self) -> Result<Arc<dyn connection::Driver>, Error> {
        let Deployment { uses_tls, tls, .. } = &self.deployment;
        let tls = uses_tls.then(|| tls.clone().unwrap_or_else(Tls::system));
        drivers::new(self.driver, tls.as_ref()).map_err(Error::Config)
    }
}

/// Checks a user's TLS options.
pub(crate) fn check_tls(tls: &Tls) -> Result<(), Error> {
    tls_library::connector(tls).map(drop).map_err(Error::Config)
}

/// Whether it is the error of a server that is down, starts, is busy, or cannot be reached.
fn may_come_back(error: &Error) -> bool {
    use RedisErrorKind::{Busy, Disconnected, Loading, Timeout, TooManyClients, Unreachable};
    let kinds = [Busy, Disconnected, Loading, Timeout, TooManyClients, Unreachable];
    matches!(error, Error::Redis(error) if kinds.contains(&error.kind()))
}

/// Finds the servers for the first time, and whether they have sharded channels.
async fn look_around(
    discovery: &mut Discovery,
    sharding: ShardedPubsub,
) -> Result<(ServerMap, bool), Error> {
    let map = discovery.ask().await.map_err(Failure::into_connect_error)?;
    let sharded = match (discovery.is_cluster(), sharding) {
        (false, _) | (_, ShardedPubsub::Off) => false,
        (true, ShardedPubsub::On) => true,
        (true, ShardedPubsub::Auto) => discovery.has_sharded_channels().await?,
    };
    Ok((map, sharded))
}

/// Connects to the servers of the map, or of a newer one that is told after these were connected to.
async fn connect_confirmed(
    mut map: ServerMap,
    discovery: &mut Discovery,
    settings: &ConnectionSettings,
) -> Result<(ServerMap, Routes, Vec<Error>), Error> {
    let known = Routes::default();
    let mut tries = 0;
    loop {
        let deployment = discovery.deployment();
        let (routes, errors) =
            connect_all(&map, &known, deployment, settings, Patience::Full).await;
        if routes.nodes.is_empty() {
            return Ok((map, routes, errors));
        }
        let pause_after = |_: &Failure| {
            tries += 1;
            (tries < MOST_TRIES).then_some(PAUSE)
        };
        let newer = ask_again(&map, discovery, pause_after).await;
        match newer.map_err(Failure::into_connect_error)? {
            None => return Ok((map, routes, errors)),
            Some(newer) => map = newer,
        }
        tries += 1;
        if tries >= MOST_TRIES {
            return Err(Failure::no_master("the master changes").into_connect_error());
        }
    }
}
