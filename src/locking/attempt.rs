//! One try for a hold, from its first copy on the wire to its end.
//!
//! ```text
//! nothing --send--> in flight --won--> won --into_share--> (a hold)
//!                      |  `--held by another--> nothing (of a fair lock: a place in line)
//!                      `--no answer--> unknown (a copy may yet take the lock)
//! ```
//!
//! Dropped in any of these states, a claim undoes what it did and what it may yet do: what is in
//! flight is awaited first, for a release that overtook it would leave the lock held.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, timeout_at};

use crate::{
    engine::{Backoff, Busy, Lease, trust},
    error::{Error, Loss},
    locking::hold::{Grant, Hold, sweep, take_back},
    locking::line::answers::Answers,
    locking::patience::Patience,
    locking::registry::Entry,
    locking::share::Share,
    owner::{OwnerId, OwnerKey},
    protocol::{Attempt, Terms, Wish},
    replicas::{Acknowledged, Replicas},
    wire::{Flight, Reply, WireError},
};

#[derive(Debug)]
pub(crate) struct Claim {
    entry: Arc<Entry>,
    id: OwnerId,
    lease: Duration,
    wish: Wish,
    /// The owner's write hold under which it wants to read.
    under: Option<Arc<Lease>>,
    /// How many replicas have to confirm it.
    replicas: Replicas,
    /// Whether it may stand in the server's line.
    stands: bool,
    state: State,
    /// What it is to take over.
    source: Option<Share>,
    /// The server that was asked for that last.
    place: Option<u64>,
    /// Whether it has done so, and if so, whether that was the current hold here.
    swapped: Option<bool>,
    /// The latest not-after of the copies that were never answered: until then one of them may
    /// still take the lock.
    unanswered: Option<u64>,
    // The last field: what is to be undone is handed over before it is dropped.
    _busy: Busy,
}

enum State {
    Nothing,
    InFlight(Copy),
    Won(Win),
}

/// What the winning copy got.
#[derive(Clone, Copy)]
struct Win {
    sent: Instant,
    token: Option<u64>,
    acknowledged: Option<Acknowledged>,
}

/// One copy of the request under way.
struct Copy {
    reply: Flight,
    not_after: u64,
    /// Whether the claim may have stood in the server's line before it.
    stood: bool,
}

/// What the server said to an attempt.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Won,
    /// Another holds the lock, for so long if known.
    Held(Option<Duration>),
}

impl Claim {
    /// A claim for a new outermost hold, under an id of its own.
    pub(crate) fn new(
        entry: &Arc<Entry>,
        lease: Duration,
        stand: bool,
        under: Option<Arc<Lease>>,
        replicas: Replicas,
    ) -> Self {
        let wish = Wish { stand, under: under.as_ref().map(|hold| hold.renew.id.clone()) };
        Self {
            entry: entry.clone(),
            id: entry.protocol.id(&entry.engine.identity),
            lease,
            wish,
            under,
            replicas,
            stands: false,
            state: State::Nothing,
            source: None,
            place: None,
            swapped: None,
            unanswered: None,
            _busy: entry.engine.janitor.busy(),
        }
    }

    pub(crate) fn id(&self) -> &OwnerId {
        &self.id
    }

    /// For one who is not going to ask for a while: a copy that may yet take the lock is undone in the
    /// background, and the claim goes on under another id.
    pub(crate) fn part_with_unanswered(&mut self) {
        if self.unanswered.is_some() {
            let Self { entry, lease, wish, under, replicas, .. } = &*self;
            *self = Self::new(entry, *lease, wish.stand, under.clone(), *replicas);
        }
    }

    /// The next attempt takes over this hold. It is not renewed meanwhile: this claim may not be polled.
    pub(crate) fn take_over(&mut self, mut source: Share) {
        source.unwatch();
        self.entry.queue.passing.swapping();
        self.source = Some(source);
    }

    /// Asks for the lock; again and again, while there is no answer, as long as `patience` allows. A `line`
    /// for which it asks hears of each answer.
    pub(crate) async fn attempt(
        &mut self,
        patience: Patience,
        line: Option<&Answers>,
    ) -> Result<Verdict, Error> {
        let entry = self.entry.clone();
        let mut backoff = Backoff::new();
        let begun = Instant::now();
        let mut sent = begun;
        loop {
            entry.engine.check_open()?;
            let give_up = patience.give_up(begun, &entry.engine.settings);
            let open = line.map(Answers::ask);
            let answer = match sent == begun {
                true => self.send(sent).await,
                // The first copy has had its time, and this one has what is left.
                false => timeout_at(give_up, self.send(sent))
                    .await
                    .unwrap_or_else(|_| Err(WireError::unanswered("no answer in time"))),
            };
            if let Some(open) = open {
                open.answered(answer.as_ref().err(), entry.name(), self.replicas);
            }
            let error = match answer {
                Ok(Attempt::Won { .. }) => return self.judge(),
                Ok(Attempt::Held(ttl)) => {
                    return Ok(Verdict::Held(ttl.map(Duration::from_millis)));
                }
                Ok(Attempt::Late(now)) => {
                    entry.observe(now);
                    WireError::unanswered("the answers come too late")
                }
                Err(error) => error,
            };
            entry
                .engine
                .may_retry(error, &mut backoff, give_up)
                .await
                .map_err(|error| error.into_error(entry.name()))?;
            sent = Instant::now();
        }
    }

