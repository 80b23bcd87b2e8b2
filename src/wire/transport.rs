//! The [`Transport`] over fred: which server serves a key.

use std::{
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use fred::util::redis_keyslot;
use futures::{
    FutureExt,
    future::{BoxFuture, join_all, try_join_all},
};
use tokio::{
    sync::{Mutex, Notify},
    time::{Instant, timeout_at},
};

use super::{
    Confirm, Flight, FredConfig, Invocation, ShardedPubsub, Transport, WireError,
    channels::{Homes, Places},
    cluster::{ALL_SLOTS, Address},
    connection::{Bound, Broken},
    discover::{Discovery, Map, config_at},
    error::is_of_keys_apart,
    follow::follow,
    login::connecting_failed,
    node::{Node, Terms},
    pubsub,
    routes::{Routes, connect_all, connect_one},
};
use crate::{
    error::{Error, RedisError},
    runtime::ClientRuntime,
};

/// One client's way to its servers.
#[derive(Clone, Debug)]
pub(crate) struct FredTransport {
    shared: Arc<Shared>,
}

pub(super) struct Shared {
    pub(super) terms: Terms,
    pub(super) is_cluster: bool,
    /// How to connect to each of the servers, where there is somebody who says which there are.
    base: Option<FredConfig>,
    sharded: bool,
    pub(super) routes: RwLock<Arc<Routes>>,
    /// Locked by whoever connects to one that serves no slot yet.
    joining: Mutex<()>,
    homes: Homes,
    pub(super) closed: AtomicBool,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("routes", &self.routes()).finish_non_exhaustive()
    }
}

impl FredTransport {
    /// Connects. What subscribers hear goes to `sink` until the transport is quit.
    pub(crate) async fn connect(
        config: FredConfig,
        command_timeout: Duration,
        sharding: ShardedPubsub,
        sink: pubsub::EventSink,
        runtime: ClientRuntime,
    ) -> Result<Self, Error> {
        let (doubt, broken) = (Arc::new(Notify::new()), Broken::Reconnects);
        let mut terms = Terms { runtime, command_timeout, publish: "publish", sink, doubt, broken };
        let Some(mut discovery) = Discovery::new(&config, &terms.runtime) else {
            let node = Node::connect(config, terms.clone()).boxed().await?;
            let routes =
                Routes { slots: vec![(ALL_SLOTS, node.clone())], nodes: vec![(None, node)] };
            return Ok(Self::new(terms, None, false, routes));
        };
        let (map, sharded) = look_around(&mut discovery, sharding).await?;
        if sharded {
            terms.publish = "spublish";
        }
        if !discovery.is_cluster() {
            terms.broken = Broken::IsGone;
        }
        let known = Routes::default();
        let (routes, errors) = connect_all(&map, &known, discovery.base(), &terms).await;
        if let Some(error) = errors.into_iter().next() {
            return Err(error);
        }
        let transport = Self::new(terms, Some(&discovery), sharded, routes);
        transport.runtime().spawn(follow(Arc::downgrade(&transport.shared), discovery));
        Ok(transport)
    }

    fn new(terms: Terms, discovery: Option<&Discovery>, sharded: bool, routes: Routes) -> Self {
        let shared = Shared {
            terms,
            is_cluster: discovery.is_some_and(Discovery::is_cluster),
            base: discovery.map(|discovery| discovery.base().clone()),
            sharded,
            routes: RwLock::new(Arc::new(routes)),
            joining: Mutex::default(),
            homes: Homes::default(),
            closed: AtomicBool::new(false),
        };
        Self { shared: Arc::new(shared) }
    }

    fn runtime(&self) -> ClientRuntime {
        self.shared.terms.runtime.clone()
    }

    /// Sends one copy at the first poll. It has the usual time, or until `by`.
    fn send(&self, call: Invocation, confirm: Option<Confirm>, by: Option<Instant>) -> Flight {
        let shared = self.shared.clone();
        async move {
            let copy = || async {
                let usual = shared.terms.command_timeout;
                let bound = by.map_or_else(|| Bound::of(usual), |by| Bound::until(by, usual));
                let answer = match shared.send(&call, confirm, bound).await {
                    Err(error) if is_of_keys_apart(error.details()) => {
                        shared.send_to_first_key(&call, confirm, bound, error).boxed().await
                    }
                    answer => answer,
                };
                shared.judge(answer)
            };
            shared.terms.runtime.run(copy).await
        }
        .boxed()
    }
}

/// The first look at the servers, and whether they have sharded channels.
async fn look_around(
    discovery: &mut Discovery,
    sharding: ShardedPubsub,
) -> Result<(Map, bool), Error> {
    let map = discovery.ask().await.map_err(connecting_failed)?;
    let sharded = match (discovery.is_cluster(), sharding) {
        (false, _) | (_, ShardedPubsub::Off) => false,
        (true, ShardedPubsub::On) => true,
        (true, ShardedPubsub::Auto) => discovery.has_sharded_channels().await?,
    };
    Ok((map, sharded))
}

