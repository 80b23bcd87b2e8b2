//! Keeps up with servers that change: failovers, moved slots.

use std::{
    sync::{Arc, PoisonError, Weak, atomic::Ordering},
    time::Duration,
};

use tokio::time::{Instant, sleep, timeout};

use super::{
    Event, FredConfig,
    discover::{Discovery, Map},
    routes::connect_all,
    transport::Shared,
};

/// The servers are asked who serves what no more often than this.
const LEAST_PAUSE: Duration = Duration::from_millis(50);

/// How long they are asked again and again when there was reason to, and how often.
const ALERT: Duration = Duration::from_secs(10);
const ALERT_PAUSE: Duration = Duration::from_millis(200);

/// The task that keeps the routes true. Ends with the transport.
pub(super) async fn follow(shared: Weak<Shared>, mut discovery: Discovery) {
    let doubt = match shared.upgrade() {
        Some(shared) => shared.terms.doubt.clone(),
        None => return,
    };
    let mut complete = true;
    // What gave rise to doubt may take a while to be seen by the servers, a failover above all.
    let mut alert_until = Instant::now();
    loop {
        let alert = !complete || Instant::now() < alert_until;
        let pause = if alert { ALERT_PAUSE } else { discovery.interval() };
        if timeout(pause, doubt.notified()).await.is_ok() {
            alert_until = Instant::now() + ALERT;
        }
        sleep(LEAST_PAUSE).await;
        if shared.upgrade().is_none_or(|shared| shared.closed.load(Ordering::Relaxed)) {
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
        let Some(shared) = shared.upgrade() else { return };
        let base = discovery.base().clone();
        complete = loop {
            tokio::select! {
                biased;
                complete = shared.take(&map, &base) => break complete,
                newer = other_than(&map, &mut discovery) => map = newer,
            }
        };
    }
}

/// Who is found while others are still being connected to, of whom nobody may be there.
async fn other_than(map: &Map, discovery: &mut Discovery) -> Map {
    loop {
        sleep(ALERT_PAUSE).await;
        match discovery.ask().await {
            Ok(newer) if newer != *map => return newer,
            _ => {}
        }
    }
}

impl Shared {
    /// Takes over what the servers say. Says whether every slot has a server.
    async fn take(&self, map: &Map, base: &FredConfig) -> bool {
        let old = self.routes();
        let known = old.slots.iter().map(|(slots, node)| (slots, old.address_of(node)));
        let is_broken = old.nodes.iter().any(|(_, node)| node.is_broken());
        if !is_broken && known.eq(map.iter().map(|(slots, address)| (slots, Some(address)))) {
            return true;
        }
        let (new, errors) = connect_all(map, &old, base, &self.terms).await;
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
        (self.terms.sink)(Event::Gap);
        for node in retired {
            // Whoever waits for an answer from it is to try elsewhere, at once.
            self.terms.runtime.spawn(async move { node.quit().await });
        }
        errors.is_empty()
    }
}
