//! [`Subscriptions`]: the channels on which one client's waiters are told about releases.
//!
//! All users of a channel share one subscription, and are counted. After a gap in the messages
//! every waiter is woken and asks the server itself. No waiter relies on messages alone: see
//! [`ASK_AGAIN`](super::poll_intervals::ASK_AGAIN).

pub(super) mod task;
mod worker;

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{sync::mpsc, time::timeout};

use crate::{
    determinism::{DashMap, watch},
    warnings::Warnings,
    wire::Event,
};

/// How long a waiter waits for the confirmation of its subscription before it polls.
const CONFIRM_WITHIN: Duration = Duration::from_secs(1);

/// How many changes a task takes from its queue at once.
const MOST_AT_ONCE: usize = 10_000;

/// How often a quiet subscriber connection is asked for a sign of life.
const PROBE_INTERVAL: Duration = Duration::from_secs(5);

/// All channels with waiters.
#[derive(Debug)]
pub(crate) struct Subscriptions {
    channels: DashMap<String, Entry>,
    /// How many they are. Every release asks about a channel, and mostly there is none.
    known: AtomicUsize,
    /// Queues a channel for a check: it is to be subscribed or unsubscribed.
    touched: mpsc::UnboundedSender<String>,
    /// What is queued, until the task takes it.
    queue: Mutex<Option<mpsc::UnboundedReceiver<String>>>,
    gaps: watch::Sender<u64>,
    /// Channels that are, or may be, subscribed on a server, by the worker that knows it.
    subscribed: DashMap<String, WorkerId>,
    workers: AtomicU64,
    /// The last worker before the last gap. What those up to it have subscribed may be lost.
    outdated: AtomicU64,
    warnings: Warnings,
}

/// In the order in which they start.
type WorkerId = u64;

/// No worker knows the channel's state: the last one could not finish, or checked it before a gap.
const NOBODY: WorkerId = 0;

#[derive(Debug)]
struct Entry {
    users: usize,
    channel: Arc<Channel>,
}

#[derive(Debug)]
struct Channel {
    messages: watch::Sender<u64>,
    state: watch::Sender<State>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Pending,
    Confirmed,
    Refused,
}

impl Subscriptions {
    pub(crate) fn new() -> Arc<Self> {
        let (touched, queue) = mpsc::unbounded_channel();
        Arc::new(Self {
            channels: DashMap::default(),
            known: AtomicUsize::new(0),
            touched,
            queue: Mutex::new(Some(queue)),
            gaps: watch::Sender::new(0),
            subscribed: DashMap::default(),
            workers: AtomicU64::new(NOBODY),
            outdated: AtomicU64::new(NOBODY),
            warnings: Warnings::default(),
        })
    }

    /// Handles an event of the subscriber connection. Does not block.
    pub(crate) fn on_event(&self, event: Event) {
        match event {
            Event::Message(channel) => {
                if let Some(entry) = self.channels.get(&channel) {
                    entry.channel.messages.send_modify(|messages| *messages += 1);
                }
            }
            Event::Gap => {
                // First: a worker that confirms a channel looks at it while it changes the state.
                self.outdated.fetch_max(self.workers.load(Ordering::Relaxed), Ordering::Relaxed);
                for entry in &self.channels {
                    entry.channel.state.send_replace(State::Pending);
                    entry.channel.wake();
                }
                self.gaps.send_modify(|gaps| *gaps += 1);
            }
        }
    }

    /// Subscribes. Dropping the value ends the subscription.
    pub(crate) fn subscribe(self: &Arc<Self>, name: &str) -> Subscription {
        let mut entry = self.channels.entry(name.to_owned()).or_insert_with(|| Entry {
            users: 0,
            channel: Arc::new(Channel {
                messages: watch::Sender::new(0),
                state: watch::Sender::new(State::Pending),
            }),
        });
        entry.users += 1;
        if entry.users == 1 {
            self.known.fetch_add(1, Ordering::Relaxed);
            let _ = self.touched.send(name.to_owned());
        }
        Subscription {
            subscriptions: self.clone(),
            name: name.to_owned(),
            messages: entry.channel.messages.subscribe(),
            state: entry.channel.state.subscribe(),
        }
    }

