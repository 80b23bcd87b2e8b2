//! [`RedisTransport`]: the connections of one client, as a [`Transport`].

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures::{
    FutureExt,
    future::{BoxFuture, join_all, try_join_all},
};
use tokio::{sync::Notify, time::Instant};

use super::{
    Confirm, EventSink, Flight, ShardedPubsub, Transport,
    answers::Failure,
    connection::{Channels, ConnectionSettings, OnBreak},
    deployment::Deployment,
    error::{WireError, is_of_keys_apart},
    fred::FredDriver,
    node::Node,
    script::Invocation,
    session::Bound,
    tls::Tls,
    topology::{
        ALL_SLOTS, Discovery, Router, Routes, ServerMap, connect_all, group_by_node, refresh,
    },
};
use crate::{error::Error, runtime::ClientRuntime};

/// The connections of one client.
#[derive(Clone, Debug)]
pub(crate) struct RedisTransport {
    router: Arc<Router>,
}

impl RedisTransport {
    /// Connects. The events of subscribers go to `sink` until the transport is quit.
    pub(crate) async fn connect(
        deployment: Deployment,
        command_timeout: Duration,
        sharding: ShardedPubsub,
        sink: EventSink,
        runtime: ClientRuntime,
    ) -> Result<Self, Error> {
        let mut settings = ConnectionSettings {
            driver: Arc::new(driver(&deployment)?),
            runtime,
            command_timeout,
            channels: Channels::Plain,
            sink,
            refresh_requested: Arc::new(Notify::new()),
            on_break: OnBreak::Reconnect,
        };
        if let Some(server) = deployment.single() {
            let node = Node::connect(server, settings.clone()).boxed().await?;
            let routes =
                Routes { slots: vec![(ALL_SLOTS, node.clone())], nodes: vec![(None, node)] };
            return Ok(Self::new(settings, None, false, routes));
        }
        let mut discovery = Discovery::new(&deployment, &settings);
        let (map, sharded) = look_around(&mut discovery, sharding).await?;
        if sharded {
            settings.channels = Channels::Sharded;
        }
        if !discovery.is_cluster() {
            settings.on_break = OnBreak::End;
        }
        let known = Routes::default();
        let (routes, errors) = connect_all(&map, &known, discovery.deployment(), &settings).await;
        if let Some(error) = errors.into_iter().next() {
            return Err(error);
        }
        let transport = Self::new(settings, Some(&discovery), sharded, routes);
        transport.runtime().spawn(refresh(Arc::downgrade(&transport.router), discovery));
        Ok(transport)
    }

    fn new(
        settings: ConnectionSettings,
        discovery: Option<&Discovery>,
        sharded: bool,
        routes: Routes,
    ) -> Self {
        let is_cluster = discovery.is_some_and(Discovery::is_cluster);
        let found_by = discovery.map(|discovery| discovery.deployment().clone());
        let router = Router::new(settings, is_cluster, found_by, sharded, routes);
        Self { router: Arc::new(router) }
    }

    fn runtime(&self) -> ClientRuntime {
        self.router.settings.runtime.clone()
    }

    /// Sends one copy, at the first poll. It must be answered by `by`, or within the usual time.
    fn send(&self, call: Invocation, confirm: Option<Confirm>, by: Option<Instant>) -> Flight {
        let router = self.router.clone();
        async move {
            let copy = || async {
                let usual = router.settings.command_timeout;
                let bound = by.map_or_else(|| Bound::of(usual), |by| Bound::until(by, usual));
                let answer = match router.send(&call, confirm, bound).await {
                    Err(error) if is_of_keys_apart(&error.text) => {
                        router.send_to_first_key(&call, confirm, bound, error).boxed().await
                    }
                    answer => answer,
                };
                router.judge(answer)
            };
            router.settings.runtime.run(copy).await
        }
        .boxed()
    }
}

/// Checks a user's TLS options.
pub(crate) fn check_tls(tls: &Tls) -> Result<(), Error> {
    FredDriver::new(Some(tls)).map(drop).map_err(Error::Config)
}

/// The driver for all connections of a client.
fn driver(deployment: &Deployment) -> Result<FredDriver, Error> {
    let tls = deployment.uses_tls.then(|| deployment.tls.clone().unwrap_or_else(Tls::system));
    FredDriver::new(tls.as_ref()).map_err(Error::Config)
}

