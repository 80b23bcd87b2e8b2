//! The one wait loop for locks: ask, subscribe, ask again, wait. Permits and latches are waited for in
//! `counting`.

use std::{sync::Arc, time::Duration};

use futures::FutureExt;
use tokio::time::{Instant, timeout_at};

use crate::{
    engine::Backoff,
    error::Error,
    locking::{
        attempt::Attempt,
        hold::target::Target,
        join::{Joining, join, join_at_once},
        line::{
            answers::{Answer, Answers, Known},
            head::{Entered, Head, Next},
            waiter::{WaitWarnings, Waiter},
        },
        registry::LockState,
        request::Request,
        share::Share,
    },
    observer::Outcome,
    owner::HoldId,
    protocol::AcquireReply::{Granted, Held},
    sometimes::sometimes,
};

/// How often to check whether a local caller has adopted or swapped a hold that is being released.
const GLIMPSE: Duration = Duration::from_millis(20);

/// Waits for the lock. `seen_held`: the server has said that another holder has it. `None`: it was
/// held to the end of the wait.
pub(crate) async fn wait(
    lock: &Arc<LockState>,
    request: &Request,
    attempt: &mut Attempt<'_>,
    seen_held: bool,
) -> Result<Option<Share>, Box<Error>> {
    request.waits();
    let mut waiter = waiter(lock, request, attempt.id(), seen_held);
    // All local waiters read the server's answers, unless each has a place on the server.
    let line = &lock.target.line;
    let answers = (!waiter.stands_on_server()).then_some(&line.answers);
    let before = line.answers.count();
    if seen_held && waiter.has_ended() {
        return Ok(None);
    }
    // Whether the last answer to this waiter was `KeptOut`. The server was not asked then.
    let mut kept_out = false;
    // Whether the server has to be asked at the end: what this waiter knows says nothing about the lock,
    // because it was kept out, or the offered hold was gone.
    let must_ask = 'waiting: loop {
        // A copy that was not answered may still take the lock, and waiters before this one would
        // wait for it. On the server the waiter keeps its place.
        if !waiter.stands_on_server() {
            attempt.part_with_unanswered();
        }
        let mut head = match Head::enter(lock, &waiter).await? {
            Entered::Head(head) => head,
            Entered::Opened => match ask(lock, request, attempt, answers, true).boxed().await? {
                AskResult::Granted(share) => return Ok(Some(share)),
                AskResult::Held(_) if waiter.has_ended() => return Ok(None),
                AskResult::Held(_) => {
                    kept_out = false;
                    waiter.seen_held = true;
                    continue;
                }
                AskResult::KeptOut => {
                    kept_out = true;
                    continue;
                }
            },
            Entered::TimedOut => {
                sometimes!("line: timed out before its turn");
                break kept_out;
            }
        };
        loop {
            match head.next(&mut waiter).await? {
                Next::Ask => {}
                Next::Offered(baton) => match Share::adopt(baton, request) {
                    Ok(share) => {
                        request.granted(Outcome::HandedOff);
                        return Ok(Some(share));
                    }
                    Err(baton) => attempt.swap_from(baton),
                },
                Next::PutOut => break,
                Next::TimedOut => break 'waiting kept_out,
            }
            // Boxed, as what else is rare in this loop: most waiters are offered a hold.
            match head.showing(ask(lock, request, attempt, answers, false).boxed()).await {
                Ok(AskResult::Granted(share)) => {
                    head.granted(&mut waiter);
                    return Ok(Some(share));
                }
                Ok(AskResult::KeptOut) => kept_out = true,
                Ok(AskResult::Held(ttl)) => {
                    kept_out = false;
                    let of_the_lock = head.held(ttl, &mut waiter);
                    // A further request could exceed the wait by another `command_timeout`.
                    if waiter.has_ended() {
                        if of_the_lock {
                            return Ok(None);
                        }
                        break 'waiting true;
                    }
                }
                Err(error) => {
                    head.failed(&error, &waiter);
                    return Err(error.into());
                }
            }
        }
    };
    let end = request.bounds.last_answer_by(&lock.target.engine.settings);
    if !must_ask && was_held(lock, request, &waiter, before, end).boxed().await? {
        return Ok(None);
    }
    try_once_more(lock, request, attempt, answers, end).boxed().await
}

