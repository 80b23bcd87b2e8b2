//! [`Router`]: finds the server that serves a key now. [`Routes`]: one version of the map from slots
//! to servers, and how the next one is connected.

use std::{
    ops::RangeInclusive,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::future::join_all;
use tokio::{
    sync::Mutex,
    time::{Instant, timeout, timeout_at},
};

use super::{channels::SubscriptionMap, discover::ServerMap, slots::slot_of};
use crate::{
    error::Error,
    redis_error::{RedisError, RedisErrorKind},
    wire::{
        connection::{ConnectionSettings, OnBreak},
        deployment::{Address, Deployment, Endpoint},
        error::WireError,
        node::Node,
    },
};

/// At most one warning in this time about servers that serve no slot yet and cannot be reached.
const WARNING_PAUSE: Duration = Duration::from_secs(10);

/// The servers of one client at this moment, and what is subscribed where.
pub(in crate::wire) struct Router {
    pub(in crate::wire) settings: ConnectionSettings,
    pub(in crate::wire) is_cluster: bool,
    /// How to connect to each server, if others are asked which servers there are.
    pub(in crate::wire) deployment: Option<Deployment>,
    pub(in crate::wire) sharded: bool,
    pub(in crate::wire) routes: RwLock<Arc<Routes>>,
    /// Locked while a server that serves no slot yet is being connected to. When the log was last
    /// told that this failed.
    connecting: Mutex<Option<Instant>>,
    pub(in crate::wire) subscriptions: SubscriptionMap,
    pub(in crate::wire) closed: AtomicBool,
}

impl std::fmt::Debug for Router {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Router").field("routes", &self.routes()).finish_non_exhaustive()
    }
}

impl Router {
    pub(in crate::wire) fn new(
        settings: ConnectionSettings,
        is_cluster: bool,
        deployment: Option<Deployment>,
        sharded: bool,
        routes: Routes,
    ) -> Self {
        Self {
            settings,
            is_cluster,
            deployment,
            sharded,
            routes: RwLock::new(Arc::new(routes)),
            connecting: Mutex::default(),
            subscriptions: SubscriptionMap::default(),
            closed: AtomicBool::new(false),
        }
    }

