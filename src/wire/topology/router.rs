//! [`Router`]: finds the server that serves a key now. [`Routes`]: one version of the map from slots
//! to servers, and how the next one is connected.

use std::{
    collections::BTreeMap,
    ops::RangeInclusive,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, atomic::AtomicBool},
    time::Duration,
};

use futures::stream::{FuturesUnordered, StreamExt};
use tokio::time::{Instant, timeout, timeout_at};

use super::{
    attempts::Attempts,
    channels::SubscriptionMap,
    discover::ServerMap,
    slots::{Server, slot_of},
};
use crate::{
    error::Error,
    wire::{
        answers::Failure,
        connection::ConnectionSettings,
        deployment::{Address, Deployment, Endpoint},
        node::Node,
    },
};

mod joining;

/// How long the other servers may take at least after one has been connected to.
const LEAST_PATIENCE: Duration = Duration::from_millis(50);

/// How long it may take at least to connect to a server. That is some ten requests, one after another.
const LEAST_TO_CONNECT: Duration = Duration::from_secs(1);

/// The servers of one client at this moment, and what is subscribed where.
pub(in crate::wire) struct Router {
    pub(in crate::wire) settings: ConnectionSettings,
    /// How to connect to each server, if others are asked which servers there are.
    pub(in crate::wire) deployment: Option<Deployment>,
    pub(in crate::wire) routes: RwLock<Arc<Routes>>,
    /// The servers as they were last named. Those that cannot be reached are here, too.
    map: RwLock<ServerMap>,
    attempts: Attempts,
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
        deployment: Option<Deployment>,
        routes: Routes,
        map: ServerMap,
    ) -> Self {
        Self {
            settings,
            deployment,
            routes: RwLock::new(Arc::new(routes)),
            map: RwLock::new(map),
            attempts: Attempts::default(),
            subscriptions: SubscriptionMap::default(),
            closed: AtomicBool::new(false),
        }
    }

    pub(in crate::wire) fn routes(&self) -> Arc<Routes> {
        self.routes.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_map(&self, map: ServerMap) {
        *self.map.write().unwrap_or_else(PoisonError::into_inner) = map;
    }

    /// The node of the cluster at an address. Several, if one has come in the place of another.
    fn members_at(&self, address: &Address) -> Vec<Server> {
        self.map().nodes.iter().filter(|node| node.address.is_called(address)).cloned().collect()
    }

    fn map(&self) -> RwLockReadGuard<'_, ServerMap> {
        self.map.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The masters with slots that serve none in these routes. The routes are read before this is called: a
    /// map that is newer than they are names too many masters, never too few.
    #[cfg(feature = "_servers")]
    pub(in crate::wire) fn masters_without(&self, routes: &Routes) -> Vec<Address> {
        let map = self.map();
        let serves = |master: &Server| routes.slots.iter().any(|(_, node)| routes.is(node, master));
        let masters = map.slots.iter().map(|(_, master)| master);
        let missing = masters.filter(|master| !serves(master));
        let mut missing: Vec<_> = missing.map(|master| master.address.clone()).collect();
        missing.sort();
        missing.dedup();
        missing
    }

    /// The node to which a redirection to this address leads, if it is known.
    pub(in crate::wire) fn known_at(&self, address: &Address) -> Option<Arc<Node>> {
        let routes = self.routes();
        if let Some(known) = routes.all_at(address).find(|node| !node.is_broken()) {
            return Some(known.clone());
        }
        // It may be connected to at another of its addresses.
        let [server] = &self.members_at(address)[..] else { return None };
        routes.known(server, &self.map()).filter(|node| !node.is_broken()).cloned()
    }

    /// Whether keys are spread over servers by slots.
    pub(in crate::wire) fn is_cluster(&self) -> bool {
        self.deployment.as_ref().is_some_and(Deployment::is_cluster)
    }

    pub(in crate::wire) fn slot(&self, key: &[u8]) -> u16 {
        if self.is_cluster() { slot_of(key) } else { 0 }
    }

    pub(in crate::wire) fn node_of(&self, key: &[u8]) -> Option<Arc<Node>> {
        self.routes().of(self.slot(key)).cloned()
    }

    /// The server that serves the key. Without one, others are asked who it is.
    pub(in crate::wire) fn node_for(&self, key: &[u8]) -> Result<Arc<Node>, Failure> {
        self.node_of(key).ok_or_else(|| {
            self.settings.refresh_requested.notify_one();
            if self.is_cluster() {
                Failure::refused("CLUSTERDOWN no server is known that serves this key")
            } else {
                Failure::no_master("no master is connected to that sentinels still name")
            }
        })
    }
}

/// Which node serves which slots, in order.
#[derive(Clone, Debug, Default)]
pub(in crate::wire) struct Routes {
    pub(in crate::wire) slots: Vec<(RangeInclusive<u16>, Arc<Node>)>,
    /// All nodes, each once. The node that the configuration names has no address here.
    pub(in crate::wire) nodes: Vec<(Option<Address>, Arc<Node>)>,
    /// The epoch of the map from which they are.
    pub(in crate::wire) epoch: u64,
}

impl Routes {
    pub(in crate::wire) fn of(&self, slot: u16) -> Option<&Arc<Node>> {
        let place = self.slots.partition_point(|(slots, _)| *slots.end() < slot);
        let (slots, node) = self.slots.get(place)?;
        slots.contains(&slot).then_some(node)
    }

    /// Several, if one address has had several nodes.
    fn all_at(&self, address: &Address) -> impl Iterator<Item = &Arc<Node>> {
        let is_it = |known: &Address| known.is_called(address);
        let found = self.nodes.iter().filter(move |(known, _)| known.as_ref().is_some_and(is_it));
        found.map(|(_, node)| node)
    }

