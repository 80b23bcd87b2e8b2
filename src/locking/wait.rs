//! The one wait loop: check, subscribe, check again, wait.

use std::{borrow::Cow, sync::Arc, time::Duration};

use tokio::time::{Instant, timeout_at};

use crate::{
    engine::{Backoff, Lease},
    error::Error,
    locking::attempt::{Claim, Verdict},
    locking::line::{Minder, Queue, Turn},
    locking::patience::{Patience, SpinBackoff},
    locking::registry::Entry,
    locking::share::{Share, Terms},
    owner::OwnerKey,
    protocol::Line,
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
    let now_or_never = patience.is_now();
    // The others may be waiting for the very hold under which it wants to read.
    let at_once = now_or_never || under.is_some();
    // Where the server keeps the line, nobody stands in ours.
    let queue = match line {
        Line::Servers { .. } => &Queue::default(),
        Line::Ours | Line::Shared => &entry.queue,
    };
    let mut waiter = Waiter {
        entry,
        queue,
        terms,
        is_owner: owner.is_some(),
        patience,
        line,
        first_pause: backoff.first,
        pauses: Backoff::between(backoff.first, backoff.most),
        claim: Claim::new(entry, lease, !now_or_never, under, replicas),
        seen_held: false,
        worry: Worry::new(),
    };
    if at_once || queue.is_open() {
        match waiter.claim.attempt(patience, None).await? {
            Verdict::Won => return Ok(Some(waiter.claim.into_share(owner, watched))),
            Verdict::Held(_) if now_or_never => return Ok(None),
            Verdict::Held(_) => waiter.seen_held = true,
        }
    }
    let deadline = patience.deadline();
    let before = queue.answers.known().count;
    let mind = || engine.janitor.spawn(Minder::new(entry).run());
    loop {
        // Those before it would wait for what it does not know that it has. In the server's line it keeps its place.
        if !matches!(line, Line::Servers { .. }) {
            waiter.claim.part_with_unanswered();
        }
        let entered = queue.enter(replicas, || engine.check_open(), mind);
        let Some(entered) = within(deadline, entered).await else { break };
        let mut turn = entered?;
        let led = match &mut turn {
            Some(turn) => waiter.lead(turn).await?,
            None => waiter.try_beside_others().await?,
        };
        match led {
            Led::Won => return Ok(Some(waiter.claim.into_share(owner, watched))),
            Led::Took(share) => return Ok(Some(share)),
            Led::TimedOut => break,
            Led::Lost => {}
        }
    }
    let until = deadline.map_or_else(Instant::now, |end| end + engine.settings.command_timeout);
    let held = queue.is_held(waiter.seen_held, before, replicas, until).await?;
    match held || waiter.attempt().await? != Verdict::Won {
        true => Ok(None),
        false => Ok(Some(waiter.claim.into_share(owner, watched))),
    }
}

/// One who stands in line.
struct Waiter<'a> {
    entry: &'a Arc<Entry>,
    queue: &'a Queue,
    terms: Terms,
    /// Whether it is an owner: its hold has a name of its own.
    is_owner: bool,
    patience: Patience,
    line: Line,
    first_pause: Duration,
    pauses: Backoff,
    claim: Claim,
    /// Whether the server has told it that the lock is held.
    seen_held: bool,
    worry: Worry,
}

/// What has come of a turn.
enum Led {
    /// The claim has won.
    Won,
    /// A hold that was left here goes on as it is.
    Took(Share),
    TimedOut,
    /// The turn went to another.
    Lost,
}

impl Waiter<'_> {
    /// Contends at the head of the line.
    async fn lead(&mut self, turn: &mut Turn<'_>) -> Result<Led, Error> {
        let engine = &self.entry.engine;
        let deadline = self.patience.deadline();
        if self.entry.passes_on {
            within(deadline, turn.linger()).await;
        }
        while !turn.is_lost() {
            if !turn.is_offered()
                && !turn.listens()
                && let Some(channel) = self.channel()
                && within(deadline, turn.listen(&engine.wakeups, &channel)).await.is_none()
            {
                return Ok(Led::TimedOut);
            }
            if let Some(baton) = turn.take() {
                let taken = if self.is_owner { Err(baton) } else { baton.take_over(&self.terms) };
                match taken {
                    Ok(share) => return Ok(Led::Took(share)),
                    Err(baton) => self.claim.take_over(baton),
                }
                if turn.sign().of(self.attempt()).await? == Verdict::Won {
                    turn.held_for(Some(self.terms.lease), self.heartbeat());
                    return Ok(Led::Won);
                }
                turn.look();
            }
            if turn.must_look() && self.look(turn).await? {
                return Ok(Led::Won);
            }
            tokio::select! {
                waited = within(deadline, turn.news()) => {
                    if waited.is_none() {
                        return Ok(Led::TimedOut);
                    }
                }
                why = engine.closing() => return Err(why),
            }
            self.worry.tell(self.entry);
        }
        Ok(Led::Lost)
    }

    /// Asks the server for the lock, and notes what those behind are to know. Says whether it was granted.
    async fn look(&mut self, turn: &mut Turn<'_>) -> Result<bool, Error> {
        turn.arm();
        let begun = Instant::now();
        match turn.sign().of(self.attempt()).await {
            Ok(Verdict::Won) => {
                match self.line {
                    Line::Shared => turn.open(),
                    _ if self.channel().is_none() => turn.rest(self.first_pause),
                    _ => turn.held_for(Some(self.terms.lease), self.heartbeat()),
                }
                return Ok(true);
            }
            Ok(Verdict::Held(ttl)) if self.channel().is_some() => {
                turn.held_for(ttl, self.heartbeat());
            }
            Ok(Verdict::Held(_)) => turn.rest(self.pauses.next()),
            Err(error) => {
                // Those behind are not as impatient, and have leases of their own.
                let full_try = begun + self.entry.engine.settings.retry_timeout;
                let impatient = self.patience.deadline().is_some_and(|end| end < full_try);
                match error {
                    Error::NotHeld { .. } => {}
                    Error::Redis(_) if impatient => {}
                    _ => turn.fail(error.clone(), self.terms.replicas),
                }
                return Err(error);
            }
        }
        Ok(false)
    }

    /// Tries once, the line being open.
    async fn try_beside_others(&mut self) -> Result<Led, Error> {
        match self.attempt().await? {
            Verdict::Won => Ok(Led::Won),
            Verdict::Held(_) => Ok(Led::Lost),
        }
    }

    async fn attempt(&mut self) -> Result<Verdict, Error> {
        let verdict = self.claim.attempt(self.patience, Some(&self.queue.answers)).await?;
        self.seen_held |= verdict != Verdict::Won;
        Ok(verdict)
    }

    /// Where its wake-ups come, unless nobody wakes it.
    fn channel(&self) -> Option<Cow<'_, str>> {
        self.entry.protocol.channel(self.claim.id())
    }

    fn heartbeat(&self) -> Option<Duration> {
        match self.line {
            Line::Servers { heartbeat } => Some(heartbeat),
            Line::Ours | Line::Shared => None,
        }
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
