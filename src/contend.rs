//! The one wait loop: check, subscribe, check again, wait.

use std::{borrow::Cow, sync::Arc, time::Duration};

use tokio::time::{Instant, timeout_at};

use crate::{
    claim::{Claim, Verdict},
    engine::{Backoff, Lease},
    entry::Entry,
    error::Error,
    patience::{Patience, SpinBackoff},
    protocol::Line,
    queue::Queue,
    replicas::Replicas,
};

/// A waiter on a lock that its own client holds may have forgotten whose it is.
const WARN_OWN: Duration = Duration::from_secs(5);

/// A waiter that waits for so long, and each time twice as long, is worth a line in the log.
const WARN_LONG: Duration = Duration::from_secs(30);

/// What is asked for.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) lease: Duration,
    pub(crate) patience: Patience,
    /// The owner's write hold under which it wants to read.
    pub(crate) under: Option<Arc<Lease>>,
    /// How a lock is looked at again of which nobody tells.
    pub(crate) backoff: SpinBackoff,
    /// How many replicas have to confirm it.
    pub(crate) replicas: Replicas,
}

/// Takes the lock. `None`: it was held for all the time given.
pub(crate) async fn contend(entry: &Arc<Entry>, ask: Ask) -> Result<Option<Claim>, Error> {
    let Ask { lease, patience, under, backoff, replicas } = ask;
    let (engine, line) = (&entry.engine, entry.protocol.line());
    engine.check_open()?;
    let now_or_never = patience.is_now();
    // The others may be waiting for the very hold under which it wants to read.
    let at_once = now_or_never || under.is_some();
    let mut claim = Claim::new(entry, lease, !now_or_never, under, replicas);
    // Where the server keeps the line, nobody stands in ours.
    let (heartbeat, queue) = match line {
        Line::Servers { heartbeat } => (Some(heartbeat), &Queue::default()),
        Line::Ours | Line::Shared => (None, &entry.queue),
    };
    if at_once || queue.is_empty() {
        match claim.attempt(patience).await? {
            Verdict::Won => return Ok(Some(claim)),
            Verdict::Held(_) if now_or_never => return Ok(None),
            Verdict::Held(_) => {}
        }
    }
    let deadline = patience.deadline();
    let channel = entry.protocol.channel(claim.id()).map(Cow::into_owned);
    let mut pauses = Backoff::between(backoff.first, backoff.most);
    let mut worry = Worry::new();
    let mut turn = loop {
        let Some(entered) = within(deadline, queue.enter()).await else { return Ok(None) };
        match entered? {
            Some(turn) => break turn,
            None if claim.attempt(patience).await? == Verdict::Won => return Ok(Some(claim)),
            None => {}
        }
    };
    loop {
        if let Some(channel) = &channel
            && within(deadline, turn.listen(&engine.wakeups, channel)).await.is_none()
        {
            return Ok(None);
        }
        if turn.must_look() {
            turn.arm();
            let begun = Instant::now();
            match claim.attempt(patience).await {
                Ok(Verdict::Won) => {
                    match line {
                        Line::Shared => turn.open(),
                        _ if channel.is_some() => turn.held_for(Some(lease), heartbeat),
                        _ => turn.rest(backoff.first),
                    }
                    return Ok(Some(claim));
                }
                Ok(Verdict::Held(ttl)) if channel.is_some() => turn.held_for(ttl, heartbeat),
                Ok(Verdict::Held(_)) => turn.rest(pauses.next()),
                Err(error) => {
                    // Those behind are not as impatient, and have leases of their own.
                    let full_try = begun + engine.settings.retry_timeout;
                    let impatient = deadline.is_some_and(|deadline| deadline < full_try);
                    match error {
                        Error::NotHeld { .. } => {}
                        Error::Redis(_) if impatient => {}
                        _ => turn.fail(error.clone()),
                    }
                    return Err(error);
                }
            }
        }
        tokio::select! {
            waited = within(deadline, turn.news()) => if waited.is_none() { return Ok(None) },
            () = engine.closing() => return Err(Error::Closed),
        }
        worry.tell(entry);
    }
}

async fn within<T>(deadline: Option<Instant>, future: impl Future<Output = T>) -> Option<T> {
    match deadline {
        Some(deadline) => timeout_at(deadline, future).await.ok(),
        None => Some(future.await),
    }
}

/// Tells the log of waiters that wait suspiciously long.
struct Worry {
    begun: Instant,
    own_told: bool,
    next: Duration,
}

impl Worry {
    fn new() -> Self {
        Self { begun: Instant::now(), own_told: false, next: WARN_LONG }
    }

    fn tell(&mut self, entry: &Entry) {
        let waited = self.begun.elapsed();
        let lock = entry.name();
        if waited >= WARN_OWN && !self.own_told && entry.holds_here() > 0 {
            self.own_told = true;
            tracing::warn!(
                lock,
                ?waited,
                "waiting for a lock that this client holds: if this is a re-entry, pass its owner by .by(&mut owner)"
            );
        }
        if waited >= self.next {
            self.next *= 2;
            tracing::warn!(lock, ?waited, "still waiting for a lock");
        }
    }
}
