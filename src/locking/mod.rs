//! What happens between a call of `lock()` and the end of its guard.
//!
//! ```text
//! acquire --re-enter--> share        the owner holds the lock already
//!    |  `---attempt---> share        the server grants it
//!    |------join------> share        a local reader shares its hold
//!    `------wait--+---> share        the server grants it later
//!                 `---> share        a local caller hands its hold off (baton)
//! share --unlock--> baton --> the next local waiter, or the server
//! ```
//!
//! | word | meaning |
//! |---|---|
//! | hold | one grant of a lock to one holder, from the grant to the release or the loss |
//! | share | one entry of a hold: what a guard has; a re-entry adds one |
//! | baton | a hold whose last share was released, on its way to the next caller or to the server |
//! | stake | the reference to a hold that a share or a baton keeps |
//! | hand off | a released hold goes to the next local caller, in one of two ways: |
//! | adopt | the next caller has the hold as it is; mostly the server is not asked |
//! | swap | the server replaces the hold by one of the next caller: for an owner, a token or other options |
//! | local | of this client, in this process |
//! | join | a local reader takes a share of the hold that other local readers have |
//! | turn | the time for which one caller has a hold that several have one after the other |
//! | yield | after a hand-off budget is used up, other processes have their turns first |
//! | target | a lock on its server: its key, its protocol and its channel |
//! | copy | one sending of a request that may be sent several times and counts once |
//!
//! A method named by a participle notes an event (`granted`, `held`, `freed`). One that begins with `is_`
//! or `has_` answers a question.
//!
//! | file | content |
//! |---|---|
//! | [`request`], [`registry`] | the options of an acquisition; the locks and owners of a client |
//! | [`owned`] | an owner that has the lock already |
//! | [`acquisition`] | an acquisition that an observer or a `tracing` subscriber sees |
//! | [`attempt`] | one try: send, ask again, undo |
//! | [`copies`] | the copies of one request, and how long each may take |
//! | [`wait`], [`mod@line`] | the wait loop; the local line, whose head alone asks the server |
//! | [`share`], [`baton`] | what guards have; what becomes of it when they are gone |
//! | [`hold`] | the hold itself: re-entry, release, clean-up |
//! | [`handoff`], [`budget`] | a hold goes to the next local waiter; how often in a row |
//! | [`sharing`], [`mod@join`] | local readers have one hold together; how they come, join and leave, and writers keep them out |

pub(crate) mod acquisition;
pub(crate) mod attempt;
pub(crate) mod baton;
pub(crate) mod budget;
pub(crate) mod copies;
pub(crate) mod handoff;
pub(crate) mod hold;
pub(crate) mod join;
pub(crate) mod line;
pub(crate) mod owned;
pub(crate) mod registry;
pub(crate) mod request;
pub(crate) mod share;
pub(crate) mod sharing;
pub(crate) mod wait;

use std::sync::Arc;

use futures::FutureExt;
use tokio::time::Instant;
use tracing::Instrument;

use self::{
    acquisition::Acquisition,
    attempt::Attempt,
    join::{Joining, Writer},
    owned::Way,
    registry::LockState,
    request::Request,
    share::Share,
    sharing::arrival::{Arrival, Arriving, Behind, Waited},
};
use crate::{
    engine::Lease,
    error::Error,
    observer::{HoldEnd, Observed, Outcome},
    owner::OwnerId,
    protocol::{
        AcquireReply::{Granted, Held},
        Order, Side,
    },
};