/// Finds the servers for the first time, and whether they have sharded channels.
async fn look_around(
    discovery: &mut Discovery,
    sharding: ShardedPubsub,
) -> Result<(ServerMap, bool), Error> {
    let map = discovery.ask().await.map_err(Failure::of_connecting)?;
    let sharded = match (discovery.is_cluster(), sharding) {
        (false, _) | (_, ShardedPubsub::Off) => false,
        (true, ShardedPubsub::On) => true,
        (true, ShardedPubsub::Auto) => discovery.has_sharded_channels().await?,
    };
    Ok((map, sharded))
}

impl Transport for RedisTransport {
    fn call(&self, call: Invocation) -> Flight {
        self.send(call, None, None)
    }

    fn call_by(&self, call: Invocation, by: Instant) -> Flight {
        self.send(call, None, Some(by))
    }

    fn call_confirmed(&self, call: Invocation, confirm: Confirm) -> Flight {
        self.send(call, Some(confirm), None)
    }

    fn slot(&self, key: &[u8]) -> u16 {
        self.router.slot(key)
    }

    fn is_cluster(&self) -> bool {
        self.router.is_cluster
    }

    fn time_at(&self, key: &[u8], moment: Instant) -> u64 {
        self.router.node_of(key).map_or(0, |node| node.clock.at(moment))
    }

    fn observe(&self, key: &[u8], now: u64) {
        if let Some(node) = self.router.node_of(key) {
            node.clock.observe(now);
        }
    }

    fn server_time(&self, key: &[u8]) -> BoxFuture<'static, Result<u64, WireError>> {
        let node = self.router.node_for(key);
        let runtime = self.runtime();
        async move { runtime.run(|| async { node?.time().await }).await }.boxed()
    }

    fn keep_time(&self) -> BoxFuture<'static, ()> {
        let routes = self.router.routes();
        async move {
            join_all(routes.nodes.iter().map(async |(_, node)| node.time().await)).await;
        }
        .boxed()
    }

    fn subscribe(&self, channels: Vec<String>) -> BoxFuture<'static, Result<(), WireError>> {
        let router = self.router.clone();
        async move {
            let mut subscribed_on = Vec::with_capacity(channels.len());
            for channel in channels {
                subscribed_on.push((router.node_for(channel.as_bytes())?, channel));
            }
            let groups = group_by_node(subscribed_on);
            try_join_all(groups.into_iter().map(async |(node, channels)| {
                let (map, sharded) = (&router.subscriptions, router.sharded);
                map.unsubscribe_elsewhere(&channels, &node, sharded).await;
                if router.is_cluster {
                    map.record(&channels, &node);
                }
                let done = node.subscribe(channels, sharded).await;
                if done.is_err() {
                    router.settings.refresh_requested.notify_one();
                }
                done
            }))
            .await
            .map(drop)
        }
        .boxed()
    }

    fn unsubscribe(&self, channels: Vec<String>) -> BoxFuture<'static, Result<(), WireError>> {
        let router = self.router.clone();
        async move {
            if !router.is_cluster {
                let node = router.node_for(&[])?;
                return node.unsubscribe(channels, false).await;
            }
            router.subscriptions.unsubscribe(&channels, router.sharded).await;
            Ok(())
        }
        .boxed()
    }

    fn follows(&self) -> bool {
        self.router.deployment.is_some()
    }

    fn place(&self, name: &str) -> u64 {
        self.router.node_of(name.as_bytes()).map_or(0, |node| node.id)
    }

    fn may_be_subscribed(&self, channel: &str) -> bool {
        self.router.subscriptions.has(channel)
    }

    fn probe(&self, place: u64) -> BoxFuture<'static, Result<(), WireError>> {
        let routes = self.router.routes();
        async move {
            match routes.nodes.iter().find(|(_, node)| node.id == place) {
                Some((_, node)) => node.probe().await,
                None => Ok(()),
            }
        }
        .boxed()
    }

    fn given_up(&self, key: &[u8]) {
        if let Some(node) = self.router.node_of(key) {
            node.timed_out();
        }
    }

    fn quit(&self) -> BoxFuture<'static, ()> {
        let router = self.router.clone();
        async move {
            router.closed.store(true, Ordering::Relaxed);
            router.settings.refresh_requested.notify_one();
            join_all(router.routes().nodes.iter().map(async |(_, node)| node.quit().await)).await;
        }
        .boxed()
    }
}
