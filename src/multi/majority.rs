//! Acquisition of a majority of several locks, which Redis calls RedLock.
//!
//! All servers are asked at the same time. A slow server delays the caller only if the decision needs its
//! answer. Once more than half have granted the lock, it is acquired. A task of this file
//! waits for the later grants, which are added to the guard. If too many refuse, everything is released,
//! and tried again after a random pause, because several callers may have split the servers among them.

use std::{sync::Weak, time::Duration};

use futures::{
    FutureExt,
    future::{join_all, try_join_all},
};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::{
    guard::{Members, MultiGuard},
    one_server::must_be_several,
    open_requests::{Answer, OpenRequests},
    request::{GIVE_BACK, MultiRequest, most_patient, too_few_answers},
};
use crate::{
    engine::Backoff,
    error::{Error, Loss},
    lock::Lock,
    locking::{request::Bounds, share::Share},
    redis_error::RedisErrorKind,
    run::sealed::Held,
    runtime::ClientRuntime,
    sometimes::sometimes,
};

/// How long the other servers have to answer once a majority has: this at least, else four times as
/// long as the majority took.
const LEAST_GRACE: Duration = Duration::from_millis(50);
/// How often it is looked, while a call waits, whether two of its clients are of one server.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// While the others decide whether it is granted, this grows with each try, up to this.
const MOST_GRACE: Duration = Duration::from_millis(800);

/// The result of one try.
enum Tried {
    Granted(MultiGuard),
    /// Other holders have too many servers.
    Refused,
    /// Others have some, and those that have not answered in time could have granted it.
    Undecided,
    /// Too few of all servers can grant it, or what they granted has ended since. Since when, if that
    /// may be different the next time.
    Failed(Error, Option<Instant>),
}

/// Acquires a majority. `None`: other holders had too many servers until the bounds were over.
pub(super) async fn take(
    locks: &[Lock],
    request: MultiRequest,
) -> Result<Option<MultiGuard>, Error> {
    let deadline = request.bounds.deadline();
    let settings = &locks[0].state()?.target.engine.settings;
    let mut pauses = Backoff::between(Duration::from_millis(5), Duration::from_millis(100));
    // Since when too few servers have answered.
    let mut failing = None;
    // When it is looked next whether two of the clients are of one server.
    let mut look = (!request.bounds.is_one_answer()).then(Instant::now);
    let mut patience = LEAST_GRACE;
    loop {
        match attempt(locks, request, patience, &mut look).await {
            Tried::Granted(guard) => return Ok(Some(guard)),
            Tried::Refused | Tried::Undecided if request.bounds.last_answer_decides() => {
                return Ok(None);
            }
            Tried::Refused => failing = None,
            Tried::Undecided => {
                failing = None;
                patience = (2 * patience).min(MOST_GRACE);
            }
            Tried::Failed(error, None) => return Err(error),
            Tried::Failed(error, Some(since)) => {
                let give_up = request.bounds.retry_until(*failing.get_or_insert(since), settings);
                if request.bounds.is_one_answer() || give_up <= Instant::now() {
                    return Err(error);
                }
            }
        }
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        sleep(left.unwrap_or(Duration::MAX).min(pauses.next())).await;
    }
}

