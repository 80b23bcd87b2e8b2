//! The task that asks again which server serves which slots, after failovers and moved slots, and changes the routes.

use std::{
    sync::{Arc, PoisonError, Weak, atomic::Ordering},
    time::Duration,
};

use tokio::time::{Instant, sleep, timeout};

use super::{
    discover::{Discovery, ServerMap},
    router::Router,
    routes::connect_all,
};
use crate::wire::{Event, deployment::Deployment};

/// The servers are asked who serves what no more often than this.
const LEAST_PAUSE: Duration = Duration::from_millis(50);

/// How long they are asked again and again when there was reason to, and how often.
const ALERT: Duration = Duration::from_secs(10);
const ALERT_PAUSE: Duration = Duration::from_millis(200);

/// The task that keeps the routes true. Ends with the transport.
pub(in crate::wire) async fn refresh(router: Weak<Router>, mut discovery: Discovery) {
    let refresh_requested = match router.upgrade() {
        Some(router) => router.settings.refresh_requested.clone(),
        None => return,
    };
    let mut complete = true;
    // What gave rise to doubt may take a while to be seen by the servers, a failover above all.
    let mut alert_until = Instant::now();
    loop {
        let alert = !complete || Instant::now() < alert_until;
        let pause = if alert { ALERT_PAUSE } else { discovery.interval() };
        if timeout(pause, refresh_requested.notified()).await.is_ok() {
            alert_until = Instant::now() + ALERT;
        }
        sleep(LEAST_PAUSE).await;
        if router.upgrade().is_none_or(|router| router.closed.load(Ordering::Relaxed)) {
            return discovery.quit().await;
        }
        let mut map = match discovery.ask().await {
            Ok(map) => map,
            Err(error) => {
                tracing::warn!(%error, "nobody says who serves the locks");
                complete = false;
                continue;
            }
        };
        let Some(router) = router.upgrade() else { return };
        let deployment = discovery.deployment().clone();
        complete = loop {
            tokio::select! {
                biased;
                complete = router.adopt(&map, &deployment) => break complete,
                newer = other_than(&map, &mut discovery) => map = newer,
            }
        };
    }
}

/// Who is found while others are still being connected to, of whom nobody may be there.
async fn other_than(map: &ServerMap, discovery: &mut Discovery) -> ServerMap {
    loop {
        sleep(ALERT_PAUSE).await;
        match discovery.ask().await {
            Ok(newer) if newer != *map => return newer,
            _ => {}
        }
    }
}

impl Router {
    /// Takes over what the servers say. Says whether every slot has a server.
    async fn adopt(&self, map: &ServerMap, deployment: &Deployment) -> bool {
        let old = self.routes();
        let known = old.slots.iter().map(|(slots, node)| (slots, old.address_of(node)));
        let is_broken = old.nodes.iter().any(|(_, node)| node.is_broken());
        if !is_broken && known.eq(map.iter().map(|(slots, address)| (slots, Some(address)))) {
            return true;
        }
        let (new, errors) = connect_all(map, &old, deployment, &self.settings).await;
        if new.slots == old.slots {
            // Who is to be new cannot be reached yet.
            return errors.is_empty();
        }
        tracing::info!(servers = new.nodes.len(), "other servers serve the locks");
        let retired: Vec<_> = old
            .nodes
            .iter()
            .filter(|(_, node)| !new.nodes.iter().any(|(_, other)| Arc::ptr_eq(node, other)))
            .map(|(_, node)| node.clone())
            .collect();
        {
            let mut routes = self.routes.write().unwrap_or_else(PoisonError::into_inner);
            if self.closed.load(Ordering::Relaxed) {
                // Whoever closed has seen the old ones only.
                return true;
            }
            *routes = Arc::new(new);
        }
        (self.settings.sink)(Event::Gap);
        for node in retired {
            // Whoever waits for an answer from it is to try elsewhere, at once.
            self.settings.runtime.spawn(async move { node.quit().await });
        }
        errors.is_empty()
    }
}
