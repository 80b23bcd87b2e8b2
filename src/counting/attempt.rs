//! [`acquire`]: the acquisition of permits of either kind.
//!
//! If a [`PermitAttempt`] is dropped at any moment, it is withdrawn in the background: the permits that
//! it took are returned, and no late copy of it takes any.

use std::{sync::Arc, time::Duration};

use futures::{FutureExt, future::BoxFuture};
use tokio::time::{Instant, timeout_at};

use super::{
    counter::Counter,
    once::Once,
    waiter::{CounterWaiter, Next},
};
use crate::{
    engine::{Busy, Underway},
    error::Error,
    locking::{copies::Copies, request::Bounds},
    options::Acknowledged,
    owner::HoldId,
    protocol::{Permitting, RequestArgs, Taken, Timely::InTime, taken},
    sometimes::sometimes,
    wire::WireError,
};

/// What an acquisition was granted.
#[derive(Debug)]
pub(super) struct PermitGrant {
    pub(super) id: HoldId,
    /// When the granted copy was sent.
    pub(super) sent: Instant,
    pub(super) acknowledged: Option<Acknowledged>,
    /// Whether an earlier copy may still run.
    pub(super) unclear: bool,
}

/// How a kind of permits is acquired.
pub(super) struct Terms<P: Permitting> {
    /// May refuse what the server has granted.
    pub(super) judge: fn(P::Wanted, &PermitGrant) -> Result<(), Error>,
    /// Returns what the request with this id has certainly taken, however long ago. Returns whether no copy
    /// of the request is under way then.
    pub(super) give_back: GiveBack<P>,
}

type GiveBack<P> =
    fn(Arc<Counter<P>>, HoldId, <P as Permitting>::Wanted) -> BoxFuture<'static, bool>;

/// Acquires permits. `None`: there were not enough until the bounds were over.
pub(super) async fn acquire<P: Permitting>(
    pool: &Arc<Counter<P>>,
    wanted: P::Wanted,
    bounds: Bounds,
    terms: &'static Terms<P>,
) -> Result<Option<PermitGrant>, Error> {
    let mut attempt = PermitAttempt::new(pool, wanted, terms);
    let first = attempt.ask(bounds).await?;
    if !first.granted && bounds.last_answer_decides() {
        return Ok(None);
    }
    if !first.granted && !wait(pool, &mut attempt, first, bounds).boxed().await? {
        return Ok(None);
    }
    attempt.take().map(Some)
}

/// Whether the attempt was granted in time.
async fn wait<P: Permitting>(
    pool: &Arc<Counter<P>>,
    attempt: &mut PermitAttempt<P>,
    first: Taken,
    bounds: Bounds,
) -> Result<bool, Error> {
    let waiter = CounterWaiter::enter(pool, i64::from(P::permits(attempt.wanted)), false);
    waiter.next_end(first.next_end);
    let deadline = bounds.deadline();
    loop {
        match waiter.next(deadline).await? {
            Next::Ask => {}
            Next::Done => unreachable!("permits can be taken for ever"),
            Next::TimedOut => break,
        }
        let Taken { granted, free, next_end } = waiter.ask(deadline, attempt.ask(bounds)).await?;
        waiter.answered(free);
        // Also when this waiter leaves: the others learn it then.
        waiter.next_end(next_end);
        if granted || bounds.last_answer_decides() {
            return Ok(granted);
        }
    }
    // At the end once more. It has not left the line yet: what it cannot use others may.
    let end = bounds.last_answer_by(&pool.engine.settings);
    let Ok(answer) = timeout_at(end, attempt.ask(bounds)).await else {
        return Err(Error::timed_out());
    };
    let Taken { granted, free, .. } = answer?;
    waiter.answered(free);
    Ok(granted)
}

/// One request for permits, from its first copy on the wire to its end.
struct PermitAttempt<P: Permitting> {
    pool: Arc<Counter<P>>,
    wanted: P::Wanted,
    terms: &'static Terms<P>,
    request: Once,
    state: State,
    /// Whether a copy without a clear answer may have taken permits, or may yet.
    unclear: bool,
    // The last field, because what is to be undone is handed over before it is dropped.
    _busy: Busy,
}

enum State {
    Nothing,
    InFlight(Underway),
    Granted { sent: Instant, acknowledged: Option<Acknowledged> },
}

impl<P: Permitting> PermitAttempt<P> {
    fn new(pool: &Arc<Counter<P>>, wanted: P::Wanted, terms: &'static Terms<P>) -> Self {
        Self {
            pool: pool.clone(),
            wanted,
            terms,
            request: pool.new_request(),
            state: State::Nothing,
            unclear: false,
            _busy: pool.engine.janitor.busy(),
        }
    }

    /// Gives up copies that had no answer. They are withdrawn, and the next copy has another id. Else
    /// they might take permits that waiters before this one wait for.
    fn part_with_unanswered(&mut self) {
        if self.unclear {
            sometimes!("permits: parts with unanswered copies");
            let (pool, wanted) = (self.pool.clone(), self.wanted);
            *self = Self::new(&pool, wanted, self.terms);
        }
    }

