//! [`Watchdog`]: renews holds in batches while their guards live, and notes which holds are lost.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use futures::future::join_all;
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep, timeout_at},
};

use super::{
    lease::{Check, Lease},
    lifecycle::Lifecycle,
    renewal_schedule::RenewalSchedule,
};
use crate::{
    determinism::DashMap,
    error::Loss,
    protocol::{self, Renewed},
    sometimes::sometimes,
    wire::{Invocation, Reply, Transport, WireError},
};

/// The most holds in one script call, as in Redisson. It bounds how long the server serves no other
/// client.
const BATCH: usize = 100;

/// The most holds whose renewals are under way to one server. It bounds how long other requests to
/// that server wait.
const AT_ONCE: usize = 4 * BATCH;

#[derive(Debug)]
pub(crate) struct Watchdog {
    /// Holds that were granted since the last tick, by number. Most of them end before the next
    /// tick.
    fresh: DashMap<u64, Weak<Lease>>,
    /// All other holds.
    schedule: Mutex<RenewalSchedule>,
    /// How many more holds may be under way, by server.
    turns: DashMap<u64, Arc<Semaphore>>,
    lease: Duration,
    tick: Duration,
    timeout: Duration,
}

impl Watchdog {
    pub(crate) fn new(lease: Duration, command_timeout: Duration) -> Self {
        let tick = (lease / 120).clamp(Duration::from_millis(5), Duration::from_millis(250));
        // A renewal without an answer must leave time for a new connection and another renewal.
        let timeout = command_timeout.min(lease / 8);
        let schedule = Mutex::new(RenewalSchedule::new(tick));
        Self {
            fresh: DashMap::default(),
            schedule,
            turns: DashMap::default(),
            lease,
            tick,
            timeout,
        }
    }

    pub(crate) fn add(&self, lease: &Arc<Lease>) {
        self.fresh.insert(lease.renew.id.number(), Arc::downgrade(lease));
    }

    /// Removes a hold that has ended. An entry in the schedule is skipped when it is due.
    pub(crate) fn remove(&self, lease: &Arc<Lease>) {
        self.fresh.remove(&lease.renew.id.number());
    }

    /// Tells every holder that its hold is no longer renewed. A released hold is about to be freed.
    pub(crate) fn close(&self) {
        let schedule = self.schedule();
        let fresh = self.fresh.iter().filter_map(|entry| entry.value().upgrade());
        let all: Vec<_> = schedule.iter().chain(fresh).collect();
        drop(schedule);
        for lease in all.into_iter().filter(|lease| lease.is_wanted()) {
            lease.lose(Loss::Closed);
        }
    }

    /// The holds that it has known for a tick at least. Some of them may have ended.
    pub(crate) fn held_long(&self) -> Vec<Arc<Lease>> {
        self.schedule().iter().collect()
    }

    /// How many holds it knows.
    #[cfg(test)]
    pub(crate) fn known(&self) -> usize {
        self.schedule().len() + self.fresh.len()
    }

    fn schedule(&self) -> MutexGuard<'_, RenewalSchedule> {
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the holds to renew now.
    fn due(&self) -> Vec<Due> {
        let now = Instant::now();
        // Unless the schedule is locked, each hold is in one of the two.
        let mut schedule = self.schedule();
        self.fresh.retain(|_, lease| {
            if let Some(lease) = lease.upgrade() {
                self.put(&mut schedule, &lease, now);
            }
            false
        });
        let (mut due, mut waiting, mut expired) = (Vec::new(), Vec::new(), Vec::new());
        let (mut by, soon) = (now, now + self.lease / 15);
        loop {
            match schedule.take(by) {
                Some(lease) => match lease.check(now, by, self.lease) {
                    Check::Renew(to) => due.push((lease, to)),
                    Check::Wait => waiting.push(lease),
                    Check::Expired => expired.push(lease),
                    Check::Over => {}
                },
                // A batch that is sent anyway also takes holds that are due soon.
                None if by < soon => by = soon,
                None => break,
            }
            if by == soon && due.len().is_multiple_of(BATCH) {
                break;
            }
        }
        for lease in due.iter().map(|(lease, _)| lease).chain(&waiting) {
            self.put(&mut schedule, lease, now);
        }
        drop(schedule);
        // An observer is told of it.
        expired.iter().for_each(|lease| lease.expired());
        due
    }

    fn put(&self, schedule: &mut RenewalSchedule, lease: &Arc<Lease>, now: Instant) {
        if let Some(at) = lease.schedule(now, self.lease) {
            schedule.add(at, lease);
        }
    }

    /// Sends the renewals that are due. Each batch is sent by itself, so one that hangs delays no
    /// other.
    fn tick(self: &Arc<Self>, transport: &Arc<dyn Transport>) {
        let mut due = self.due();
        // One call stays within one slot, and so on one server.
        let place = |(lease, _): &Due| {
            (std::ptr::from_ref(lease.script) as usize, transport.slot(&lease.renew.key))
        };
        due.sort_by_cached_key(place);
        // Entries of servers that are gone, or have nothing to do.
        self.turns.retain(|_, turns| Arc::strong_count(turns) > 1);
        for alike in due.chunk_by(|one, next| place(one) == place(next)) {
            for batch in alike.chunks(BATCH) {
                let server = transport.place(&String::from_utf8_lossy(&batch[0].0.renew.key));
                let turns = self.turns.entry(server);
                let turns = turns.or_insert_with(|| Arc::new(Semaphore::new(AT_ONCE))).clone();
                let (transport, batch) = (transport.clone(), batch.to_vec());
                tokio::spawn(renew(self.clone(), turns, transport, batch));
            }
        }
    }
}

