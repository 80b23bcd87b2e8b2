//! [`SubscriptionMap`]: the server of a cluster on which each channel is subscribed.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use futures::future::join_all;

use crate::wire::{error::WireError, node::Node};

/// Groups channels by their servers.
pub(in crate::wire) fn group_by_node(
    channels: impl IntoIterator<Item = (Arc<Node>, String)>,
) -> Vec<(Arc<Node>, Vec<String>)> {
    let mut groups: Vec<(Arc<Node>, Vec<String>)> = Vec::new();
    for (node, channel) in channels {
        match groups.iter_mut().find(|(known, _)| Arc::ptr_eq(known, &node)) {
            Some((_, channels)) => channels.push(channel),
            None => groups.push((node, vec![channel])),
        }
    }
    groups
}

/// Where each channel of a cluster is, or may be, subscribed. Its slot may have moved since.
#[derive(Debug, Default)]
pub(in crate::wire) struct SubscriptionMap(Mutex<HashMap<String, Vec<Weak<Node>>>>);

impl SubscriptionMap {
    fn nodes(&self) -> MutexGuard<'_, HashMap<String, Vec<Weak<Node>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the channels are, or may be, subscribed on this server.
    fn record(&self, channels: &[String], node: &Arc<Node>) {
        let mut map = self.nodes();
        for channel in channels {
            let nodes = map.entry(channel.clone()).or_default();
            if !nodes.iter().any(|known| std::ptr::eq(known.as_ptr(), Arc::as_ptr(node))) {
                nodes.push(Arc::downgrade(node));
            }
        }
    }

    /// Subscribes on this server. From now on it is known that the channels may be subscribed there, also
    /// when this is cut short.
    pub(in crate::wire) async fn subscribe(
        &self,
        channels: Vec<String>,
        node: &Arc<Node>,
        sharded: bool,
    ) -> Result<(), WireError> {
        self.record(&channels, node);
        // Once more at the end: another task may end them before the server is asked for them.
        let (node, again) = (node.clone(), channels.clone());
        let changing = Changing { map: self, node, channels: again };
        changing.node.subscribe(channels, sharded).await
    }

    pub(in crate::wire) fn has(&self, channel: &str) -> bool {
        self.nodes().contains_key(channel)
    }

    /// Ends subscriptions. Those that a server did not end are still known.
    pub(in crate::wire) async fn unsubscribe(
        &self,
        channels: &[String],
        sharded: bool,
    ) -> Result<(), WireError> {
        self.unsubscribe_where(channels, sharded, |_| true).await
    }

    /// Ends subscriptions that remain on servers other than this one. Those that a server did not end
    /// are still known.
    pub(in crate::wire) async fn unsubscribe_elsewhere(
        &self,
        channels: &[String],
        now_on: &Arc<Node>,
        sharded: bool,
    ) -> Result<(), WireError> {
        self.unsubscribe_where(channels, sharded, |node| !Arc::ptr_eq(node, now_on)).await
    }

    async fn unsubscribe_where(
        &self,
        channels: &[String],
        sharded: bool,
        meant: impl Fn(&Arc<Node>) -> bool,
    ) -> Result<(), WireError> {
        let taken = channels.iter().flat_map(|channel| {
            let nodes = self.take(channel, &meant).into_iter();
            nodes.map(|node| (node, channel.clone()))
        });
        let groups = group_by_node(taken).into_iter();
        // Made before the first of them is polled.
        let endings: Vec<_> =
            groups.map(|(node, channels)| Changing { map: self, node, channels }).collect();
        let ended = join_all(endings.into_iter().map(|ending| ending.end(sharded))).await;
        ended.into_iter().collect()
    }

    /// Takes the servers that are meant, and forgets those that are gone: they have no subscriptions.
    fn take(&self, channel: &str, meant: impl Fn(&Arc<Node>) -> bool) -> Vec<Arc<Node>> {
        let mut map = self.nodes();
        let Some(nodes) = map.get_mut(channel) else { return Vec::new() };
        let known = nodes.drain(..).filter_map(|node| node.upgrade());
        let (taken, rest): (Vec<_>, Vec<_>) = known.partition(meant);
        nodes.extend(rest.iter().map(Arc::downgrade));
        if nodes.is_empty() {
            map.remove(channel);
        }
        taken
    }
}

/// Subscriptions on one server that are being made or ended. Those that may stand go into the map afterwards,
/// also when the future is dropped.
struct Changing<'a> {
    map: &'a SubscriptionMap,
    node: Arc<Node>,
    channels: Vec<String>,
}

impl Changing<'_> {
    async fn end(mut self, sharded: bool) -> Result<(), WireError> {
        let mut ended = self.node.unsubscribe(self.channels.clone(), sharded).await;
        if matches!(ended, Err(WireError::Unanswered(_))) {
            // Nobody else looks after a server that serves no more of these slots.
            let _ = self.node.probe().await;
            if !self.node.has_subscriber() {
                ended = Ok(());
            }
        }
        // What was refused for good is not repeated.
        if matches!(ended, Ok(()) | Err(WireError::Refused(_))) {
            self.channels.clear();
        }
        ended
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.map.record(&self.channels, &self.node);
    }
}