    /// Asks for the permits. One request takes back a bounded number of permits whose lease has ended. It
    /// asks again while there are more, as long as the bounds allow.
    async fn ask(&mut self, bounds: Bounds) -> Result<Taken, Error> {
        let settings = &self.pool.engine.settings;
        let now = Instant::now();
        // As long as the first copy may take, also at the end of a wait.
        let until = bounds.retry_until(now, settings).max(now + settings.command_timeout);
        let mut taken = self.ask_once(bounds).await?;
        while !taken.granted && taken.next_end == Some(Duration::ZERO) {
            // Boxed, because it is rare.
            let answer = timeout_at(until, self.ask_once(bounds)).boxed().await;
            taken = answer.map_err(|_| Error::timed_out())??;
        }
        Ok(taken)
    }

    /// The same, until there is one answer.
    async fn ask_once(&mut self, bounds: Bounds) -> Result<Taken, Error> {
        let pool = self.pool.clone();
        let engine = &pool.engine;
        let now = Instant::now();
        let retry_until = bounds.retry_until(now, &engine.settings);
        let mut copies = Copies::new(now, retry_until.min(now + self.request.repeatable_for));
        loop {
            engine.check_open()?;
            let sent = copies.sent();
            let error = match copies.send(self.send(sent)).await {
                Ok((_, Some(acknowledged))) if !acknowledged.is_enough() => {
                    return Err(acknowledged.into());
                }
                Ok((taken, _)) => {
                    engine.check_open()?;
                    if !taken.granted {
                        self.part_with_unanswered();
                    }
                    return Ok(taken);
                }
                Err(error) => error,
            };
            // Closing the client ends its calls.
            engine.check_open()?;
            copies.again_for(error, engine, pool.name()).await?;
        }
    }

    /// Sends one copy now. If the future is dropped, the copy stays with the attempt.
    async fn send(&mut self, sent: Instant) -> Result<(Taken, Option<Acknowledged>), WireError> {
        if matches!(self.state, State::InFlight(_)) {
            // Nobody waited for its answer any longer.
            self.unclear = true;
            self.request.may_have_run();
        }
        let Self { pool, wanted, .. } = self;
        let call = |counter: &P, request: &RequestArgs<'_>| counter.acquire(*wanted, request);
        let (call, settled) = pool.copy(&mut self.request, sent, call);
        let replicas = pool.engine.settings.replicas;
        let reply = pool.engine.call_confirmed(call, sent, replicas, Taken::needs_confirmation);
        self.state = State::InFlight(reply);
        let State::InFlight(reply) = &mut self.state else { unreachable!("just set") };
        let answer = reply.await.and_then(|reply| {
            let (reply, acknowledged) = reply.split();
            Ok((taken(reply)?, acknowledged))
        });
        self.state = match &answer {
            Ok((InTime(Taken { granted: true, .. }), acknowledged)) => {
                State::Granted { sent, acknowledged: *acknowledged }
            }
            _ => {
                // A refused request changes nothing, and forgets no id.
                self.pool.keep_settled(settled);
                State::Nothing
            }
        };
        if answer.as_ref().is_err_and(|error| !error.did_nothing()) {
            self.unclear = true;
            self.request.may_have_run();
        }
        let (answer, acknowledged) = answer?;
        Ok((self.pool.in_time(answer)?, acknowledged))
    }

    /// Takes what was granted. The attempt has nothing left to undo, unless it is refused here.
    fn take(&mut self) -> Result<PermitGrant, Error> {
        let State::Granted { sent, acknowledged } = self.state else {
            unreachable!("only what was granted is taken");
        };
        let grant =
            PermitGrant { id: self.request.id.clone(), sent, acknowledged, unclear: self.unclear };
        (self.terms.judge)(self.wanted, &grant)?;
        // If a copy is still under way, the server knows the id or the permits, and the copy takes
        // nothing.
        (self.state, self.unclear) = (State::Nothing, false);
        Ok(grant)
    }
}

impl<P: Permitting> Drop for PermitAttempt<P> {
    fn drop(&mut self) {
        let state = std::mem::replace(&mut self.state, State::Nothing);
        if matches!(state, State::Nothing) && !self.unclear {
            return;
        }
        let (pool, id, wanted) = (self.pool.clone(), self.request.id.clone(), self.wanted);
        let janitor = pool.engine.janitor.clone();
        janitor.spawn(withdraw(pool, id, wanted, state, self.unclear, self.terms.give_back));
    }
}

/// Undoes what an attempt did. No late copy of it does anything then.
async fn withdraw<P: Permitting>(
    pool: Arc<Counter<P>>,
    id: HoldId,
    wanted: P::Wanted,
    state: State,
    mut unclear: bool,
    give_back: GiveBack<P>,
) {
    let took = match state {
        State::Nothing => false,
        State::Granted { .. } => true,
        State::InFlight(reply) => match reply.await.and_then(|reply| taken(reply.split().0)) {
            Ok(answer) => {
                let took = matches!(answer, InTime(Taken { granted: true, .. }));
                if took {
                    sometimes!("withdrawn: it had been granted");
                }
                took
            }
            Err(error) => {
                unclear |= !error.did_nothing();
                false
            }
        },
    };
    if took && !unclear {
        // The server may have forgotten the request: nobody may have polled its caller for long.
        if give_back(pool.clone(), id.clone(), wanted).await {
            pool.settle(id);
        }
    } else if unclear {
        let call = |counter: &P, kept| counter.withdraw(&id, wanted, kept);
        pool.undo(P::permits(wanted).into(), call).await;
    }
}
