//! [`acquire`]: the acquisition of permits, and [`Permits`], what it returns. [`release`] and
//! [`drain`] need none.
//!
//! If an [`Attempt`] is dropped at any moment, it is withdrawn in the background: the permits that
//! it took are returned, and no late copy of it takes any.

use std::sync::Arc;

use futures::FutureExt;
use tokio::time::{Instant, timeout, timeout_at};

use super::{
    counter::{Counter, KEPT},
    waiter::{Next, Waiter},
};
use crate::{
    engine::{Busy, Underway},
    error::Error,
    locking::{copies::Copies, request::Bounds},
    options::Acknowledged,
    owner::HoldId,
    protocol::{
        RequestArgs,
        Timely::InTime,
        semaphore::{GivenBack, Semaphore, Taken, given_back, taken},
    },
    redis_error::{RedisError, RedisErrorKind},
    sometimes::sometimes,
    wire::{Invocation, WireError},
};

pub(crate) type Pool = Arc<Counter<Semaphore>>;

/// How often [`drain`] asks while others change the number of permits.
const DRAIN_TRIES: usize = 100;

/// Permits that a caller has. Dropping them returns nothing: see [`Permits::give_back`].
#[derive(Debug)]
pub(crate) struct Permits {
    pub(crate) pool: Pool,
    pub(crate) count: u32,
}

impl Permits {
    /// Returns the permits, if the semaphore still exists.
    pub(crate) fn give_back(self) -> impl Future<Output = Result<(), Error>> + Send + 'static {
        release(self.pool, i64::from(self.count), true)
    }

    /// The same in the background.
    pub(crate) fn give_back_later(self) {
        let janitor = self.pool.engine.janitor.clone();
        janitor.spawn(async move {
            let (pool, permits) = (self.pool.clone(), self.count);
            if let Err(error) = self.give_back().await {
                tracing::warn!(name = pool.name(), permits, %error, "permits are not returned yet");
            }
        });
    }
}

/// Adds permits, or takes some away. If the server does not answer in time, it goes on in the
/// background.
pub(crate) async fn release(pool: Pool, permits: i64, if_there: bool) -> Result<(), Error> {
    let (id, begun) = (pool.new_id(), Instant::now());
    let call = move |semaphore: &Semaphore, request: &RequestArgs<'_>| {
        semaphore.release(permits, if_there, request)
    };
    let error = match pool.send_until_answered(&id, call, given_back).await {
        Ok((GivenBack::Gone, true)) => {
            // A semaphore that is created meanwhile is another one. No copy is of use for longer.
            let bound = 2 * pool.engine.settings.command_timeout;
            let janitor = pool.engine.janitor.clone();
            let undone = undo(pool, id, -permits).map(Ok);
            let _ = timeout(bound, janitor.run(undone)).await;
            return Ok(());
        }
        Ok(_) => return Ok(()),
        Err(error) => error,
    };
    let told = error.clone().into_error(pool.name());
    if !matches!(error, WireError::WrongType) {
        let janitor = pool.engine.janitor.clone();
        janitor.spawn(async move { pool.persist(begun, &id, call, given_back).await });
    }
    Err(told)
}

/// Takes all permits, and returns their number.
///
/// The server takes them only if there are as many as this client knows. A request without an
/// answer is then repeated without a doubt about the number.
pub(crate) async fn drain(pool: Pool) -> Result<i64, Error> {
    let mut expected = pool.number().await?;
    for _ in 0..DRAIN_TRIES {
        let id = pool.new_id();
        let call =
            |semaphore: &Semaphore, request: &RequestArgs<'_>| semaphore.drain(expected, request);
        let drained = pool.send_until_answered(&id, call, taken).await;
        let (drained, may_run) = drained.map_err(|error| error.into_error(pool.name()))?;
        if drained.granted {
            return Ok(expected);
        }
        if may_run {
            // The number may be the expected one again when a late copy runs.
            pool.engine.janitor.spawn(undo(pool.clone(), id, expected));
        }
        expected = drained.free;
    }
    let text = "the number of permits was changed by others all the time";
    Err(RedisError::new(RedisErrorKind::Busy, text).into())
}

/// Acquires permits. `None`: there were not enough until the bounds were over.
pub(crate) async fn acquire(
    pool: &Pool,
    permits: u32,
    bounds: Bounds,
) -> Result<Option<Permits>, Error> {
    if permits == 0 {
        return Ok(Some(Permits { pool: pool.clone(), count: 0 }));
    }
    let mut attempt = Attempt::new(pool, permits);
    if attempt.ask(bounds).await?.granted {
        return Ok(Some(attempt.take()));
    }
    if bounds.is_one_answer() {
        return Ok(None);
    }
    wait(pool, attempt, bounds).boxed().await
}

async fn wait(pool: &Pool, mut attempt: Attempt, bounds: Bounds) -> Result<Option<Permits>, Error> {
    let waiter = Waiter::enter(pool, i64::from(attempt.permits), false);
    let deadline = bounds.deadline();
    loop {
        match waiter.next(deadline).await? {
            Next::Ask => {}
            Next::Done => unreachable!("permits can be taken for ever"),
            Next::TimedOut => break,
        }
        let Taken { granted, free } = attempt.ask(bounds).await?;
        waiter.answered(free);
        if granted {
            return Ok(Some(attempt.take()));
        }
    }
    // At the end once more. It has not left the line yet: what it cannot use others may.
    let end = deadline.unwrap_or_else(Instant::now) + pool.engine.settings.command_timeout;
    let Ok(answer) = timeout_at(end, attempt.ask(bounds)).await else {
        return Err(Error::timed_out());
    };
    let Taken { granted, free } = answer?;
    waiter.answered(free);
    Ok(granted.then(|| attempt.take()))
}