impl Shared {
    pub(super) fn routes(&self) -> Arc<Routes> {
        self.routes.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn slot(&self, key: &[u8]) -> u16 {
        if self.is_cluster { redis_keyslot(key) } else { 0 }
    }

    pub(super) fn node_of(&self, key: &[u8]) -> Option<Arc<Node>> {
        self.routes().of(self.slot(key)).cloned()
    }

    fn node_for(&self, key: &[u8]) -> Result<Arc<Node>, WireError> {
        self.node_of(key).ok_or_else(|| {
            self.terms.doubt.notify_one();
            WireError::NotNow(RedisError::new("no server is known that serves this key"))
        })
    }

    /// The server to which a slot is on its way. It need not serve any yet, and is connected to when somebody is
    /// sent there: again, too, for it may be gone before it serves any, and nobody would say so.
    pub(super) async fn joining(&self, at: &Address, by: Instant) -> Option<Arc<Node>> {
        let known = || self.routes().at(at).filter(|node| !node.is_broken()).cloned();
        if let Some(known) = known() {
            return Some(known);
        }
        let base = self.base.as_ref()?;
        let connecting = async {
            let _one = self.joining.lock().await;
            if let Some(known) = known() {
                return Some(known);
            }
            let terms = Terms { broken: Broken::IsGone, ..self.terms.clone() };
            match connect_one(config_at(base, at), &terms).await {
                Ok(node) => self.let_join(at, node),
                Err(error) => {
                    tracing::warn!(host = at.host, port = at.port, %error, "cannot connect");
                    None
                }
            }
        };
        timeout_at(by, connecting).await.ok().flatten()
    }

    /// `None`: the client is closed.
    fn let_join(&self, at: &Address, node: Arc<Node>) -> Option<Arc<Node>> {
        let mut routes = self.routes.write().unwrap_or_else(PoisonError::into_inner);
        if self.closed.load(Ordering::Relaxed) {
            return None;
        }
        *routes = Arc::new(routes.with(at, &node));
        Some(node)
    }
}

impl Transport for FredTransport {
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
        self.shared.slot(key)
    }

    fn is_cluster(&self) -> bool {
        self.shared.is_cluster
    }

    fn time_at(&self, key: &[u8], moment: Instant) -> u64 {
        self.shared.node_of(key).map_or(0, |node| node.clock.at(moment))
    }

    fn observe(&self, key: &[u8], now: u64) {
        if let Some(node) = self.shared.node_of(key) {
            node.clock.observe(now);
        }
    }

    fn server_time(&self, key: &[u8]) -> BoxFuture<'static, Result<u64, WireError>> {
        let node = self.shared.node_for(key);
        let runtime = self.runtime();
        async move { runtime.run(|| async { node?.time().await }).await }.boxed()
    }

    fn keep_time(&self) -> BoxFuture<'static, ()> {
        let routes = self.shared.routes();
        async move {
            join_all(routes.nodes.iter().map(async |(_, node)| node.time().await)).await;
        }
        .boxed()
    }

    fn subscribe(&self, channels: Vec<String>) -> BoxFuture<'static, Result<(), WireError>> {
        let shared = self.shared.clone();
        async move {
            let mut places = Places::default();
            for channel in channels {
                places.add(shared.node_for(channel.as_bytes())?, channel);
            }
            try_join_all(places.into_iter().map(async |(node, channels)| {
                shared.homes.leave_others(&channels, &node, shared.sharded).await;
                if shared.is_cluster {
                    shared.homes.note(&channels, &node);
                }
                let done = pubsub::subscribe(&node.subscriber, channels, shared.sharded).await;
                if done.is_err() {
                    shared.terms.doubt.notify_one();
                }
                done
            }))
            .await
            .map(drop)
        }
        .boxed()
    }

    fn unsubscribe(&self, channels: Vec<String>) -> BoxFuture<'static, Result<(), WireError>> {
        let shared = self.shared.clone();
        async move {
            if !shared.is_cluster {
                let node = shared.node_for(&[])?;
                return pubsub::unsubscribe(&node.subscriber, channels, false).await;
            }
            shared.homes.leave(&channels, shared.sharded).await;
            Ok(())
        }
        .boxed()
    }

    fn follows(&self) -> bool {
        self.shared.base.is_some()
    }

    fn place(&self, name: &str) -> u64 {
        self.shared.node_of(name.as_bytes()).map_or(0, |node| node.id)
    }

    fn may_be_subscribed(&self, channel: &str) -> bool {
        self.shared.homes.has(channel)
    }

    fn probe(&self, place: u64) -> BoxFuture<'static, Result<(), WireError>> {
        let routes = self.shared.routes();
        async move {
            match routes.nodes.iter().find(|(_, node)| node.id == place) {
                Some((_, node)) => pubsub::probe(&node.subscriber).await,
                None => Ok(()),
            }
        }
        .boxed()
    }

    fn given_up(&self, key: &[u8]) {
        if let Some(node) = self.shared.node_of(key) {
            node.timed_out();
        }
    }

    fn quit(&self) -> BoxFuture<'static, ()> {
        let shared = self.shared.clone();
        async move {
            shared.closed.store(true, Ordering::Relaxed);
            shared.terms.doubt.notify_one();
            join_all(shared.routes().nodes.iter().map(async |(_, node)| node.quit().await)).await;
        }
        .boxed()
    }
}
