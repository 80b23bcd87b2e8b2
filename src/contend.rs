//! The one wait loop: check, subscribe, check again, wait.

use std::{borrow::Cow, sync::Arc, time::Duration};

use tokio::time::{Instant, timeout_at};

use crate::{
    claim::{Claim, Verdict},
    engine::{Backoff, Lease},
    entry::Entry,
    error::Error,
    owner::OwnerKey,
    patience::{Patience, SpinBackoff},
    protocol::Line,
    queue::Queue,
    share::{Share, Terms},
};

/// A waiter on a lock that its own client holds may have forgotten whose it is.
const WARN_OWN: Duration = Duration::from_secs(5);

/// A waiter that waits for so long, and each time twice as long, is worth a line in the log.
const WARN_LONG: Duration = Duration::from_secs(30);

/// What is asked for.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) terms: Terms,
    pub(crate) owner: Option<OwnerKey>,
    pub(crate) patience: Patience,
    /// The owner's write hold under which it wants to read.
    pub(crate) under: Option<Arc<Lease>>,
    /// How a lock is looked at again of which nobody tells.
    pub(crate) backoff: SpinBackoff,
}

/// Takes the lock. `None`: it was held for all the time given.
pub(crate) async fn contend(entry: &Arc<Entry>, ask: Ask) -> Result<Option<Share>, Error> {
    let Ask { terms, owner, patience, under, backoff } = ask;
    let Terms { lease, watched, replicas } = terms;
    let (engine, line) = (&entry.engine, entry.protocol.line());
    engine.check_open()?;
    let now_or_never = patience.is_now();
    // The others may be waiting for the very hold under which it wants to read.
    let at_once = now_or_never || under.is_some();
    let mut claim = Claim::new(entry, lease, !now_or_never, under, replicas);
    let won = |claim: Claim| Ok(Some(claim.into_share(owner, watched)));
    // Where the server keeps the line, nobody stands in ours.
    let (heartbeat, queue) = match line {
        Line::Servers { heartbeat } => (Some(heartbeat), &Queue::default()),
        Line::Ours | Line::Shared => (None, &entry.queue),
    };
    if at_once || queue.is_open() {
        match claim.attempt(patience).await? {
            Verdict::Won => return won(claim),
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
            None if claim.attempt(patience).await? == Verdict::Won => return won(claim),
            None => {}
        }
    };
    if entry.passes_on {
        within(deadline, turn.linger()).await;
    }
    loop {
        if let Some(channel) = &channel
            && !turn.is_offered()
            && within(deadline, turn.listen(&engine.wakeups, channel)).await.is_none()
        {
            return Ok(None);
        }
        if let Some(baton) = turn.take() {
            // An owner's hold has a name of its own.
            let taken = if owner.is_none() { baton.take_over(&terms) } else { Err(baton) };
            match taken {
                Ok(share) => return Ok(Some(share)),
                Err(baton) => claim.take_over(baton),
            }
            if claim.attempt(patience).await? == Verdict::Won {
                turn.held_for(Some(lease), heartbeat);
                return won(claim);
            }
            turn.look();
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
                    return won(claim);
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
            why = engine.closing() => return Err(why),
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
