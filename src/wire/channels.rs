//! On which server a channel is subscribed.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use futures::future::join_all;

use super::{node::Node, pubsub};

/// Channels, by the servers they belong to.
#[derive(Default)]
pub(super) struct Places(Vec<(Arc<Node>, Vec<String>)>);

impl Places {
    pub(super) fn add(&mut self, node: Arc<Node>, channel: String) {
        match self.0.iter_mut().find(|(known, _)| Arc::ptr_eq(known, &node)) {
            Some((_, channels)) => channels.push(channel),
            None => self.0.push((node, vec![channel])),
        }
    }

    /// Ends the subscriptions. From a server that has gone there is nothing to be ended.
    async fn unsubscribe(self, sharded: bool) {
        join_all(self.into_iter().map(async |(node, channels)| {
            let _ = pubsub::unsubscribe(&node.subscriber, channels, sharded).await;
        }))
        .await;
    }
}

impl IntoIterator for Places {
    type Item = (Arc<Node>, Vec<String>);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// In a cluster, where each channel is subscribed: its slot may have moved since.
#[derive(Debug, Default)]
pub(super) struct Homes(Mutex<HashMap<String, Weak<Node>>>);

impl Homes {
    fn homes(&self) -> MutexGuard<'_, HashMap<String, Weak<Node>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Subscribed here, or perhaps so.
    pub(super) fn note(&self, channels: &[String], node: &Arc<Node>) {
        let home = Arc::downgrade(node);
        self.homes().extend(channels.iter().map(|channel| (channel.clone(), home.clone())));
    }

    pub(super) fn has(&self, channel: &str) -> bool {
        self.homes().contains_key(channel)
    }

    /// Ends subscriptions.
    pub(super) async fn leave(&self, channels: &[String], sharded: bool) {
        let mut places = Places::default();
        for channel in channels {
            let home = self.homes().remove(channel).and_then(|home| home.upgrade());
            if let Some(node) = home {
                places.add(node, channel.clone());
            }
        }
        places.unsubscribe(sharded).await;
    }

    /// Ends what is left of subscriptions on other servers than this one.
    pub(super) async fn leave_others(
        &self,
        channels: &[String],
        now_on: &Arc<Node>,
        sharded: bool,
    ) {
        let mut places = Places::default();
        for channel in channels {
            let home = self.homes().get(channel).and_then(Weak::upgrade);
            if let Some(node) = home.filter(|node| !Arc::ptr_eq(node, now_on)) {
                places.add(node, channel.clone());
            }
        }
        places.unsubscribe(sharded).await;
    }
}
