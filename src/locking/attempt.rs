//! [`Attempt`]: one try for a hold, from its first copy on the wire to its end.
//!
//! ```text
//! nothing --send--> in flight --granted--> granted --take_share--> (a hold)
//!                      |  `--held by another--> nothing (of a fair lock: a place in line)
//!                      |--refused--> may hold (the script may have run partway)
//!                      `--no answer--> unknown (a copy may yet take the lock)
//! ```
//!
//! If an attempt is dropped in any of these states, it undoes what it did and what it may still do.
//! A copy in flight is awaited first: a release that overtook it would leave the lock held.

mod undo;

use std::sync::Arc;

use tokio::time::Instant;

use crate::{
    engine::{Busy, Lease, Underway, trust},
    error::{Error, Loss},
    locking::{
        baton::Baton,
        copies::Copies,
        hold::{Grant, Hold},
        line::answers::Answers,
        registry::LockState,
        request::Request,
        share::Share,
    },
    observer::{HoldEnd, Outcome},
    options::Acknowledged,
    owner::HoldId,
    protocol::{
        AcquireReply::{self, Granted, Held},
        Order, ScriptArgs,
        Timely::{self, InTime},
        Wish,
    },
    sometimes::sometimes,
    wire::{ServerId, WireError},
};

pub(crate) struct Attempt<'a> {
    lock: &'a Arc<LockState>,
    request: &'a Request,
    id: HoldId,
    /// The owner's write hold, under which it wants to read.
    under: Option<Arc<Lease>>,
    /// Whether it may have entered the server's line.
    stands: bool,
    state: State,
    source: Source,
    /// The latest not-after time of the copies that were never answered. Until then one of them may
    /// still take the lock.
    unanswered: Option<u64>,
    // The last field, because what is to be undone is handed over before it is dropped.
    _busy: Busy,
}

/// The hold that an attempt replaces by a swap.
enum Source {
    None,
    /// It is to be replaced. `asked`: the server that was last asked to do so.
    Hold {
        baton: Baton,
        asked: Option<ServerId>,
    },
    /// It was replaced. Its turn ends when a caller has the new hold.
    Replaced {
        hold: Arc<Hold>,
        was_current: bool,
    },
}

impl Source {
    fn take(&mut self) -> Self {
        std::mem::replace(self, Self::None)
    }

    /// The server that was asked has replaced it.
    fn replaced(self) -> Self {
        match self {
            Self::Hold { baton, asked } => {
                let hold = baton.hold().clone();
                let was_current = baton.replaced(asked);
                Self::Replaced { hold, was_current }
            }
            source => source,
        }
    }
}

enum State {
    Nothing,
    InFlight(Copy),
    /// The server has refused it, perhaps in its middle: it may hold the lock.
    MayHold,
    /// The result of the copy that was sent then.
    Granted {
        sent: Instant,
        token: Option<u64>,
        acknowledged: Option<Acknowledged>,
    },
}

/// One copy of the request, under way.
struct Copy {
    reply: Underway,
    not_after: u64,
    /// Whether the attempt may have entered the server's line before this copy.
    stood: bool,
}

impl<'a> Attempt<'a> {
    /// An attempt at a new outermost hold, with an id of its own. `under`: the owner's write hold,
    /// under which it wants to read.
    pub(crate) fn new(
        lock: &'a Arc<LockState>,
        request: &'a Request,
        under: Option<Arc<Lease>>,
    ) -> Self {
        let target = &lock.target;
        Self {
            lock,
            request,
            id: target.protocol.id(&target.engine.identity),
            under,
            stands: false,
            state: State::Nothing,
            source: Source::None,
            unanswered: None,
            _busy: target.engine.janitor.busy(),
        }
    }

    pub(crate) fn id(&self) -> &HoldId {
        &self.id
    }

    /// For a waiter that will not ask for a while: a copy that may still take the lock is undone in
    /// the background, and the attempt continues with another id.
    pub(crate) fn part_with_unanswered(&mut self) {
        if self.unanswered.is_some() {
            sometimes!("attempt: parts with unanswered copies");
            *self = Self::new(self.lock, self.request, self.under.clone());
        }
    }

    /// The next copy asks to replace this hold. The hold is not renewed meanwhile, because this
    /// attempt may not be polled.
    pub(crate) fn swap_from(&mut self, mut baton: Baton) {
        sometimes!("a hold is swapped");
        baton.swapping();
        self.lock.handoff.swapping();
        self.source = Source::Hold { baton, asked: None };
    }

    /// Asks for the lock. Without an answer it asks again, as long as the request allows. Local
    /// waiters read each answer in `answers`. `since`: when the call began, if it has waited for the
    /// server before.
    pub(crate) async fn ask(
        &mut self,
        answers: Option<&Answers>,
        since: Option<&Instant>,
    ) -> Result<AcquireReply, Error> {
        let target = &*self.lock.target;
        let engine = &target.engine;
        let retry_until = |begun| self.request.bounds.retry_until(begun, &engine.settings);
        let mut copies = Copies::since(since.copied(), retry_until);
        loop {
            engine.check_open()?;
            let open = answers.map(Answers::ask);
            let swaps = matches!(self.source, Source::Hold { .. });
            let sent = copies.sent();
            let answer = copies.send(self.send(sent)).await;
            match (open, &answer) {
                // Others can share it.
                (Some(open), Ok(InTime(Granted { .. })))
                    if matches!(target.protocol.order(), Order::Shared) =>
                {
                    open.freed();
                }
                // The script checks the time last: only a request that no other holder keeps out is
                // told that it is late.
                (Some(open), Ok(Timely::Late(_))) if !swaps => open.freed(),
                // The hold that was to be swapped is gone, and the lock may be free.
                (Some(open), Ok(InTime(Held(None)))) if swaps => open.freed(),
                (Some(open), answer) => {
                    open.answered(answer.as_ref().err(), target.name(), self.request.replicas);
                }
                (None, _) => {}
            }
            let error = match answer.and_then(|answer| target.in_time(answer)) {
                Ok(granted @ AcquireReply::Granted { .. }) => {
                    return self.judge().map(|()| granted);
                }
                Ok(held @ AcquireReply::Held(_)) => return Ok(held),
                Err(error) => error,
            };
            // Closing the client ends its calls.
            engine.check_open()?;
            copies.again_for(error, engine, target.name()).await?;
        }
    }

