//! [`SubscriptionMap`]: the server of a cluster on which each channel is subscribed.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use futures::future::join_all;

use crate::wire::node::Node;

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

/// Where each channel of a cluster is subscribed. Its slot may have moved since.
#[derive(Debug, Default)]
pub(in crate::wire) struct SubscriptionMap(Mutex<HashMap<String, Weak<Node>>>);

impl SubscriptionMap {
    fn nodes(&self) -> MutexGuard<'_, HashMap<String, Weak<Node>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the channels are, or may be, subscribed on this server.
    pub(in crate::wire) fn record(&self, channels: &[String], node: &Arc<Node>) {
        let node = Arc::downgrade(node);
        self.nodes().extend(channels.iter().map(|channel| (channel.clone(), node.clone())));
    }

    pub(in crate::wire) fn has(&self, channel: &str) -> bool {
        self.nodes().contains_key(channel)
    }

    /// Ends subscriptions.
    pub(in crate::wire) async fn unsubscribe(&self, channels: &[String], sharded: bool) {
        let subscribed = channels.iter().filter_map(|channel| {
            let node = self.nodes().remove(channel)?.upgrade()?;
            Some((node, channel.clone()))
        });
        unsubscribe(group_by_node(subscribed), sharded).await;
    }

    /// Ends subscriptions that remain on servers other than this one.
    pub(in crate::wire) async fn unsubscribe_elsewhere(
        &self,
        channels: &[String],
        now_on: &Arc<Node>,
        sharded: bool,
    ) {
        let elsewhere = channels.iter().filter_map(|channel| {
            let node = self.nodes().get(channel)?.upgrade()?;
            (!Arc::ptr_eq(&node, now_on)).then(|| (node, channel.clone()))
        });
        unsubscribe(group_by_node(elsewhere), sharded).await;
    }
}

/// Ends the subscriptions. A server that is gone has none.
async fn unsubscribe(groups: Vec<(Arc<Node>, Vec<String>)>, sharded: bool) {
    join_all(groups.into_iter().map(async |(node, channels)| {
        let _ = node.unsubscribe(channels, sharded).await;
    }))
    .await;
}