    /// How many messages have come on a channel. `None`: the channel is not subscribed.
    pub(crate) fn count(&self, name: &str) -> Option<u64> {
        if self.known.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let entry = self.channels.get(name)?;
        let confirmed = *entry.channel.state.borrow() == State::Confirmed;
        confirmed.then(|| *entry.channel.messages.borrow())
    }

    /// Counts the gaps. After each gap, other servers may serve the keys.
    pub(crate) fn gaps(&self) -> watch::Receiver<u64> {
        self.gaps.subscribe()
    }

    #[cfg(test)]
    pub(crate) fn is_subscribed(&self, name: &str) -> bool {
        self.channels.contains_key(name)
    }

    /// What is queued for a check. `None`: it was taken before.
    fn take_queue(&self) -> Option<mpsc::UnboundedReceiver<String>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Queues channels for another check.
    fn check_again(&self, names: Vec<String>) {
        for name in names {
            let _ = self.touched.send(name);
        }
    }

    /// From now on no worker knows whether these channels are subscribed.
    fn doubt(&self, names: &[String]) {
        for name in names {
            self.subscribed.insert(name.clone(), NOBODY);
        }
    }

    /// The same for those of them that a worker has forgotten.
    fn doubt_forgotten(&self, names: &[String]) {
        for name in names {
            self.subscribed.entry(name.clone()).or_insert(NOBODY);
        }
    }

    /// These channels are not subscribed, unless a worker has subscribed them meanwhile.
    fn forget(&self, names: &[String]) {
        for name in names {
            self.subscribed.remove_if(name, |_, by| *by == NOBODY);
        }
    }

    /// Sets what a worker was told of these channels, unless there was a gap meanwhile.
    fn set(&self, names: &[String], state: State, by: WorkerId) {
        for name in names {
            if let Some(entry) = self.channels.get(name) {
                // In this order: a waiter that waits for the state then asks once, and not again
                // for the wake-up.
                entry.channel.wake();
                entry.channel.state.send_if_modified(|known| {
                    let holds = by > self.outdated.load(Ordering::Relaxed);
                    if holds {
                        *known = state;
                    }
                    holds
                });
            }
        }
    }
}

impl Channel {
    /// Wakes those who wait for a message, though none has come.
    fn wake(&self) {
        self.messages.send_modify(|_| {});
    }
}

/// One waiter's share in a channel.
#[derive(Debug)]
pub(crate) struct Subscription {
    subscriptions: Arc<Subscriptions>,
    name: String,
    messages: watch::Receiver<u64>,
    state: watch::Receiver<State>,
}

impl Subscription {
    /// Completes when the server has confirmed or refused the subscription, or takes too long. The
    /// waiter must then ask the server again.
    pub(crate) async fn ready(&mut self) {
        let settled = self.state.wait_for(|state| *state != State::Pending);
        let _ = timeout(CONFIRM_WITHIN, settled).await;
    }

    /// Whether messages can be relied on.
    pub(crate) fn is_confirmed(&self) -> bool {
        *self.state.borrow() == State::Confirmed
    }

    /// Forgets the messages that have come so far.
    pub(crate) fn arm(&mut self) {
        self.messages.mark_unchanged();
    }

    /// Whether a message has come since [`Subscription::arm`].
    pub(crate) fn is_woken(&self) -> bool {
        self.messages.has_changed().unwrap_or(true)
    }

    /// How many messages have come.
    pub(crate) fn count(&self) -> u64 {
        *self.messages.borrow()
    }

    /// Completes at the next message.
    pub(crate) async fn changed(&self) {
        let mut messages = self.messages.clone();
        messages.mark_unchanged();
        if messages.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Completes when a message comes or has come since [`Subscription::arm`]. The message stays:
    /// if this waiter is dropped, the next waiter gets it.
    pub(crate) async fn woken(&self) {
        let mut messages = self.messages.clone();
        if messages.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let last = self.subscriptions.channels.remove_if_mut(&self.name, |_, entry| {
            entry.users -= 1;
            entry.users == 0
        });
        if last.is_some() {
            self.subscriptions.known.fetch_sub(1, Ordering::Relaxed);
            let _ = self.subscriptions.touched.send(std::mem::take(&mut self.name));
        }
    }
}

#[cfg(test)]
mod tests;