    /// The node that is this server. It stays where it answers, unless the map no longer names that address: nodes in
    /// several networks name each other by several addresses, and a node may have been put elsewhere.
    pub(in crate::wire) fn known(&self, server: &Server, map: &ServerMap) -> Option<&Arc<Node>> {
        let stays = self.connected_to(server, map).filter(|node| !node.is_down());
        stays.or_else(|| self.all_at(&server.address).find(|node| node.may_be(server.id.as_ref())))
    }

    /// The node that is connected to this server, at one of its addresses.
    fn connected_to(&self, server: &Server, map: &ServerMap) -> Option<&Arc<Node>> {
        let is_named = |at: &Address| {
            map.nodes.iter().any(|node| node.id == server.id && node.address.is_called(at))
        };
        let connected = self.nodes.iter().filter(|(_, node)| {
            node.is(server.id.as_ref()) && node.is_connected() && !node.is_broken()
        });
        connected.filter(|(at, _)| at.as_ref().is_some_and(is_named)).map(|(_, node)| node).next()
    }

    /// Whether a node of these routes is this server.
    #[cfg(feature = "_servers")]
    fn is(&self, node: &Arc<Node>, server: &Server) -> bool {
        let is_at = self.address_of(node).is_some_and(|at| at.is_called(&server.address));
        node.is(server.id.as_ref()) || is_at && node.may_be(server.id.as_ref())
    }

    /// The same map with one more node, which serves no slot yet.
    pub(in crate::wire) fn with(&self, address: &Address, node: &Arc<Node>) -> Self {
        let mut routes = self.clone();
        routes.nodes.retain(|(known, _)| known.as_ref() != Some(address));
        routes.nodes.push((Some(address.clone()), node.clone()));
        routes
    }

    pub(in crate::wire) fn address_of(&self, node: &Arc<Node>) -> Option<&Address> {
        self.nodes.iter().find(|(_, known)| Arc::ptr_eq(known, node))?.0.as_ref()
    }
}

/// How long the slowest servers are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::wire) enum Patience {
    /// As long as a command.
    Full,
    /// As long as a command for a server whose slots are served now. The rest are waited for as long again
    /// as these took; then the map is used without them.
    Short,
}

/// Connects to all nodes of the map that are unknown or broken, at the same time. Slots of new
/// nodes that cannot be reached are left out.
pub(in crate::wire) async fn connect_all(
    map: &ServerMap,
    old: &Routes,
    deployment: &Deployment,
    settings: &ConnectionSettings,
    patience: Patience,
) -> (Routes, Vec<Error>) {
    let began = Instant::now();
    let known = |master: &Server| old.known(master, map).cloned();
    let mut pending: Vec<_> = map.slots.iter().map(|(_, master)| master).collect();
    pending.sort();
    pending.dedup();
    let mut connecting: FuturesUnordered<_> = (pending.iter().copied())
        .map(async |master| {
            if let Some(node) = known(master).filter(|node| !node.is_broken()) {
                return (master, Ok(node), false);
            }
            let node_id = master.id.clone();
            let endpoint = Endpoint { node_id, ..deployment.endpoint(&master.address) };
            (master, connect_one(endpoint, settings).await, true)
        })
        .collect();
    // Leaving out such a server would refuse calls that are answered now.
    let is_served = |master: &Server| {
        let slots = map.slots.iter().filter(|(_, other)| other == master);
        slots.flat_map(|(slots, _)| old.of(*slots.start())).any(|node| node.is_connected())
    };
    let mut needed = match patience {
        Patience::Full => pending.clone(),
        Patience::Short => pending.iter().copied().filter(|master| is_served(master)).collect(),
    };
    let mut connected = BTreeMap::new();
    let mut errors = Vec::new();
    let (mut some_new, mut until) = (false, None);
    loop {
        let next = connecting.next();
        let next = match until {
            Some(until) => timeout_at(until, next).await.ok().flatten(),
            None => next.await,
        };
        let Some((master, node, is_new)) = next else { break };
        pending.retain(|other| *other != master);
        needed.retain(|other| *other != master);
        match node {
            Ok(node) => {
                connected.insert(master, node);
                some_new |= is_new;
            }
            Err(error) => errors.push((master, error)),
        }
        if some_new && needed.is_empty() {
            until = Some(Instant::now() + began.elapsed().max(LEAST_PATIENCE));
        }
    }
    errors.extend(pending.into_iter().map(|master| (master, Error::timed_out())));
    let mut routes = Routes { epoch: map.epoch, ..Routes::default() };
    for (master, _) in &errors {
        // It keeps the connections that still work.
        if let Some(node) = old.connected_to(master, map).cloned().or_else(|| known(master)) {
            connected.insert(master, node);
        }
    }
    let served = map.slots.iter().filter_map(|(slots, master)| {
        connected.get(master).map(|node| (slots.clone(), node.clone()))
    });
    routes.slots = served.collect();
    let nodes = connected.into_iter().map(|(master, node)| {
        let before = old.address_of(&node).filter(|before| **before != master.address);
        (Some(before.unwrap_or(&master.address).clone()), node)
    });
    routes.nodes = nodes.collect();
    let errors = errors.into_iter().map(|(master, error)| error.said_by(&master.address));
    (routes, errors.collect())
}

async fn connect_one(
    endpoint: Endpoint,
    settings: &ConnectionSettings,
) -> Result<Arc<Node>, Error> {
    let within = settings.command_timeout.max(LEAST_TO_CONNECT);
    timeout(within, Node::connect(endpoint, settings.clone()))
        .await
        .unwrap_or_else(|_| Err(Error::timed_out()))
}

#[cfg(test)]
mod tests;
