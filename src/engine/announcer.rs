//! [`Announcer`]: writes who this client is, and which locks it has held for long.
//!
//! It looks at the holds of the watchdog, once a period, and writes what has changed since. Acquiring
//! and releasing know nothing of it. What it wrote last has a revision. If the server has another
//! one, or none, it writes everything again: so the announcement comes back after a failover, a
//! restart or a flush.

#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
    time::Duration,
};

use bytes::Bytes;
use tokio::{
    sync::Mutex,
    time::{Instant, sleep, timeout},
};

use super::{
    lease::{Lease, PresentCaller},
    lifecycle::Lifecycle,
    watchdog::Watchdog,
};
use crate::{
    config::{About, Settings},
    names,
    protocol::{
        Timely,
        announcement::{Change, field, hold, withdraw, write},
        done,
    },
    redis_error::RedisErrorKind::ReadOnly,
    wire::{Transport, WireError},
};

/// The period is a third of the watchdog's time, within these limits.
const PERIODS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));

/// How many periods the announcement lives without a write.
const LIFETIME: u32 = 3;

/// An announcement lives as long as the holds in it, but no longer than this.
const LONGEST_TTL: Duration = Duration::from_secs(24 * 3600);

/// The most holds that are announced.
const MOST_HOLDS: usize = 10_000;

/// The longest name of a lock whose holds are announced, in bytes.
const LONGEST_NAME: usize = 1024;

/// The most fields that one call changes. It bounds how long the server serves no other client.
const BATCH: usize = 100;

/// After refusals, and on a server that takes no writes, the pauses double up to this many periods.
const LONGEST_PAUSE: u32 = 6;

/// How long closing the client waits for the removal.
const WITHDRAW_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Announcer {
    about: About,
    key: Bytes,
    /// When the client was made.
    since: Instant,
    period: Duration,
    command_timeout: Duration,
    /// Locked during a write.
    told: Mutex<Told>,
}

/// What the server was told.
#[derive(Debug, Default)]
struct Told {
    /// The last revision that was used.
    revision: u64,
    /// Whether the server is known to have that revision.
    is_known: bool,
    /// The holds of that revision, by number.
    holds: BTreeMap<u64, (String, PresentCaller)>,
    /// Whether a key may be there.
    wrote: bool,
    /// Whether a refusal was logged since the last success.
    complained: bool,
    closed: bool,
}

impl Told {
    /// It is unknown what the server has.
    fn forget(&mut self) {
        self.is_known = false;
        self.holds.clear();
    }
}

/// A change of one hold: its field, and what it is from now on. `None`: it has ended.
type Step = (u64, String, Option<(PresentCaller, u64)>);

impl Announcer {
    pub(crate) fn new(client: &str, about: About, settings: &Settings) -> Self {
        Self {
            about,
            key: names::announcement(client).into(),
            since: Instant::now(),
            period: (settings.watchdog / 3).clamp(PERIODS.0, PERIODS.1),
            command_timeout: settings.command_timeout,
            told: Mutex::default(),
        }
    }

    /// Writes nothing from now on. Removes the announcement, unless it is to tell of holds that stay: it then ends with
    /// its TTL.
    pub(crate) async fn end(&self, stays: bool, transport: &Arc<dyn Transport>) {
        let by = Instant::now() + WITHDRAW_TIMEOUT;
        let removing = async {
            let mut told = self.told.lock().await;
            told.closed = true;
            if told.wrote && !stays {
                let _ = transport.call_by(withdraw(&self.key), by).await;
            }
        };
        // If it takes longer, the announcement ends with its TTL.
        let _ = timeout(WITHDRAW_TIMEOUT, removing).await;
    }

    /// Writes what has changed. Returns after how many periods to do so again.
    async fn look(&self, watchdog: &Watchdog, transport: &Arc<dyn Transport>, pause: u32) -> u32 {
        let mut told = self.told.lock().await;
        if told.closed {
            return pause;
        }
        match self.tell(&mut told, watchdog.held_long(), transport).await {
            Ok(()) => {
                told.complained = false;
                1
            }
            Err(error) => {
                told.forget();
                let is_refusal = matches!(error, WireError::Refused(_));
                // With a server that takes no writes, each try also makes a new connection.
                let is_lasting = is_refusal
                    || matches!(&error, WireError::NotNow(why) if why.kind() == ReadOnly);
                if is_refusal && !std::mem::replace(&mut told.complained, true) {
                    log!(warn, %error, "the client cannot be announced; locks do not need it");
                } else {
                    log!(debug, %error, "the client is not announced");
                }
                if is_lasting { (2 * pause).min(LONGEST_PAUSE) } else { 1 }
            }
        }
    }

    async fn tell(
        &self,
        told: &mut Told,
        leases: Vec<Arc<Lease>>,
        transport: &Arc<dyn Transport>,
    ) -> Result<(), WireError> {
        let now = Instant::now();
        let has_room = |lease: &Lease| lease.renew.key.len() <= LONGEST_NAME;
        let mut ttl = LIFETIME * self.period;
        let mut held = Vec::new();
        let is_shown = |lease: &Arc<Lease>| has_room(lease) && !lease.is_of_permits();
        for lease in leases.into_iter().filter(is_shown) {
            if let Some((what, until)) = lease.long_held(now, lease.period()) {
                ttl = ttl.max(until.saturating_duration_since(now).min(LONGEST_TTL));
                held.push((lease, what));
            }
        }
        // If the server has another revision than expected, everything is written once more.
        for _ in 0..2 {
            let steps = steps(told, &held, |key, at| transport.time_at(key, at));
            if self.write(told, steps, ttl, transport).await? {
                return Ok(());
            }
            told.forget();
        }
        Err(WireError::unanswered("another revision is there"))
    }