/// As [`acquire_by`] or [`acquire_anew`], for an observer or a `tracing` subscriber. The hold is told to the same
/// observer.
pub(crate) async fn acquire_observed(
    lock: &Arc<LockState>,
    request: &mut Request,
    observed: Option<Observed>,
) -> Result<Option<Share>, Box<Error>> {
    let target = &lock.target;
    let acquisition = Acquisition::begin(observed.clone(), target.protocol.key(), target.kind);
    let span = acquisition.span().clone();
    request.acquisition = Some(Box::new(acquisition));
    let acquired = match request.owner {
        Some(owner) => acquire_by(lock, owner, request).boxed(),
        None => acquire_anew(lock, request, None, None).boxed(),
    };
    let mut acquired = acquired.instrument(span).await;
    let acquisition = request.acquisition.take().expect("set above");
    let granted = acquired.as_ref().map(Option::as_ref).map_err(|error| &**error);
    let hold = granted.map(|share| share.map(Share::hold));
    let begins = acquisition.end(hold.map(|hold| hold.map(|hold| hold.id().as_str())));
    if let (true, Ok(Some(share))) = (begins, &mut acquired) {
        share.begin_turn(observed);
        // It may have been lost before.
        let lease = &share.hold().lease;
        if let Some(why) = lease.loss() {
            lease.turns.end(HoldEnd::Lost(why));
        }
    }
    acquired
}

/// Acquires the lock for an owner, who may hold it already. `None`: other holders kept it until the
/// bounds were over.
pub(crate) async fn acquire_by(
    lock: &Arc<LockState>,
    owner: OwnerId,
    request: &Request,
) -> Result<Option<Share>, Box<Error>> {
    match owned::begin(lock, owner, request).boxed().await? {
        Way::Reentered(share) => {
            request.granted(Outcome::Reentered);
            Ok(Some(share))
        }
        Way::Anew { under, late: None } => acquire_anew(lock, request, under, None).await,
        Way::Anew { under, late: Some(begun) } => {
            acquire_late(lock, request, under, begun).boxed().await
        }
    }
}

/// The same as [`acquire_anew`], for a call that began at `begun` and has waited for the server
/// since.
async fn acquire_late(
    lock: &Arc<LockState>,
    request: &Request,
    under: Option<Arc<Lease>>,
    begun: Instant,
) -> Result<Option<Share>, Box<Error>> {
    let settings = &lock.target.engine.settings;
    let acquire = async |since: Option<&Instant>| acquire_anew(lock, request, under, since).await;
    request.bounds.after_waiting(begun, settings, acquire).await
}

/// Acquires a new outermost hold. `under`: the owner's write hold, under which it wants to read.
/// `since`: when the call began, if it has waited for the server before; by reference, which is half as
/// large in each future. Returns `None` as [`acquire_by`] does.
///
/// The error is boxed here and in the wait loop: results go through several callers, and are small.
pub(crate) async fn acquire_anew(
    lock: &Arc<LockState>,
    request: &Request,
    under: Option<Arc<Lease>>,
    since: Option<&Instant>,
) -> Result<Option<Share>, Box<Error>> {
    match lock.target.kind.side() {
        Side::Whole | Side::Token => ask_or_wait(lock, request, under, since).await,
        Side::Read => read(lock, request, under, since).await,
        Side::Write => write(lock, request, since).await,
    }
}

async fn read(
    lock: &Arc<LockState>,
    request: &Request,
    under: Option<Arc<Lease>>,
    since: Option<&Instant>,
) -> Result<Option<Share>, Box<Error>> {
    // Others in line may wait for the very write under which it reads.
    if under.is_some() {
        return ask_or_wait(lock, request, under, since).await;
    }
    match join::join(lock, request, false).await {
        Joining::Joined(share) => Ok(Some(share)),
        Joining::KeptOut => stand_in_line(lock, request, None).boxed().await,
        Joining::Alone(None) if lock.target.shares && may_ask_at_once(lock) => {
            match lock.sharing().arrive(request) {
                Arriving::First(first) => read_first(lock, request, since, first).boxed().await,
                Arriving::Behind(behind) => read_behind(lock, request, behind).boxed().await,
                Arriving::Alone => ask_or_wait(lock, request, under, since).await,
            }
        }
        Joining::Alone(None) => ask_or_wait(lock, request, under, since).await,
        Joining::Alone(Some(asked)) => {
            let begun = since.copied().unwrap_or(asked);
            ask_or_wait_late(lock, request, under, begun).boxed().await
        }
    }
}

/// Reads with a hold that others who come now are to join. Has no owner.
async fn read_first(
    lock: &Arc<LockState>,
    request: &Request,
    since: Option<&Instant>,
    first: Arrival<'_>,
) -> Result<Option<Share>, Box<Error>> {
    let share = ask_or_wait(lock, request, None, since).await;
    // Without an answer the others go on now.
    drop(first);
    share
}

