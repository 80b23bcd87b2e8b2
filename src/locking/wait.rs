//! The one wait loop: ask, subscribe, ask again, wait.

use std::{pin::pin, sync::Arc};

use tokio::time::Instant;

use crate::{
    engine::Backoff,
    error::Error,
    locking::{
        attempt::Attempt,
        hold::target::Target,
        line::{
            head::{Entered, Head, Next},
            waiter::{Waiter, Worry},
        },
        registry::LockState,
        request::Request,
        share::Share,
    },
    owner::HoldId,
    protocol::AcquireReply::{Granted, Held},
    sometimes::sometimes,
};

/// Waits for the lock. `seen_held`: the server has said that another holder has it. `None`: it was
/// held to the end of the wait.
pub(crate) async fn wait(
    lock: &Arc<LockState>,
    request: &Request,
    attempt: &mut Attempt<'_>,
    seen_held: bool,
) -> Result<Option<Share>, Error> {
    let mut waiter = waiter(lock, request, attempt.id(), seen_held);
    // All local waiters read the server's answers, unless each has a place on the server.
    let line = &lock.target.line;
    let answers = (!waiter.stands_on_server()).then_some(&line.answers);
    let before = line.answers.count();
    'waiting: loop {
        // A copy that was not answered may still take the lock, and waiters before this one would
        // wait for it. On the server the waiter keeps its place.
        if !waiter.stands_on_server() {
            attempt.part_with_unanswered();
        }
        let mut head = match Head::enter(lock, &waiter).await? {
            Entered::Head(head) => head,
            Entered::Opened => match attempt.ask(answers).await? {
                Granted { .. } => return Ok(Some(attempt.take_share())),
                Held(_) => {
                    waiter.seen_held = true;
                    continue;
                }
            },
            Entered::TimedOut => {
                sometimes!("line: timed out before its turn");
                break;
            }
        };
        loop {
            match head.next(&mut waiter).await? {
                Next::Ask => {}
                Next::Offered(baton) => match Share::adopt(baton, request) {
                    Ok(share) => return Ok(Some(share)),
                    Err(baton) => attempt.swap_from(baton),
                },
                Next::Lost => break,
                Next::TimedOut => break 'waiting,
            }
            let answer = {
                let asking = pin!(attempt.ask(answers));
                head.showing(asking).await
            };
            match answer {
                Ok(Granted { .. }) => {
                    head.granted(&waiter);
                    return Ok(Some(attempt.take_share()));
                }
                Ok(Held(ttl)) => head.held(ttl, &mut waiter),
                Err(error) => {
                    head.failed(&error, &waiter);
                    return Err(error);
                }
            }
        }
    }
    if was_held(lock, request, &waiter, before).await? {
        return Ok(None);
    }
    match attempt.ask(answers).await? {
        Granted { .. } => Ok(Some(attempt.take_share())),
        Held(_) => Ok(None),
    }
}

fn waiter<'a>(lock: &'a LockState, request: &Request, id: &HoldId, seen_held: bool) -> Waiter<'a> {
    let Target { protocol, engine, .. } = &*lock.target;
    let backoff = request.backoff;
    Waiter {
        deadline: request.bounds.deadline(),
        lease: request.lease,
        replicas: request.replicas,
        order: protocol.order(),
        channel: protocol.channel(id),
        pauses: Backoff::between(backoff.first, backoff.most),
        first_pause: backoff.first,
        retry_timeout: engine.settings.retry_timeout,
        seen_held,
        worry: Worry::new(),
    }
}

/// Whether a waiter whose wait is over may be told that the lock is held. `before`: how many
/// answers had come before the wait.
async fn was_held(
    lock: &LockState,
    request: &Request,
    waiter: &Waiter<'_>,
    before: u64,
) -> Result<bool, Error> {
    if waiter.stands_on_server() {
        return Ok(waiter.seen_held);
    }
    let command_timeout = lock.target.engine.settings.command_timeout;
    let until = waiter.deadline.map_or_else(Instant::now, |end| end + command_timeout);
    lock.is_held(waiter.seen_held, before, request.replicas, until).await
}
