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
    protocol::AcquireReply::{self, Granted, Held},
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
    let before = lock.target.line.answers.count();
    let mut waiting = Waiting::new(lock, request, attempt, seen_held);
    if seen_held && waiting.waiter.has_ended() {
        return Ok(None);
    }
    match waiting.run().await? {
        Ended::Granted(share) => Ok(Some(share)),
        Ended::Held => Ok(None),
        Ended::TimedOut { must_ask } => waiting.last_answer(must_ask, before).boxed().await,
    }
}

struct Waiting<'a, 'b> {
    lock: &'a Arc<LockState>,
    request: &'a Request,
    attempt: &'a mut Attempt<'b>,
    waiter: Waiter<'a>,
    /// All local waiters read the server's answers, unless each has a place on the server.
    answers: Option<&'a Answers>,
    /// Whether the last answer to it was [`Asked::KeptOut`]. The server was not asked then.
    kept_out: bool,
}

enum Ended {
    Granted(Share),
    /// The server has said so at the end of the wait.
    Held,
    /// `must_ask`: what the waiter knows says nothing about the lock, because it was kept out, or the
    /// offered hold was gone.
    TimedOut {
        must_ask: bool,
    },
}

impl Waiting<'_, '_> {
    /// The loop.
    async fn run(&mut self) -> Result<Ended, Box<Error>> {
        loop {
            // A copy that was not answered may still take the lock, and waiters before this one would
            // wait for it. On the server the waiter keeps its place.
            if !self.waiter.stands_on_server() {
                self.attempt.part_with_unanswered();
            }
            let mut head = match Head::enter(self.lock, &self.waiter).await? {
                Entered::Head(head) => head,
                Entered::Opened => match self.ask(true).boxed().await? {
                    Asked::Granted(share) => return Ok(Ended::Granted(share)),
                    Asked::Held(_) if self.waiter.has_ended() => return Ok(Ended::Held),
                    Asked::Held(_) | Asked::KeptOut => continue,
                },
                Entered::TimedOut => {
                    sometimes!("line: timed out before its turn");
                    return Ok(Ended::TimedOut { must_ask: self.kept_out });
                }
            };
            loop {
                match head.next(&mut self.waiter).await? {
                    Next::Ask => {}
                    Next::Offered(baton) => match Share::adopt(baton, self.request) {
                        Ok(share) => {
                            self.request.granted(Outcome::HandedOff);
                            return Ok(Ended::Granted(share));
                        }
                        Err(baton) => self.attempt.swap_from(baton),
                    },
                    Next::PutOut => break,
                    Next::TimedOut => return Ok(Ended::TimedOut { must_ask: self.kept_out }),
                }
                // Boxed, as what else is rare in this loop: most waiters are offered a hold.
                match head.showing(self.ask(false).boxed()).await {
                    Ok(Asked::Granted(share)) => {
                        head.granted(&mut self.waiter);
                        return Ok(Ended::Granted(share));
                    }
                    Ok(Asked::KeptOut) => {}
                    Ok(Asked::Held(ttl)) => {
                        let of_the_lock = head.held(ttl, &mut self.waiter);
                        // A further request could exceed the wait by another `command_timeout`.
                        if self.waiter.has_ended() {
                            return Ok(match of_the_lock {
                                true => Ended::Held,
                                false => Ended::TimedOut { must_ask: true },
                            });
                        }
                    }
                    Err(error) => {
                        head.failed(&error, &self.waiter);
                        return Err(error.into());
                    }
                }
            }
        }
    }
}

/// What a waiter has got by asking.
enum Asked {
    Granted(Share),
    /// Nothing: another holder has the lock, for so long if known.
    Held(Option<Duration>),
    /// Nothing: a local waiter goes before it.
    KeptOut,
}

impl<'a, 'b> Waiting<'a, 'b> {
    fn new(
        lock: &'a Arc<LockState>,
        request: &'a Request,
        attempt: &'a mut Attempt<'b>,
        seen_held: bool,
    ) -> Self {
        let waiter = waiter(lock, request, attempt.id(), seen_held);
        let answers = (!waiter.stands_on_server()).then_some(&lock.target.line.answers);
        Self { lock, request, attempt, waiter, answers, kept_out: false }
    }

    /// Asks for the lock. Where holds are shared it may join a local one instead. `after_grant`: the one
    /// before it in line was granted just now.
    async fn ask(&mut self, after_grant: bool) -> Result<Asked, Error> {
        let asked = match join(self.lock, self.request, after_grant).await {
            Joining::Joined(share) => Asked::Granted(share),
            Joining::KeptOut => Asked::KeptOut,
            Joining::Alone(since) => match self.ask_server(since).await? {
                Granted { .. } => Asked::Granted(self.attempt.take_share()),
                Held(ttl) => Asked::Held(ttl),
            },
        };
        self.kept_out = matches!(asked, Asked::KeptOut);
        self.waiter.seen_held |= matches!(asked, Asked::Held(_));
        Ok(asked)
    }

    /// `since`: it has asked the server about a local hold since then, which counts against its bounds.
    async fn ask_server(&mut self, since: Option<Instant>) -> Result<AcquireReply, Error> {
        let Self { lock, request, attempt, answers, .. } = self;
        let Some(since) = since else { return attempt.ask(*answers, None).await };
        let settings = &lock.target.engine.settings;
        let ask = async |since: Option<&Instant>| attempt.ask(*answers, since).await;
        request.bounds.after_waiting(since, settings, ask).boxed().await
    }

    /// What a waiter is told whose wait is over: `None`, or the lock after all. `before`: how many answers
    /// had come before the wait.
    async fn last_answer(
        &mut self,
        must_ask: bool,
        before: u64,
    ) -> Result<Option<Share>, Box<Error>> {
        let Self { lock, request, attempt, waiter, answers, .. } = self;
        let end = request.bounds.last_answer_by(&lock.target.engine.settings);
        if !must_ask && was_held(lock, request, waiter, before, end).await? {
            return Ok(None);
        }
        if let Some(share) = join_at_once(lock, request) {
            return Ok(Some(share));
        }
        match timeout_at(end, attempt.ask(*answers, None)).await {
            Ok(Ok(Granted { .. })) => Ok(Some(attempt.take_share())),
            Ok(Ok(Held(_))) => Ok(None),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(Error::timed_out().into()),
        }
    }
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