/// Asks once. If it is dropped before its end, what it acquired is released. `patience`: how long those
/// may take that decide, at least. If no other try comes before the wait is over, they have all the time.
///
/// Servers whose circuit breaker is open are left out at first, if the others are a majority. They are
/// asked too when the others are too few, or take long to answer.
async fn attempt(
    locks: &[Lock],
    request: MultiRequest,
    patience: Duration,
    look: &mut Option<Instant>,
) -> Tried {
    let begun = Instant::now();
    let end = begun + limit(locks, request);
    let mut requests = OpenRequests::new(request, end);
    let mut left_out = requests.ask_responsive(locks);
    let mut tally = Tally::new(locks.len());
    // The first of those left out that were asked because they are needed.
    let mut first_late = None;
    let mut cut = end;
    while !tally.is_granted() {
        // While some are left out, those that were asked may still make it a majority.
        let until = if left_out.is_empty() { cut } else { cut.min(begun + (end - begun) / 4) };
        match timeout_at(until, requests.next()).await {
            Ok(Some(answer)) => tally.add(answer),
            _ if left_out.is_empty() => break,
            _ => {
                sometimes!("majority: those left out are asked too");
                left_out.drain(..).for_each(|lock| requests.ask(lock));
                cut = cut.max(end.min(Instant::now() + LEAST_GRACE));
                if is_last(request.bounds, cut) {
                    cut = end;
                }
                continue;
            }
        }
        if tally.is_in_vain() {
            break;
        }
        if !left_out.is_empty() && !tally.do_decide(requests.open()) {
            sometimes!("majority: those left out decide");
            first_late = Some(requests.asked());
            left_out.drain(..).for_each(|lock| requests.ask(lock));
        }
        if tally.have_most_answered() {
            let decide = tally.do_decide(requests.open());
            // They have not answered lately, and others may have split the servers among them.
            let is_late = first_late
                .is_some_and(|first| !tally.do_decide(requests.open() - requests.open_from(first)));
            let least = if decide && !is_late { patience } else { LEAST_GRACE };
            cut = end.min(begun + grace(begun).max(least));
            let give_back = LEAST_GRACE.min(2 * begun.elapsed());
            if decide && is_last(request.bounds, cut + give_back) {
                cut = if is_late { end.min(cut.max(begun + MOST_GRACE)) } else { end };
            }
        }
    }
    if tally.is_granted() {
        return complete(locks, request, tally, requests, begun, end).await;
    }
    let decide = tally.do_decide(requests.open());
    // One that decides was perhaps not given enough time.
    let enough = if decide { MOST_GRACE } else { LEAST_GRACE };
    if !tally.is_in_vain() && begun.elapsed() >= enough.min(end - begun) {
        requests.open_breakers();
    }
    tally.failed += requests.open() + left_out.len();
    drop(requests);
    if let Err(error) = tally.must_be_of_several_servers(look).await {
        return Tried::Failed(error, None);
    }
    let shares = std::mem::take(&mut tally.shares).into_iter();
    let given_back = shares.map(|share| share.into_baton().hand_off_or_release());
    let _ = timeout(GIVE_BACK, join_all(given_back)).await;
    if tally.could_be_granted() {
        return if decide { Tried::Undecided } else { Tried::Refused };
    }
    tally.failure(begun)
}

/// A majority has granted it. Others may join now, or later.
async fn complete(
    locks: &[Lock],
    request: MultiRequest,
    tally: Tally,
    mut requests: OpenRequests,
    begun: Instant,
    end: Instant,
) -> Tried {
    let (quorum, mut shares) = (tally.quorum(), tally.shares);
    // Answers that have arrived, but were not read yet.
    while let Some(Some(answer)) = requests.next().now_or_never() {
        shares.extend(answer.1.ok().flatten());
    }
    let cut = end.min(begun + grace(begun));
    if request.owner.is_some() {
        // An owner's hold must not grow later, so grants join before the guard is returned.
        while let Ok(Some(answer)) = timeout_at(cut, requests.next()).await {
            shares.extend(answer.1.ok().flatten());
        }
    }
    request.keep(&mut shares);
    let guard = MultiGuard::new(shares, quorum);
    if !guard.is_held() {
        // Mostly, its caller was not polled for long. A short lease would end the next time too.
        let why = guard.known_loss().unwrap_or(Loss::Expired);
        let ends_again = why == Loss::Expired && request.lease.is_some();
        return Tried::Failed(Error::NotHeld { why }, (!ends_again).then(Instant::now));
    }
    if requests.open() > 0
        && let Some(runtime) = runtime_of(locks)
    {
        let door = if request.owner.is_some() { Weak::new() } else { guard.door() };
        runtime.spawn(let_join(door, requests, request, cut, end));
    }
    Tried::Granted(guard)
}

/// What the servers have answered in one try.
struct Tally {
    /// How many servers there are.
    all: usize,
    shares: Vec<Share>,
    refused: Vec<Lock>,
    /// Those that have failed. In the end, also those that have not answered or were not asked.
    failed: usize,
    /// The first error that may be over the next time.
    silent: Option<Error>,
    /// What no other try helps against: how often, and the first.
    final_errors: (usize, Option<Error>),
}

impl Tally {
    fn new(all: usize) -> Self {
        let (shares, refused) = (Vec::with_capacity(all), Vec::new());
        Self { all, shares, refused, failed: 0, silent: None, final_errors: (0, None) }
    }

