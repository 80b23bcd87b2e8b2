//! Channels, and who listens to them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::glob;

/// A connection that listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subscriber(u64);

/// What a connection listens to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Channel {
    /// By SUBSCRIBE.
    Plain(Vec<u8>),
    /// By SSUBSCRIBE.
    Sharded(Vec<u8>),
    /// By PSUBSCRIBE: all plain channels whose names match.
    Pattern(Vec<u8>),
}

/// What a connection has heard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Where it was published.
    pub channel: Vec<u8>,
    /// What was said.
    pub text: Vec<u8>,
    /// Because of which of its subscriptions it was delivered.
    pub to: Channel,
}

#[derive(Debug, Default)]
pub(crate) struct Pubsub {
    opened: u64,
    listeners: BTreeMap<Subscriber, Listener>,
}

#[derive(Debug, Default)]
struct Listener {
    channels: BTreeSet<Channel>,
    heard: VecDeque<Message>,
}

impl Pubsub {
    pub(crate) fn open(&mut self) -> Subscriber {
        self.opened += 1;
        let subscriber = Subscriber(self.opened);
        self.listeners.insert(subscriber, Listener::default());
        subscriber
    }

    pub(crate) fn close(&mut self, subscriber: Subscriber) {
        self.listeners.remove(&subscriber);
    }

    pub(crate) fn close_all(&mut self) {
        self.listeners.clear();
    }

    /// Whether the connection is still there.
    pub(crate) fn subscribe(&mut self, subscriber: Subscriber, channel: Channel) -> bool {
        let listener = self.listeners.get_mut(&subscriber);
        listener.map(|listener| listener.channels.insert(channel)).is_some()
    }

    pub(crate) fn unsubscribe(&mut self, subscriber: Subscriber, channel: &Channel) -> bool {
        let listener = self.listeners.get_mut(&subscriber);
        listener.map(|listener| listener.channels.remove(channel)).is_some()
    }

    pub(crate) fn take(&mut self, subscriber: Subscriber) -> Vec<Message> {
        let listener = self.listeners.get_mut(&subscriber);
        listener.map(|listener| listener.heard.drain(..).collect()).unwrap_or_default()
    }

    /// Those who have heard something that was not taken yet.
    pub(crate) fn with_messages(&self) -> Vec<Subscriber> {
        let some = self.listeners.iter().filter(|(_, listener)| !listener.heard.is_empty());
        some.map(|(subscriber, _)| *subscriber).collect()
    }

    /// To how many subscriptions it was delivered.
    pub(crate) fn publish(&mut self, channel: &[u8], text: &[u8]) -> usize {
        let to_channel = self.deliver(channel, text, |to| *to == Channel::Plain(channel.to_vec()));
        let to_patterns = self.deliver(
            channel,
            text,
            |to| matches!(to, Channel::Pattern(pattern) if glob::matches(pattern, channel)),
        );
        to_channel + to_patterns
    }

    pub(crate) fn publish_sharded(&mut self, channel: &[u8], text: &[u8]) -> usize {
        self.deliver(channel, text, |to| *to == Channel::Sharded(channel.to_vec()))
    }

    fn deliver(&mut self, channel: &[u8], text: &[u8], whom: impl Fn(&Channel) -> bool) -> usize {
        let mut delivered = 0;
        for listener in self.listeners.values_mut() {
            for to in listener.channels.iter().filter(|to| whom(to)) {
                let (channel, text) = (channel.to_vec(), text.to_vec());
                listener.heard.push_back(Message { channel, text, to: to.clone() });
                delivered += 1;
            }
        }
        delivered
    }

    /// How many connections listen to exactly this.
    pub(crate) fn count(&self, channel: &Channel) -> usize {
        self.listeners.values().filter(|listener| listener.channels.contains(channel)).count()
    }

    /// All that somebody listens to.
    pub(crate) fn channels(&self) -> BTreeSet<&Channel> {
        self.listeners.values().flat_map(|listener| &listener.channels).collect()
    }
}