    /// Sends one copy now. If the future is dropped, the copy stays with the attempt.
    async fn send(&mut self, sent: Instant) -> Result<Timely<AcquireReply>, WireError> {
        let target = &*self.lock.target;
        let engine = &target.engine;
        let not_after = target.not_after(sent);
        let args = ScriptArgs { lease: self.request.lease.as_millis() as u64, not_after };
        let stands_on_server = matches!(target.protocol.order(), Order::Server { .. });
        let wish = Wish {
            stand: stands_on_server && !self.request.bounds.is_one_answer(),
            under: self.under.as_ref().map(|hold| hold.renew.id.clone()),
        };
        if let Some(under) = &self.under {
            under.requested(sent, self.request.lease);
        }
        let call = match &mut self.source {
            Source::Hold { baton, asked } => {
                *asked = engine.server_for_release(&*target.protocol);
                target.protocol.swap(baton.hold().id(), &self.id, args)
            }
            Source::None | Source::Replaced { .. } => {
                target.protocol.acquire(&self.id, args, &wish)
            }
        };
        let (replicas, needs_confirmation) =
            (self.request.replicas, AcquireReply::needs_confirmation);
        let reply = engine.call_confirmed(call, sent, replicas, needs_confirmation);
        let stood = self.stands;
        self.stands |= wish.stand;
        self.state = State::InFlight(Copy { reply, not_after, stood });
        let State::InFlight(copy) = &mut self.state else { unreachable!("just set") };
        let mut acknowledged = None;
        let answer = (&mut copy.reply).await.and_then(|reply| {
            let (reply, by) = reply.split();
            acknowledged = by;
            target.protocol.acquired(reply)
        });
        self.note(&answer, sent, acknowledged);
        answer
    }

    /// Notes the answer to the copy in flight, which was sent at `sent`.
    fn note(
        &mut self,
        answer: &Result<Timely<AcquireReply>, WireError>,
        sent: Instant,
        acknowledged: Option<Acknowledged>,
    ) {
        let State::InFlight(copy) = std::mem::replace(&mut self.state, State::Nothing) else {
            unreachable!("only a copy in flight is answered");
        };
        match answer {
            Ok(InTime(Granted { token })) => {
                self.state = State::Granted { sent, token: *token, acknowledged };
                self.stands = false;
                self.source = self.source.take().replaced();
            }
            Ok(InTime(Held(_))) => {
                if let Source::Hold { baton, asked } = self.source.take() {
                    sometimes!("swap: the hold was gone");
                    baton.gone(asked);
                }
                self.lock.handoff.seen_elsewhere();
                if self.lock.target.shares {
                    self.lock.sharing().reader_refused(sent);
                }
            }
            Ok(Timely::Late(_)) => {}
            Err(error) if error.did_nothing() => self.stands = copy.stood,
            Err(WireError::Refused(_)) => self.state = State::MayHold,
            Err(_) => {}
        }
        if answer.as_ref().is_err_and(WireError::is_unclear) {
            self.unanswered = self.unanswered.max(Some(copy.not_after));
        }
    }

    /// A hold that is no longer trusted when the answer comes is no hold. Nor is one on a client
    /// that was closed meanwhile.
    fn judge(&self) -> Result<(), Error> {
        self.lock.target.engine.check_open()?;
        match self.state {
            State::Granted { acknowledged: Some(acknowledged), .. }
                if !acknowledged.is_enough() =>
            {
                Err(acknowledged.into())
            }
            State::Granted { sent, .. } if Instant::now() < sent + trust(self.request.lease) => {
                Ok(())
            }
            _ => {
                sometimes!("attempt: granted, but not trusted any more");
                Err(Error::NotHeld { why: Loss::Expired })
            }
        }
    }

    /// Makes a share of what was granted. The attempt has nothing left to undo.
    pub(crate) fn take_share(&mut self) -> Share {
        let state = std::mem::replace(&mut self.state, State::Nothing);
        let State::Granted { sent, token, acknowledged } = state else {
            unreachable!("only what was granted becomes a hold");
        };
        let Request { owner, lease, watched, replicas, .. } = *self.request;
        let swapped = match self.source.take() {
            Source::Replaced { hold, was_current } => {
                hold.lease.turns.end(HoldEnd::HandedOff);
                self.request.granted(Outcome::HandedOff);
                Some(was_current)
            }
            _ => None,
        };
        let (id, under, unanswered) = (self.id.clone(), self.under.take(), self.unanswered.take());
        let acknowledged = acknowledged.map(|acknowledged| acknowledged.by);
        let grant = Grant { id, sent, lease, token, replicas, acknowledged, unanswered, under };
        let registration = owner.map(|owner| self.lock.registration(owner));
        let target = &self.lock.target;
        let hold = Hold::begin(target, grant, registration, watched);
        let share = Share::new(self.lock.clone(), hold, watched);
        if target.hands_off {
            self.lock.handoff.granted(share.hold(), swapped);
        }
        if target.shares {
            self.lock.sharing().granted(self.request, share.hold());
        }
        share
    }
}

#[cfg(test)]
mod tests;