/// One request for permits, from its first copy on the wire to its end.
struct Attempt {
    pool: Pool,
    permits: u32,
    id: HoldId,
    state: State,
    /// Whether a copy without a clear answer may have taken permits, or may yet.
    unclear: bool,
    // The last field, because what is to be undone is handed over before it is dropped.
    _busy: Busy,
}

enum State {
    Nothing,
    InFlight(Underway),
    Granted,
}

impl Attempt {
    fn new(pool: &Pool, permits: u32) -> Self {
        Self {
            pool: pool.clone(),
            permits,
            id: pool.new_id(),
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
            let (pool, permits) = (self.pool.clone(), self.permits);
            *self = Self::new(&pool, permits);
        }
    }

    /// Asks for the permits. Without an answer it asks again, as long as the bounds allow.
    async fn ask(&mut self, bounds: Bounds) -> Result<Taken, Error> {
        let pool = self.pool.clone();
        let engine = &pool.engine;
        let now = Instant::now();
        let retry_until = bounds.retry_until(now, &engine.settings);
        let mut copies = Copies::new(now, retry_until.min(pool.repeatable_until(now)));
        loop {
            engine.check_open()?;
            let sent = copies.sent();
            let error = match copies.send(|| self.send(sent)).await {
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
            let again = copies.again(error, engine).boxed().await;
            again.map_err(|error| error.into_error(pool.name()))?;
        }
    }

    /// Sends one copy now. If the future is dropped, the copy stays with the attempt.
    async fn send(&mut self, sent: Instant) -> Result<(Taken, Option<Acknowledged>), WireError> {
        let Self { pool, permits, .. } = self;
        let call = |semaphore: &Semaphore, request: &RequestArgs<'_>| -> Invocation {
            semaphore.acquire(*permits, request)
        };
        let (call, settled) = pool.copy(&self.id, sent, call);
        let replicas = pool.engine.settings.replicas;
        let reply = pool.engine.call_confirmed(call, sent, replicas, Taken::is_to_be_confirmed);
        self.unclear |= matches!(self.state, State::InFlight(_));
        self.state = State::InFlight(reply);
        let State::InFlight(reply) = &mut self.state else { unreachable!("just set") };
        let answer = reply.await.and_then(|reply| {
            let (reply, acknowledged) = reply.split();
            Ok((taken(reply)?, acknowledged))
        });
        self.state = match &answer {
            Ok((InTime(Taken { granted: true, .. }), _)) => State::Granted,
            _ => {
                // A refused request changes nothing, and forgets no id.
                self.pool.keep_settled(settled);
                State::Nothing
            }
        };
        self.unclear |= answer.as_ref().is_err_and(may_have_run);
        let (answer, acknowledged) = answer?;
        Ok((self.pool.in_time(answer)?, acknowledged))
    }

    /// Takes what was granted. The attempt has nothing left to undo.
    fn take(&mut self) -> Permits {
        self.state = State::Nothing;
        // If a copy is still under way, the server keeps the id, and the copy takes nothing.
        if !std::mem::take(&mut self.unclear) {
            self.pool.settle(self.id.clone());
        }
        Permits { pool: self.pool.clone(), count: self.permits }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        let state = std::mem::replace(&mut self.state, State::Nothing);
        if matches!(state, State::Nothing) && !self.unclear {
            return;
        }
        let (pool, id, permits) = (self.pool.clone(), self.id.clone(), self.permits);
        let janitor = pool.engine.janitor.clone();
        janitor.spawn(withdraw(pool, id, permits, state, self.unclear));
    }
}

/// Whether a copy with this error may have taken permits, or may yet.
fn may_have_run(error: &WireError) -> bool {
    !matches!(error, WireError::WrongType) && !error.did_nothing()
}

/// Undoes what an attempt did. No late copy of it does anything then.
async fn withdraw(pool: Pool, id: HoldId, permits: u32, state: State, mut unclear: bool) {
    let took = match state {
        State::Nothing => false,
        State::Granted => true,
        State::InFlight(reply) => match reply.await.and_then(|reply| taken(reply.split().0)) {
            Ok(answer) => {
                let took = matches!(answer, InTime(Taken { granted: true, .. }));
                if took {
                    sometimes!("withdrawn: it had been granted");
                }
                took
            }
            Err(error) => {
                unclear |= may_have_run(&error);
                false
            }
        },
    };
    if took || unclear {
        undo(pool, id, i64::from(permits)).await;
    }
}

/// Undoes a request that took so many permits, or may yet. `permits`: negative if it adds some.
async fn undo(pool: Pool, id: HoldId, permits: i64) {
    let call = |semaphore: &Semaphore, kept| semaphore.withdraw(&id, permits, kept);
    let undone = pool.send_undo(Instant::now() + KEPT, call).await;
    if let Err(error) = undone
        && !pool.engine.is_closed()
    {
        tracing::warn!(name = pool.name(), permits, %error, "could not return permits");
    }
}
