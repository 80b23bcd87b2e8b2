//! [`Watchdog`]: renews holds in batches while their guards live, and notes which holds are lost.

use std::{
    iter,
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
    determinism::{DashMap, NumberMap},
    error::Loss,
    protocol::{self, Renewed},
    sometimes::sometimes,
    wire::{Invocation, Reply, ServerId, Transport, WireError},
};

/// The most holds in one script call, as in Redisson. Each permit of a hold counts as one. It bounds how
/// long the server serves no other client.
const BATCH: usize = 100;

/// The most holds whose renewals are under way to one server. It bounds how long other requests to that server wait.
const AT_ONCE: usize = 4 * BATCH;

#[derive(Debug)]
pub(crate) struct Watchdog {
    /// Holds that were granted since the last tick, by number. Most of them end before the next
    /// tick.
    fresh: NumberMap<Weak<Lease>>,
    /// All other holds.
    schedule: Mutex<RenewalSchedule>,
    /// How many more holds may be under way, by server.
    quota: DashMap<ServerId, Arc<Semaphore>>,
    /// The lease of the holds that it renews.
    watchdog: Duration,
    tick: Duration,
    timeout: Duration,
}

impl Watchdog {
    pub(crate) fn new(watchdog: Duration, command_timeout: Duration) -> Self {
        let tick = (watchdog / 120).clamp(Duration::from_millis(5), Duration::from_millis(250));
        // A renewal without an answer must leave time for a new connection and another renewal.
        let timeout = command_timeout.min(watchdog / 8);
        let schedule = Mutex::new(RenewalSchedule::new(tick));
        Self {
            fresh: NumberMap::default(),
            schedule,
            quota: DashMap::default(),
            watchdog,
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
    /// Returns whether a lock stays held.
    pub(crate) fn close(&self) -> bool {
        let schedule = self.schedule();
        let fresh = self.fresh.iter().filter_map(|entry| entry.value().upgrade());
        let all: Vec<_> = schedule.iter().chain(fresh).collect();
        drop(schedule);
        let held: Vec<_> = all.into_iter().filter(|lease| lease.has_guard()).collect();
        let now = Instant::now();
        let stays = held.iter().any(|lease| !lease.is_of_permits() && lease.loss_at(now).is_none());
        for lease in held {
            lease.lose(Loss::Closed);
        }
        stays
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
                put(&mut schedule, &lease, now);
            }
            false
        });
        let (mut due, mut waiting, mut expired) = (Vec::new(), Vec::new(), Vec::new());
        let (mut by, soon) = (now, now + self.watchdog / 15);
        loop {
            match schedule.take(by) {
                Some(lease) => match lease.check(now, by) {
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
            put(&mut schedule, lease, now);
        }
        drop(schedule);
        // An observer is told of it.
        expired.iter().for_each(|lease| lease.expired());
        due
    }

    /// Sends the renewals that are due. Each batch is sent by itself, so one that hangs delays no
    /// other.
    fn tick(self: &Arc<Self>, transport: &Arc<dyn Transport>) {
        let mut due = self.due();
        // One call stays within one slot, and so on one server.
        let place = |(lease, _): &Due| {
            (std::ptr::from_ref(lease.script) as usize, transport.slot(&lease.renew.key))
        };
        // Outside a cluster they mostly are sorted.
        if !due.is_sorted_by_key(place) {
            due.sort_by_cached_key(place);
        }
        // Entries of servers that are gone, or have nothing to do.
        self.quota.retain(|_, quota| Arc::strong_count(quota) > 1);
        for alike in due.chunk_by(|one, next| place(one) == place(next)) {
            for batch in batches(alike) {
                let server = transport.server_id(&String::from_utf8_lossy(&batch[0].0.renew.key));
                let quota = self.quota.entry(server);
                let renewal = Renewal {
                    watchdog: self.clone(),
                    transport: transport.clone(),
                    quota: quota.or_insert_with(|| Arc::new(Semaphore::new(AT_ONCE))).clone(),
                };
                tokio::spawn(renewal.run(batch.to_vec()));
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
        if Lifecycle::has_ended(&life) {
            return;
        }
        let (Some(watchdog), Some(transport)) = (watchdog.upgrade(), transport.upgrade()) else {
            return;
        };
        watchdog.tick(&transport);
    }
}

fn put(schedule: &mut RenewalSchedule, lease: &Arc<Lease>, now: Instant) {
    if let Some(at) = lease.schedule(now) {
        schedule.add(at, lease);
    }
}

/// A hold, and the lease to which it is to be renewed.
type Due = (Arc<Lease>, Duration);

/// Splits what is due into script calls.
fn batches(mut due: &[Due]) -> impl Iterator<Item = &[Due]> {
    iter::from_fn(move || {
        let mut size = 0;
        let fits = due.iter().take_while(|(lease, _)| {
            size += lease.renew.size();
            size <= BATCH
        });
        let (batch, rest) = due.split_at(fits.count().max(1).min(due.len()));
        due = rest;
        Some(batch).filter(|batch| !batch.is_empty())
    })
}

/// Renews holds that one server has, in a task of its own.
struct Renewal {
    watchdog: Arc<Watchdog>,
    transport: Arc<dyn Transport>,
    /// How many more holds may be under way to the server.
    quota: Arc<Semaphore>,
}

impl Renewal {
    async fn run(self, batch: Vec<Due>) {
        match self.renew(&batch).await {
            Ok(()) => {}
            // The refusal of one renewal must not affect the other holds.
            Err(error)
                if batch.len() > 1
                    && (error.is_of_keys_apart() || matches!(error, WireError::Refused(_))) =>
            {
                let each = batch.chunks(1).map(async |one| {
                    if let Err(error) = self.renew(one).await {
                        self.put_all_off(one, error);
                    }
                });
                join_all(each).await;
            }
            Err(error) => self.put_all_off(&batch, error),
        }
    }

    /// Renews the holds by one call. An error concerns all of them.
    async fn renew(&self, batch: &[Due]) -> Result<(), WireError> {
        let sent = Instant::now();
        let give_up = sent + self.watchdog.timeout;
        let turn = timeout_at(give_up, self.quota.acquire_many(batch.len() as u32)).await;
        let _turn = turn.map_err(|_| WireError::unanswered("others wait for answers too long"))?;
        // A hold must not be renewed that was released meanwhile, or whose holder was told of a loss.
        let now = Instant::now();
        let is_held = |lease: &Lease| lease.loss_at(now).is_none() && lease.ended_for().is_none();
        let held = batch.iter().filter(|(lease, _)| is_held(lease));
        let held: Vec<Due> =
            held.map(|(lease, to)| (lease.clone(), lease.still_wanted(now, *to))).collect();
        // A call that got its turn late may have no answer though the server is well.
        let left = give_up.saturating_duration_since(now);
        let silence = (left >= self.watchdog.timeout / 2).then_some(left);
        let answers = ask(&self.transport, &held, give_up, silence).await?;
        let mut refused = None;
        for ((lease, to), answer) in held.into_iter().zip(answers) {
            match answer {
                Ok(answer) => lease.renewed(answer, sent, to),
                Err(error) => {
                    self.put_off(&lease);
                    let (_, holds) = refused.get_or_insert((error, 0));
                    *holds += 1;
                }
            }
        }
        if let Some((error, holds)) = refused {
            log!(warn, holds, %error, "renewal failed, trying again");
        }
        Ok(())
    }

    /// A renewal that was not answered is tried again soon.
    fn put_off(&self, lease: &Arc<Lease>) {
        lease.not_renewed();
        self.watchdog.add(lease);
    }

    fn put_all_off(&self, batch: &[Due], error: WireError) {
        sometimes!("renewal: no answer");
        log!(warn, holds = batch.len(), %error, "renewal failed, trying again");
        batch.iter().for_each(|(lease, _)| self.put_off(lease));
    }
}

/// `silence`: without an answer the server counts as silent for so long.
async fn ask(
    transport: &Arc<dyn Transport>,
    batch: &[Due],
    give_up: Instant,
    silence: Option<Duration>,
) -> Result<Vec<Result<Renewed, WireError>>, WireError> {
    let Some((first, _)) = batch.first() else { return Ok(Vec::new()) };
    let leases = batch.iter().map(|(lease, to)| (&lease.renew, to.as_millis() as u64));
    let call = protocol::renew(first.script, leases);
    let reply = timeout_at(give_up, transport.call(call)).await.map_err(|_| {
        if let Some(silence) = silence {
            transport.given_up(&first.renew.key, silence);
        }
        WireError::unanswered("no answer in time")
    })??;
    let mut answers = protocol::renewed(reply, batch.len())?;
    if let ([Err(error)], [(lease, to)]) = (&answers[..], batch)
        && error.is_of_keys_apart()
        && let Some(calls) =
            protocol::renew_apart(lease.script, &lease.renew, to.as_millis() as u64)
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