/// Tries once more at the end of the wait. The answer has to come by `end`.
async fn try_once_more(
    lock: &Arc<LockState>,
    request: &Request,
    attempt: &mut Attempt<'_>,
    answers: Option<&Answers>,
    end: Instant,
) -> Result<Option<Share>, Box<Error>> {
    if let Some(share) = join_at_once(lock, request) {
        return Ok(Some(share));
    }
    match timeout_at(end, attempt.ask(answers, None)).await {
        Ok(Ok(Granted { .. })) => Ok(Some(attempt.take_share())),
        Ok(Ok(Held(_))) => Ok(None),
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(Error::timed_out().into()),
    }
}

/// What a waiter has got by asking.
enum AskResult {
    Granted(Share),
    /// Nothing: another holder has the lock, for so long if known.
    Held(Option<Duration>),
    /// Nothing: it is a reader, and a local writer waits again.
    KeptOut,
}

/// Asks for the lock. A reader may join others instead. `after_grant`: the one before it in line
/// was granted just now.
async fn ask(
    lock: &Arc<LockState>,
    request: &Request,
    attempt: &mut Attempt<'_>,
    answers: Option<&Answers>,
    after_grant: bool,
) -> Result<AskResult, Error> {
    let since = match join(lock, request, after_grant).await {
        Joining::Joined(share) => return Ok(AskResult::Granted(share)),
        Joining::KeptOut => return Ok(AskResult::KeptOut),
        Joining::Alone(since) => since,
    };
    let answer = match since {
        None => attempt.ask(answers, None).await?,
        Some(since) => {
            let settings = &lock.target.engine.settings;
            let ask = async |since: Option<&Instant>| attempt.ask(answers, since).await;
            request.bounds.after_waiting(since, settings, ask).boxed().await?
        }
    };
    Ok(match answer {
        Granted { .. } => AskResult::Granted(attempt.take_share()),
        Held(ttl) => AskResult::Held(ttl),
    })
}

fn waiter<'a>(lock: &'a LockState, request: &Request, id: &HoldId, seen_held: bool) -> Waiter<'a> {
    let Target { protocol, engine, .. } = &*lock.target;
    let pauses = request.pauses;
    Waiter {
        deadline: request.bounds.deadline(),
        lease: request.lease,
        replicas: request.replicas,
        order: protocol.order(),
        channel: protocol.channel(id),
        polls: protocol.polls(),
        pauses: Backoff::between(pauses.first(), pauses.longest()),
        first_pause: pauses.first(),
        retry_timeout: engine.settings.retry_timeout,
        seen_held,
        warnings: WaitWarnings::new(),
    }
}

/// Whether a waiter whose wait is over may be told that the lock is held. `false`: that is not
/// known, and nobody asks. If the server is being asked, its answer decides, if it comes in time.
///
/// `before`: how many answers had come before the wait. They say nothing about now, because the head
/// may not have been polled since. `until`: by when the answer is due.
async fn was_held(
    lock: &LockState,
    request: &Request,
    waiter: &Waiter<'_>,
    before: u64,
    until: Instant,
) -> Result<bool, Error> {
    let seen = waiter.seen_held;
    if waiter.stands_on_server() {
        return Ok(seen);
    }
    let answers = &lock.target.line.answers;
    let begun = answers.count();
    loop {
        let next = answers.next();
        let Known { count, is_asking, last } = answers.known();
        let settled = !is_asking && !lock.handoff.is_being_released();
        match last {
            Some(Answer::Failed(failure))
                if failure.concerns(request.replicas) && count > before =>
            {
                return Err(failure.error);
            }
            Some(Answer::Held) if count > before && (settled || count > begun) => {
                return Ok(true);
            }
            _ if settled => {
                return Ok(seen && count == before || lock.handoff.has_trusted_guard());
            }
            _ => {}
        }
        let now = Instant::now();
        if now >= until {
            return Err(Error::timed_out());
        }
        let _ = timeout_at(until.min(now + GLIMPSE), next).await;
    }
}

#[cfg(test)]
mod tests;
