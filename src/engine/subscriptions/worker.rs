//! [`Worker`]: the task that subscribes and unsubscribes on one server.

use std::sync::{Arc, atomic::Ordering};

use tokio::{
    sync::mpsc,
    task::JoinHandle,
    time::{sleep, timeout},
};

use super::{MOST_AT_ONCE, PROBE_INTERVAL, State, Subscriptions, WorkerId};
use crate::{
    engine::backoff::Backoff,
    sometimes::sometimes,
    wire::{ServerId, Transport, WireError},
};

/// Keeps the subscriptions on one server. A server that hangs delays no other server's waiters.
pub(super) struct Worker {
    pub(super) queue: mpsc::UnboundedSender<String>,
    task: JoinHandle<()>,
}

impl Worker {
    pub(super) fn start(
        server: ServerId,
        subscriptions: Arc<Subscriptions>,
        transport: Arc<dyn Transport>,
    ) -> Self {
        let (queue, touched) = mpsc::unbounded_channel();
        let task = tokio::spawn(work(server, subscriptions, transport, touched));
        Self { queue, task }
    }
}

/// What it had begun is not continued. Another worker starts from what is needed then.
impl Drop for Worker {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn work(
    server: ServerId,
    subscriptions: Arc<Subscriptions>,
    transport: Arc<dyn Transport>,
    mut queue: mpsc::UnboundedReceiver<String>,
) {
    let me = subscriptions.workers.fetch_add(1, Ordering::Relaxed) + 1;
    let (warnings, mut backoff) = (&subscriptions.warnings, Backoff::new());
    loop {
        let mut touched = Vec::new();
        let quiet =
            timeout(PROBE_INTERVAL, queue.recv_many(&mut touched, MOST_AT_ONCE)).await.is_err();
        if quiet && let Err(error) = transport.probe(server).await {
            sometimes!("subscriptions: the probe fails");
            warnings.tell("the subscriber connection does not answer", &error);
        }
        match settle(&subscriptions, &transport, touched, me).await {
            Ok(()) => backoff = Backoff::new(),
            Err(error) => {
                warnings.tell("could not subscribe or unsubscribe, waiters poll meanwhile", &error);
                // One that is refused is not tried again, and must not delay the next ones.
                if matches!(error, WireError::Refused(_)) {
                    continue;
                }
                sleep(backoff.next()).await;
                // A connection that swallows everything is noticed only here while waiters wait.
                if matches!(error, WireError::Unanswered(_)) {
                    let _ = transport.probe(server).await;
                }
            }
        }
    }
}

/// Brings the server's subscriptions in line with the needs of the touched channels. Failed
/// channels go back into the queue.
async fn settle(
    subscriptions: &Subscriptions,
    transport: &Arc<dyn Transport>,
    mut touched: Vec<String>,
    me: WorkerId,
) -> Result<(), WireError> {
    touched.sort_unstable();
    touched.dedup();
    let (wanted, unwanted): (Vec<_>, Vec<_>) =
        touched.into_iter().partition(|name| subscriptions.channels.contains_key(name));
    let subscribed = &subscriptions.subscribed;
    let (known, new): (Vec<_>, Vec<_>) =
        wanted.into_iter().partition(|name| subscribed.get(name).is_some_and(|by| *by == me));
    subscriptions.set(&known, State::Confirmed, me);
    let stale = unwanted
        .into_iter()
        .filter(|name| subscribed.contains_key(name) || transport.may_be_subscribed(name))
        .collect();
    match unsubscribe_stale(subscriptions, transport, stale).await {
        Err(error @ WireError::Unanswered(_)) => {
            subscriptions.check_again(new);
            Err(error)
        }
        unsubscribed => subscribe_new(subscriptions, transport, new, me).await.and(unsubscribed),
    }
}

/// Fails if the server does not answer, or cannot do it now. The channels are then queued again.
async fn unsubscribe_stale(
    subscriptions: &Subscriptions,
    transport: &Arc<dyn Transport>,
    stale: Vec<String>,
) -> Result<(), WireError> {
    if stale.is_empty() {
        return Ok(());
    }
    // Until it is done, because it may be cut short.
    subscriptions.doubt(&stale);
    let changing = Changing { subscriptions, names: stale.clone() };
    match transport.unsubscribe(stale.clone()).await {
        Err(error @ (WireError::Unanswered(_) | WireError::NotNow(_))) => Err(error),
        _ => {
            subscriptions.forget(&stale);
            changing.done();
            Ok(())
        }
    }
}

/// Fails if the server does not answer, or refuses a channel.
async fn subscribe_new(
    subscriptions: &Subscriptions,
    transport: &Arc<dyn Transport>,
    new: Vec<String>,
    me: WorkerId,
) -> Result<(), WireError> {
    if new.is_empty() {
        return Ok(());
    }
    subscriptions.doubt(&new);
    // Also when it is done: they may be needed no more.
    let _changing = Changing { subscriptions, names: new.clone() };
    let (mut parts, mut refused) = (vec![new], Ok(()));
    while let Some(mut part) = parts.pop() {
        match transport.subscribe(part.clone()).await {
            Ok(()) => {
                subscriptions.set(&part, State::Confirmed, me);
                for name in part {
                    subscriptions.subscribed.insert(name, me);
                }
            }
            // The refusal of one channel must not affect the others.
            Err(WireError::Refused(_)) if part.len() > 1 => {
                parts.push(part.split_off(part.len() / 2));
                parts.push(part);
            }
            // It stays in doubt: a server may subscribe, and refuse what is asked afterwards to confirm it.
            Err(error @ WireError::Refused(_)) => {
                subscriptions.set(&part, State::Refused, me);
                refused = Err(error);
            }
            Err(error) => {
                subscriptions.check_again(part);
                parts.into_iter().for_each(|part| subscriptions.check_again(part));
                sometimes!("subscriptions: not subscribed yet");
                return Err(error);
            }
        }
    }
    refused
}

/// Channels that are being subscribed or unsubscribed. When that is cut short, those that nobody needs any more
/// are checked again. Another worker may have been told so meanwhile, while their slot moves or after a gap, and
/// have found nothing to end: a subscription that does not stand yet, or one that is being ended already.
struct Changing<'a> {
    subscriptions: &'a Subscriptions,
    names: Vec<String>,
}

impl Changing<'_> {
    /// It was not cut short.
    fn done(mut self) {
        self.names.clear();
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.names.retain(|name| !self.subscriptions.channels.contains_key(name));
        self.subscriptions.doubt_forgotten(&self.names);
        self.subscriptions.check_again(std::mem::take(&mut self.names));
    }
}

#[cfg(test)]
mod tests;
