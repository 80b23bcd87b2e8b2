//! [`Router`]: finds the server that serves a key now.

use std::sync::{
    Arc, PoisonError, RwLock,
    atomic::{AtomicBool, Ordering},
};

use tokio::{
    sync::Mutex,
    time::{Instant, timeout_at},
};

use super::{
    channels::SubscriptionMap,
    routes::{Routes, connect_one},
    slots::slot_of,
};
use crate::{
    error::RedisError,
    wire::{
        connection::{ConnectionSettings, OnBreak},
        deployment::{Address, Deployment},
        error::WireError,
        node::Node,
    },
};

/// The servers of one client at this moment, and what is subscribed where.
pub(in crate::wire) struct Router {
    pub(in crate::wire) settings: ConnectionSettings,
    pub(in crate::wire) is_cluster: bool,
    /// How to connect to each server, if others are asked which servers there are.
    pub(in crate::wire) deployment: Option<Deployment>,
    pub(in crate::wire) sharded: bool,
    pub(in crate::wire) routes: RwLock<Arc<Routes>>,
    /// Locked while a server that serves no slot yet is being connected to.
    joining: Mutex<()>,
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
            joining: Mutex::default(),
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
            WireError::NotNow(RedisError::new("no server is known that serves this key"))
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
        let _one = self.joining.lock().await;
        if let Some(known) = self.joined(at) {
            return Some(known);
        }
        let settings = ConnectionSettings { on_break: OnBreak::End, ..self.settings.clone() };
        match connect_one(deployment.endpoint(at), &settings).await {
            Ok(node) => self.let_join(at, node),
            Err(error) => {
                tracing::warn!(host = at.host, port = at.port, %error, "cannot connect");
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