    /// Writes these steps, and at least that the client is there. `false`: the server has another
    /// revision.
    async fn write(
        &self,
        told: &mut Told,
        steps: Vec<Step>,
        ttl: Duration,
        transport: &Arc<dyn Transport>,
    ) -> Result<bool, WireError> {
        let mut rest = steps.as_slice();
        loop {
            let (batch, others) = rest.split_at(rest.len().min(BATCH));
            rest = others;
            if !self.write_batch(told, batch, ttl, transport).await? {
                return Ok(false);
            }
            if rest.is_empty() {
                return Ok(true);
            }
        }
    }

    async fn write_batch(
        &self,
        told: &mut Told,
        batch: &[Step],
        ttl: Duration,
        transport: &Arc<dyn Transport>,
    ) -> Result<bool, WireError> {
        let mut tries = 2;
        loop {
            tries -= 1;
            let from = told.is_known.then_some(told.revision);
            told.revision += 1;
            let mut change = Change { from, to: told.revision, ..Change::default() };
            if from.is_none() {
                change.set = self.fields(transport);
            }
            for (_, field, step) in batch {
                match step {
                    Some((held, since)) => {
                        change.set.push((field.clone(), hold(*since, held.note.as_deref())));
                    }
                    None => change.removed.push(field.clone()),
                }
            }
            let now = Instant::now();
            let not_after =
                transport.time_at(&self.key, now) + self.command_timeout.as_millis() as u64;
            let ttl = ttl.as_millis() as u64;
            told.wrote = true;
            let call = write(&self.key, not_after, ttl, change);
            match done(transport.call(call).await?)? {
                Timely::InTime(false) => return Ok(false),
                Timely::InTime(true) => break,
                // The estimate of the server's clock was wrong, and is now corrected.
                Timely::Late(now) => {
                    transport.observe(&self.key, now);
                    told.is_known = from.is_some();
                    told.revision = from.unwrap_or(told.revision);
                    if tries == 0 {
                        return Err(WireError::unanswered("the answers come too late"));
                    }
                }
            }
        }
        told.is_known = true;
        for (number, field, step) in batch {
            match step {
                Some((held, _)) => drop(told.holds.insert(*number, (field.clone(), held.clone()))),
                None => drop(told.holds.remove(number)),
            }
        }
        Ok(true)
    }

    /// The fields that describe the client.
    fn fields(&self, transport: &Arc<dyn Transport>) -> Vec<(String, String)> {
        let About { app, host, pid, version } = &self.about;
        let since = transport.time_at(&self.key, self.since);
        let fields = [
            ("app", Some(app.clone())),
            ("host", host.clone()),
            ("pid", Some(pid.to_string())),
            ("version", version.clone()),
            ("library", Some(env!("CARGO_PKG_VERSION").to_owned())),
            ("since", Some(since.to_string())),
        ];
        fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }
}

/// What has changed since the server was told. `time`: the server time of a key's server at a
/// moment.
fn steps(
    told: &Told,
    held: &[(Arc<Lease>, PresentCaller)],
    time: impl Fn(&[u8], Instant) -> u64,
) -> Vec<Step> {
    let now: BTreeMap<u64, &(Arc<Lease>, PresentCaller)> =
        held.iter().map(|one| (one.0.renew.id.number(), one)).collect();
    let ended = told.holds.iter().filter(|(number, _)| !now.contains_key(number));
    let mut steps: Vec<Step> =
        ended.map(|(number, (field, _))| (*number, field.clone(), None)).collect();
    // Those that are announced already stay, whatever comes.
    let mut room = MOST_HOLDS.saturating_sub(told.holds.len() - steps.len());
    for (number, (lease, held)) in now {
        match told.holds.get(&number) {
            Some((_, before)) if before == held => continue,
            Some(_) => {}
            None if room == 0 => continue,
            None => room -= 1,
        }
        let key = &lease.renew.key;
        if let Some(field) = field(lease.renew.id.as_str(), names::text(key)) {
            steps.push((number, field, Some((held.clone(), time(key, held.since)))));
        }
    }
    steps
}

/// Runs the task. It ends with the engine.
pub(super) async fn run(
    life: Weak<Lifecycle>,
    announcer: Weak<Announcer>,
    watchdog: Weak<Watchdog>,
    transport: Weak<dyn Transport>,
) {
    let mut pause = 1;
    loop {
        if Lifecycle::has_ended(&life) {
            return;
        }
        let (Some(announcer), Some(watchdog), Some(transport)) =
            (announcer.upgrade(), watchdog.upgrade(), transport.upgrade())
        else {
            return;
        };
        pause = announcer.look(&watchdog, &transport, pause).await;
        let next = pause * announcer.period;
        drop((announcer, watchdog, transport));
        sleep(next).await;
    }
}