    /// Sends one copy, now. Dropped meanwhile, the copy stays with the claim.
    async fn send(&mut self, sent: Instant) -> Result<Attempt, WireError> {
        let engine = &self.entry.engine;
        let not_after = self.entry.not_after(sent);
        let terms = Terms { lease: self.lease.as_millis() as u64, not_after };
        if let Some(under) = &self.under {
            under.asked(sent, self.lease);
        }
        let call = match &self.source {
            Some(source) => {
                self.place = engine.serves(&*self.entry.protocol);
                self.entry.protocol.pass(source.hold().id(), &self.id, terms)
            }
            None => self.entry.protocol.acquire(&self.id, terms, &self.wish),
        };
        // Answered by a number of ms, it is another's.
        let is_due = |reply: &Reply| !matches!(reply, Reply::Int(_));
        let reply = engine.call(call, self.replicas, is_due);
        let stood = self.stands;
        self.stands |= self.wish.stand;
        self.state = State::InFlight(Copy { reply, not_after, stood });
        let State::InFlight(copy) = &mut self.state else { unreachable!("just set") };
        let mut acknowledged = None;
        let answer = (&mut copy.reply).await.and_then(|reply| {
            let (reply, by) = reply.split();
            acknowledged = by;
            self.entry.protocol.acquired(reply)
        });
        self.state = match answer {
            // A script that is refused may have been refused in its middle: to be undone as well.
            Ok(Attempt::Won { token }) => State::Won(Win { sent, token, acknowledged }),
            Err(ref error @ WireError::Refused(_)) if !error.did_nothing() => {
                State::Won(Win { sent, token: None, acknowledged })
            }
            _ => State::Nothing,
        };
        self.stands = match &answer {
            Ok(Attempt::Won { .. }) => false,
            Err(error) if error.did_nothing() => stood,
            _ => self.stands,
        };
        match answer {
            Ok(Attempt::Won { .. }) => {
                if let Some(source) = self.source.take() {
                    self.swapped = Some(source.replaced(self.place));
                }
            }
            Ok(Attempt::Held(_)) => {
                if let Some(source) = self.source.take() {
                    source.gone(self.place);
                }
                self.entry.queue.passing.lost();
            }
            Ok(Attempt::Late(_)) | Err(_) => {}
        }
        if answer.as_ref().is_err_and(WireError::is_unclear) {
            self.unanswered = self.unanswered.max(Some(not_after));
        }
        answer
    }

    /// A hold whose trust was over before the answer came is none, nor is one on a client that was
    /// closed meanwhile.
    fn judge(&self) -> Result<Verdict, Error> {
        self.entry.engine.check_open()?;
        match self.state {
            State::Won(Win { acknowledged: Some(acknowledged), .. })
                if !acknowledged.is_enough() =>
            {
                Err(acknowledged.into())
            }
            State::Won(Win { sent, .. }) if Instant::now() < sent + trust(self.lease) => {
                Ok(Verdict::Won)
            }
            _ => Err(Error::NotHeld { why: Loss::Expired }),
        }
    }

    /// Makes a won claim the hold it has won. `watched`: the watchdog is to renew it.
    pub(crate) fn into_share(mut self, owner: Option<OwnerKey>, watched: bool) -> Share {
        let State::Won(win) = std::mem::replace(&mut self.state, State::Nothing) else {
            unreachable!("only a won claim becomes a hold");
        };
        let unanswered = self.unanswered.take();
        let (id, lease, under) = (self.id.clone(), self.lease, self.under.take());
        let Win { sent, token, acknowledged } = win;
        let acknowledged = acknowledged.map(|acknowledged| acknowledged.by);
        let replicas = self.replicas;
        let grant = Grant { id, sent, lease, token, replicas, acknowledged, unanswered, under };
        let share = Hold::begin(&self.entry, grant, owner, watched);
        if self.entry.passes_on {
            self.entry.queue.passing.granted(share.hold(), self.swapped);
        }
        share
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let state = std::mem::replace(&mut self.state, State::Nothing);
        let unanswered = self.unanswered.take();
        if matches!(state, State::Nothing) && unanswered.is_none() && !self.stands {
            // What it was to take over goes to the next.
            return;
        }
        let source = self.source.take().map(|source| (source, self.place));
        let (entry, id, lease) = (self.entry.clone(), self.id.clone(), self.lease);
        let janitor = entry.engine.janitor.clone();
        janitor.spawn(undo(entry, id, lease, self.stands, state, source, unanswered));
    }
}

async fn undo(
    entry: Arc<Entry>,
    id: OwnerId,
    lease: Duration,
    mut stands: bool,
    state: State,
    source: Option<(Share, Option<u64>)>,
    mut unanswered: Option<u64>,
) {
    // Whether it may hold the lock, and whether the server has said so.
    let (holds, granted) = match state {
        State::Nothing => (false, false),
        // What has a source still was refused, in its middle maybe.
        State::Won(..) => (true, false),
        State::InFlight(copy) => {
            let answer = copy.reply.await.map(|reply| reply.split().0);
            match answer.and_then(|reply| entry.protocol.acquired(reply)) {
                Ok(Attempt::Won { .. }) => (true, true),
                Err(error) if error.is_unclear() => {
                    unanswered = unanswered.max(Some(copy.not_after));
                    (false, false)
                }
                Err(error) if error.did_nothing() => {
                    stands = copy.stood;
                    (false, false)
                }
                Err(error) => (matches!(error, WireError::Refused(_)), false),
                Ok(_) => (false, false),
            }
        }
    };
    // The source first: then no copy can pass it on any more.
    let passed = source.is_some();
    match source {
        Some((source, place)) if granted => drop(source.replaced(place)),
        Some((source, _)) => drop(source.free().await),
        None => {}
    }
    if holds || stands || passed {
        take_back(&entry, &id, lease).await;
    }
    if let Some(not_after) = unanswered {
        sweep(entry, id, lease, not_after).await;
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Nothing => "Nothing",
            Self::InFlight(_) => "InFlight",
            Self::Won(..) => "Won",
        })
    }
}