/// Runs the task. It ends with the engine.
pub(super) async fn run(
    life: Weak<Lifecycle>,
    watchdog: Weak<Watchdog>,
    transport: Weak<dyn Transport>,
) {
    let Some(tick) = watchdog.upgrade().map(|watchdog| watchdog.tick) else { return };
    loop {
        sleep(tick).await;
        if life.upgrade().is_none_or(|life| life.check_open().is_err()) {
            return;
        }
        let (Some(watchdog), Some(transport)) = (watchdog.upgrade(), transport.upgrade()) else {
            return;
        };
        watchdog.tick(&transport);
    }
}

/// A hold, and the lease to which it is to be renewed.
type Due = (Arc<Lease>, Duration);

async fn renew(
    watchdog: Arc<Watchdog>,
    turns: Arc<Semaphore>,
    transport: Arc<dyn Transport>,
    batch: Vec<Due>,
) {
    let put_off = |hold: &Arc<Lease>| {
        hold.not_renewed(watchdog.lease);
        watchdog.add(hold);
    };
    let renew_all = async |batch: &[Due]| -> Result<(), WireError> {
        let sent = Instant::now();
        let give_up = sent + watchdog.timeout;
        let turn = timeout_at(give_up, turns.acquire_many(batch.len() as u32)).await;
        let _turn = turn.map_err(|_| WireError::unanswered("others wait for answers too long"))?;
        // A hold whose holder was told of a loss meanwhile must not be renewed.
        let now = Instant::now();
        let held: Vec<_> = batch.iter().filter(|(hold, _)| hold.loss_at(now).is_none()).collect();
        let answers = ask(&transport, &held, give_up).await?;
        let mut refused = None;
        for ((hold, to), answer) in held.into_iter().zip(answers) {
            match answer {
                Ok(answer) => hold.renewed(answer, sent, *to),
                Err(error) => {
                    put_off(hold);
                    let (_, holds) = refused.get_or_insert((error, 0));
                    *holds += 1;
                }
            }
        }
        if let Some((error, holds)) = refused {
            tracing::warn!(holds, %error, "renewal failed, trying again");
        }
        Ok(())
    };
    let put_all_off = |batch: &[Due], error: WireError| {
        sometimes!("renewal: no answer");
        tracing::warn!(holds = batch.len(), %error, "renewal failed, trying again");
        batch.iter().for_each(|(hold, _)| put_off(hold));
    };
    match renew_all(&batch).await {
        Ok(()) => {}
        // The refusal of one renewal must not affect the other holds.
        Err(error)
            if batch.len() > 1
                && (error.is_of_keys_apart() || matches!(error, WireError::Refused(_))) =>
        {
            let each = batch.chunks(1).map(async |one| {
                if let Err(error) = renew_all(one).await {
                    put_all_off(one, error);
                }
            });
            join_all(each).await;
        }
        Err(error) => put_all_off(&batch, error),
    }
}

async fn ask(
    transport: &Arc<dyn Transport>,
    batch: &[&Due],
    give_up: Instant,
) -> Result<Vec<Result<Renewed, WireError>>, WireError> {
    let Some((first, _)) = batch.first() else { return Ok(Vec::new()) };
    let holds = batch.iter().map(|(hold, to)| (&hold.renew, to.as_millis() as u64));
    let call = protocol::renew(first.script, holds);
    let reply = timeout_at(give_up, transport.call(call)).await.map_err(|_| {
        transport.given_up(&first.renew.key);
        WireError::unanswered("no answer in time")
    })??;
    let mut answers = protocol::renewed(reply, batch.len())?;
    if let ([Err(error)], [(hold, to)]) = (&answers[..], batch)
        && error.is_of_keys_apart()
        && let Some(calls) = protocol::renew_apart(hold.script, &hold.renew, to.as_millis() as u64)
    {
        let error = error.clone();
        answers = vec![ask_each(transport, calls, give_up).await.unwrap_or(Err(error))];
    }
    Ok(answers)
}

/// Renews a hold whose keys are on two servers, key by key. `None`: the result is unknown.
async fn ask_each(
    transport: &Arc<dyn Transport>,
    [lock, beside]: [Invocation; 2],
    give_up: Instant,
) -> Option<Result<Renewed, WireError>> {
    let held = timeout_at(give_up, transport.call(lock)).await.ok()?;
    let held = held.and_then(|held| protocol::renewed(held, 1)).ok()?.pop()?;
    if !matches!(held, Ok(Renewed::Yes)) {
        return Some(held);
    }
    let lives = timeout_at(give_up, transport.call(beside)).await.ok()?.ok()?;
    (lives == Reply::Int(1)).then_some(held)
}

#[cfg(test)]
mod tests;