    pub(in crate::wire) fn routes(&self) -> Arc<Routes> {
        self.routes.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(in crate::wire) fn slot(&self, key: &[u8]) -> u16 {
        if self.is_cluster { slot_of(key) } else { 0 }
    }

    pub(in crate::wire) fn node_of(&self, key: &[u8]) -> Option<Arc<Node>> {
        self.routes().of(self.slot(key)).cloned()
    }

    pub(in crate::wire) fn node_for(&self, key: &[u8]) -> Result<Arc<Node>, WireError> {
        self.node_of(key).ok_or_else(|| {
            self.settings.refresh_requested.notify_one();
            WireError::NotNow(RedisError::new(
                RedisErrorKind::ClusterDown,
                "no server is known that serves this key",
            ))
        })
    }

    /// The server to which a slot is being moved. It may serve no slot yet. It is connected to when
    /// a call is redirected there, and again later, because no source reports its end before it
    /// serves a slot.
    pub(in crate::wire) async fn joining(
        self: &Arc<Self>,
        at: &Address,
        by: Instant,
    ) -> Option<Arc<Node>> {
        if let Some(known) = self.joined(at) {
            return Some(known);
        }
        let (router, at) = (self.clone(), at.clone());
        // In a task of its own: the caller may not be polled, and other callers wait for the lock.
        let connecting = async move { timeout_at(by, router.connect_joining(&at)).await };
        self.settings.runtime.spawn(connecting).await.ok()?.ok()?
    }

    fn joined(&self, at: &Address) -> Option<Arc<Node>> {
        self.routes().at(at).filter(|node| !node.is_broken()).cloned()
    }

    async fn connect_joining(&self, at: &Address) -> Option<Arc<Node>> {
        let deployment = self.deployment.as_ref()?;
        let mut told = self.connecting.lock().await;
        if let Some(known) = self.joined(at) {
            return Some(known);
        }
        let at = &self.routes().known_as(at);
        let settings = ConnectionSettings { on_break: OnBreak::End, ..self.settings.clone() };
        match connect_one(deployment.endpoint(at), &settings).await {
            Ok(node) => self.let_join(at, node),
            Err(error) => {
                // Each call that is redirected there gets here.
                if told.is_none_or(|told| told.elapsed() >= WARNING_PAUSE) {
                    *told = Some(Instant::now());
                    tracing::warn!(host = at.host, port = at.port, %error, "cannot connect");
                }
                None
            }
        }
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

/// Which node serves which slots, in order.
#[derive(Debug, Default)]
pub(in crate::wire) struct Routes {
    pub(in crate::wire) slots: Vec<(RangeInclusive<u16>, Arc<Node>)>,
    /// All nodes, each once. The node that the configuration names has no address here.
    pub(in crate::wire) nodes: Vec<(Option<Address>, Arc<Node>)>,
}

impl Routes {
    pub(in crate::wire) fn of(&self, slot: u16) -> Option<&Arc<Node>> {
        let place = self.slots.partition_point(|(slots, _)| *slots.end() < slot);
        let (slots, node) = self.slots.get(place)?;
        slots.contains(&slot).then_some(node)
    }

    pub(in crate::wire) fn at(&self, address: &Address) -> Option<&Arc<Node>> {
        let is_it = |known: &Address| known.is_called(address);
        let place = self.nodes.iter().find(|(known, _)| known.as_ref().is_some_and(is_it))?;
        Some(&place.1)
    }

    /// The address as the servers were last named: with the name in its certificate, and its alias.
    fn known_as(&self, address: &Address) -> Address {
        let mut known = self.nodes.iter().filter_map(|(known, _)| known.as_ref());
        known.find(|known| known.is_called(address)).unwrap_or(address).clone()
    }

    /// The same map with one more node, which serves no slot yet.
    pub(in crate::wire) fn with(&self, address: &Address, node: &Arc<Node>) -> Self {
        let (slots, mut nodes) = (self.slots.clone(), self.nodes.clone());
        nodes.retain(|(known, _)| known.as_ref() != Some(address));
        nodes.push((Some(address.clone()), node.clone()));
        Self { slots, nodes }
    }

    pub(in crate::wire) fn address_of(&self, node: &Arc<Node>) -> Option<&Address> {
        self.nodes.iter().find(|(_, known)| Arc::ptr_eq(known, node))?.0.as_ref()
    }
}

/// Connects to all nodes of the map that are unknown or broken, at the same time. Slots of new
/// nodes that cannot be reached are left out.
pub(in crate::wire) async fn connect_all(
    map: &ServerMap,
    old: &Routes,
    deployment: &Deployment,
    settings: &ConnectionSettings,
) -> (Routes, Vec<Error>) {
    let mut addresses: Vec<_> = map.iter().map(|(_, address)| address).collect();
    addresses.sort();
    addresses.dedup();
    let connecting = addresses.into_iter().map(async |address| {
        let node = match old.at(address) {
            Some(node) if !node.is_broken() => Ok(node.clone()),
            _ => connect_one(deployment.endpoint(address), settings).await,
        };
        (address, node)
    });
    let mut routes = Routes::default();
    let mut errors = Vec::new();
    for (address, node) in join_all(connecting).await {
        match node {
            Ok(node) => routes.nodes.push((Some(address.clone()), node)),
            Err(error) => {
                tracing::warn!(host = address.host, port = address.port, %error, "cannot connect");
                errors.push(error.said_by(address));
                // It keeps the connections that still work.
                if let Some(node) = old.at(address) {
                    routes.nodes.push((Some(address.clone()), node.clone()));
                }
            }
        }
    }
    let served = map.iter().filter_map(|(slots, address)| {
        routes.at(address).map(|node| (slots.clone(), node.clone()))
    });
    routes.slots = served.collect();
    (routes, errors)
}

async fn connect_one(
    endpoint: Endpoint,
    settings: &ConnectionSettings,
) -> Result<Arc<Node>, Error> {
    timeout(settings.command_timeout, Node::connect(endpoint, settings.clone()))
        .await
        .unwrap_or_else(|_| Err(Error::timed_out()))
}

#[cfg(test)]
mod tests;
