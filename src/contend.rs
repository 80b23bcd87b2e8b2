//! The one wait loop: check, subscribe, check again, wait.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, timeout_at};

use crate::{
    claim::{Claim, Verdict},
    entry::Entry,
    error::Error,
    patience::Patience,
};

/// A waiter on a lock that its own client holds may have forgotten whose it is.
const WARN_OWN: Duration = Duration::from_secs(5);

/// A waiter that waits for so long, and each time twice as long, is worth a line in the log.
const WARN_LONG: Duration = Duration::from_secs(30);

/// Takes the lock. `None`: it was held for all the time given.
pub(crate) async fn contend(
    entry: &Arc<Entry>,
    lease: Duration,
    patience: Patience,
) -> Result<Option<Claim>, Error> {
    let engine = &entry.engine;
    engine.check_open()?;
    let mut claim = Claim::new(entry, lease);
    if matches!(patience, Patience::Now) || entry.queue.is_empty() {
        match claim.attempt(patience).await? {
            Verdict::Won => return Ok(Some(claim)),
            Verdict::Held(_) if matches!(patience, Patience::Now) => return Ok(None),
            Verdict::Held(_) => {}
        }
    }
    let deadline = patience.deadline();
    let mut worry = Worry::new();
    let Some(turn) = within(deadline, entry.queue.enter()).await else { return Ok(None) };
    let mut turn = turn?;
    loop {
        if within(deadline, turn.listen(&engine.wakeups, entry.protocol.channel())).await.is_none()
        {
            return Ok(None);
        }
        if turn.must_look() {
            turn.arm();
            let begun = Instant::now();
            match claim.attempt(patience).await {
                Ok(Verdict::Won) => {
                    turn.held_for(Some(lease));
                    return Ok(Some(claim));
                }
                Ok(Verdict::Held(ttl)) => turn.held_for(ttl),
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