/// Reads with the hold that another local caller asks for just now. Has no owner.
async fn read_behind(
    lock: &Arc<LockState>,
    request: &Request,
    mut behind: Behind<'_>,
) -> Result<Option<Share>, Box<Error>> {
    let deadline = request.bounds.deadline();
    loop {
        let waited = behind.wait(deadline).await;
        lock.target.engine.check_open()?;
        match waited {
            Waited::Answered => break,
            Waited::Dropped | Waited::TooLong if deadline.is_some() => {
                return ask_or_wait_late(lock, request, None, Instant::now()).await;
            }
            // The server has not been asked for this call: its time begins now.
            Waited::TooLong => return ask_or_wait(lock, request, None, None).await,
            Waited::Dropped => match lock.sharing().arrive(request) {
                Arriving::First(first) => return read_first(lock, request, None, first).await,
                Arriving::Behind(next) => behind = next,
                Arriving::Alone => return ask_or_wait(lock, request, None, None).await,
            },
        }
    }
    match join::join(lock, request, false).await {
        Joining::Joined(share) => Ok(Some(share)),
        // The head of the line asks for all.
        Joining::KeptOut | Joining::Alone(None) => stand_in_line(lock, request, None).await,
        Joining::Alone(Some(asked)) => ask_or_wait_late(lock, request, None, asked).await,
    }
}

/// The same as [`ask_or_wait`], for a call that has waited for the server since `begun`.
async fn ask_or_wait_late(
    lock: &Arc<LockState>,
    request: &Request,
    under: Option<Arc<Lease>>,
    begun: Instant,
) -> Result<Option<Share>, Box<Error>> {
    let settings = &lock.target.engine.settings;
    let ask = async |since: Option<&Instant>| ask_or_wait(lock, request, under, since).await;
    request.bounds.after_waiting(begun, settings, ask).await
}

/// Waits for the lock without asking first: the head of the line asks for all.
async fn stand_in_line(
    lock: &Arc<LockState>,
    request: &Request,
    under: Option<Arc<Lease>>,
) -> Result<Option<Share>, Box<Error>> {
    let mut attempt = Attempt::new(lock, request, under);
    wait::wait(lock, request, &mut attempt, false).await
}

async fn write(
    lock: &Arc<LockState>,
    request: &Request,
    since: Option<&Instant>,
) -> Result<Option<Share>, Box<Error>> {
    let waits = !request.bounds.is_one_answer();
    let writer = waits.then(|| Writer::waits(lock));
    let share = ask_or_wait(lock, request, None, since).await?;
    if share.is_some() {
        lock.sharing().writer_granted();
    }
    drop(writer);
    Ok(share)
}

/// Asks the server for the lock, and waits for it. All that a lock without sides needs.
pub(crate) async fn ask_or_wait(
    lock: &Arc<LockState>,
    request: &Request,
    under: Option<Arc<Lease>>,
    since: Option<&Instant>,
) -> Result<Option<Share>, Box<Error>> {
    let one_answer = request.bounds.is_one_answer();
    // Where the server keeps the line, every waiter stands in it. Local waiters may be waiting for
    // the very hold under which this caller wants to read.
    let passes_line = one_answer
        || under.is_some()
        || matches!(lock.target.protocol.order(), Order::Server { .. });
    let mut attempt = Attempt::new(lock, request, under);
    let mut seen_held = false;
    if passes_line || may_ask_at_once(lock) {
        match attempt.ask(None, since).await? {
            Granted { .. } => return Ok(Some(attempt.take_share())),
            Held(_) if one_answer => return Ok(None),
            Held(_) => seen_held = true,
        }
    }
    // Boxed, as what is rare above, to keep the future of every acquisition small.
    wait::wait(lock, request, &mut attempt, seen_held).boxed().await
}

/// Whether a new waiter may ask without standing in line: the line is empty, this process does not
/// hold the lock, and the lock is not left to others.
pub(crate) fn may_ask_at_once(lock: &LockState) -> bool {
    lock.target.line.is_empty() && lock.handoff.is_free_here()
}
