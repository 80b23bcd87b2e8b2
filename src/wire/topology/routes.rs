//! [`Routes`]: one version of the map from slots to servers, and how the next one is connected.

use std::{ops::RangeInclusive, sync::Arc};

use futures::future::join_all;
use tokio::time::timeout;

use super::discover::ServerMap;
use crate::{
    error::{Error, RedisError},
    wire::{
        connection::ConnectionSettings,
        deployment::{Address, Deployment, Endpoint},
        node::Node,
    },
};

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

pub(in crate::wire) async fn connect_one(
    endpoint: Endpoint,
    settings: &ConnectionSettings,
) -> Result<Arc<Node>, Error> {
    timeout(settings.command_timeout, Node::connect(endpoint, settings.clone()))
        .await
        .unwrap_or_else(|_| Err(Error::Redis(RedisError::new("no answer in time"))))
}
