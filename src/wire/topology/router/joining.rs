//! How a server is connected to that serves no slot yet, because a slot moves to it.

use std::sync::{Arc, PoisonError, atomic::Ordering};

use tokio::time::{Instant, timeout_at};

use super::{Router, Server, connect_one};
use crate::wire::{
    connection::{ConnectionSettings, OnBreak},
    deployment::{Address, Deployment, Endpoint},
    node::Node,
    topology::slots::read_nodes,
};

impl Router {
    /// The server to which a slot is being moved. It may serve no slot yet. It is connected to when
    /// a call is redirected there, and again later, because no source reports its end before it
    /// serves a slot. `told_by`: who redirects there, and knows the nodes of the cluster.
    pub(in crate::wire) async fn joining(
        self: &Arc<Self>,
        at: &Address,
        told_by: Option<&Arc<Node>>,
        by: Instant,
    ) -> Option<Arc<Node>> {
        if let Some(known) = self.known_at(at) {
            return Some(known);
        }
        let (router, at, told_by) = (self.clone(), at.clone(), told_by.cloned());
        // In a task of its own: the caller may not be polled or be gone, and others wait for the end.
        let connecting = async move { router.connect_joining(&at, told_by, by).await };
        timeout_at(by, self.settings.runtime.spawn(connecting)).await.ok()?.ok()?
    }

    /// Begins before `by`. It may end later, for the next caller.
    async fn connect_joining(
        &self,
        at: &Address,
        told_by: Option<Arc<Node>>,
        by: Instant,
    ) -> Option<Arc<Node>> {
        let deployment = self.deployment.as_ref()?;
        let attempt = self.attempts.at(at);
        let _alone = timeout_at(by, attempt.lock()).await.ok()?;
        if let Some(known) = self.known_at(at) {
            return Some(known);
        }
        let known = self.members_at(at);
        if let Some(node) = self.connect_first(&known, deployment).await {
            return Some(node);
        }
        // It may have come to the cluster since that was last asked.
        let mut named = self.named_by(&told_by?, at, deployment).await;
        named.retain(|server| !known.contains(server));
        self.connect_first(&named, deployment).await
    }

    /// Connects to the first of these that can be reached.
    async fn connect_first(
        &self,
        servers: &[Server],
        deployment: &Deployment,
    ) -> Option<Arc<Node>> {
        let settings = ConnectionSettings { on_break: OnBreak::End, ..self.settings.clone() };
        for Server { address: at, id } in servers {
            let endpoint = Endpoint { node_id: id.clone(), ..deployment.endpoint(at) };
            match connect_one(endpoint, &settings).await {
                Ok(node) => return self.let_join(at, node),
                // Each call that is redirected there gets here.
                Err(error) => self.attempts.warnings.tell("cannot connect", &error.said_by(at)),
            }
        }
        None
    }

    /// The servers that this node names at an address, if it is still of the cluster: it knows another
    /// node of that, if there is one.
    async fn named_by(
        &self,
        node: &Arc<Node>,
        at: &Address,
        deployment: &Deployment,
    ) -> Vec<Server> {
        let routes = self.routes();
        let Some(asked) = routes.address_of(node) else { return Vec::new() };
        let Ok(nodes) = node.command("CLUSTER", &["NODES".into()], false).await else {
            return Vec::new();
        };
        let nodes = nodes.as_text().unwrap_or_default();
        let view = read_nodes(&nodes, asked, deployment.uses_tls);
        let mut named = view.map(|address| deployment.nat.reach(address)).nodes;
        let map = self.map();
        let mut others =
            map.nodes.iter().filter(|other| !node.may_be(other.id.as_ref())).peekable();
        let is_named = |other: &Server| named.iter().any(|named| named.id == other.id);
        if others.peek().is_some() && !others.any(is_named) {
            return Vec::new();
        }
        named.retain(|server| server.address.is_called(at));
        named
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