    fn quorum(&self) -> usize {
        self.all / 2 + 1
    }

    fn add(&mut self, (lock, answer): (Lock, Answer)) {
        match answer {
            Ok(Some(share)) => self.shares.push(share),
            Ok(None) => self.refused.push(lock),
            Err(error) if may_pass(&error) => {
                self.failed += 1;
                self.silent.get_or_insert(error);
            }
            Err(error) => {
                self.failed += 1;
                self.final_errors.0 += 1;
                self.final_errors.1.get_or_insert(error);
            }
        }
    }

    fn is_granted(&self) -> bool {
        self.shares.len() >= self.quorum()
    }

    /// Whether most have granted or refused it.
    fn have_most_answered(&self) -> bool {
        self.shares.len() + self.refused.len() >= self.quorum()
    }

    /// Whether no other try would help.
    fn is_in_vain(&self) -> bool {
        self.all - self.final_errors.0 < self.quorum()
    }

    /// Whether those that have not answered could make it a majority.
    fn do_decide(&self, open: usize) -> bool {
        self.shares.len() + open >= self.quorum()
    }

    /// Whether those that have not failed are a majority.
    fn could_be_granted(&self) -> bool {
        self.all - self.failed >= self.quorum()
    }

    /// Fails if one was refused because of another that was granted: their clients lead to one server.
    async fn must_be_of_several_servers(&self, look: &mut Option<Instant>) -> Result<(), Error> {
        let is_due = look.is_some_and(|next| next <= Instant::now());
        if is_due && !self.shares.is_empty() && !self.refused.is_empty() {
            let ask = |lock| must_be_several(lock, &self.shares, GIVE_BACK);
            try_join_all(self.refused.iter().map(ask)).await?;
            // Another of them may be refused the next time.
            *look = Some(Instant::now() + LOOK_EVERY);
        }
        Ok(())
    }

    /// Why it cannot be granted. The try began at `begun`.
    fn failure(self, begun: Instant) -> Tried {
        let in_vain = self.is_in_vain();
        match self.final_errors.1 {
            Some(error) if in_vain => Tried::Failed(error, None),
            _ => Tried::Failed(self.silent.unwrap_or_else(too_few_answers), Some(begun)),
        }
    }
}

/// Whether the server may answer otherwise the next time: rights are not given so soon, and a runtime
/// that has ended does not come back.
fn may_pass(error: &Error) -> bool {
    let Error::Redis(error) = error else { return false };
    !matches!(error.kind(), RedisErrorKind::NoPermission | RedisErrorKind::RuntimeEnded)
}

/// A runtime on which late answers are awaited. The caller's own may end.
fn runtime_of(locks: &[Lock]) -> Option<&ClientRuntime> {
    let states = locks.iter().filter_map(|lock| lock.state().ok());
    states.map(|state| &state.target.engine.life.runtime).find(|runtime| !runtime.has_ended())
}

/// How long a server may take to answer. Enough of the lease must remain then.
fn limit(locks: &[Lock], request: MultiRequest) -> Duration {
    let limit = most_patient(locks).map(|settings| settings.command_timeout).unwrap_or_default();
    limit.min(request.shortest_lease(locks) / 4)
}

/// Whether no other try comes after one that ends then.
fn is_last(bounds: Bounds, end: Instant) -> bool {
    bounds.is_one_answer() || bounds.deadline().is_some_and(|deadline| deadline <= end)
}

/// How long the other servers may take, now that a majority has answered.
fn grace(begun: Instant) -> Duration {
    LEAST_GRACE.max(4 * begun.elapsed())
}

/// Lets late grants join the guard.
async fn let_join(
    door: Weak<Members>,
    mut requests: OpenRequests,
    request: MultiRequest,
    cut: Instant,
    end: Instant,
) {
    if timeout_at(cut, let_in(&door, &mut requests, request)).await.is_err() {
        requests.open_breakers();
        let _ = timeout_at(end, let_in(&door, &mut requests, request)).await;
    }
}

async fn let_in(door: &Weak<Members>, requests: &mut OpenRequests, request: MultiRequest) {
    while let Some(answer) = requests.next().await {
        if let ((_, Ok(Some(mut share))), Some(members)) = (answer, door.upgrade()) {
            request.keep([&mut share]);
            members.join(share);
        }
    }
}
