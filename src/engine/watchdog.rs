//! Renews holds in batches while their guards live, and notices when one is past saving.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::Duration,
};

use dashmap::DashMap;
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep, timeout},
};

use super::{Engine, Lease};
use crate::{
    error::Loss,
    protocol::{self, Renewed},
    wire::{Script, Transport, WireError},
};

/// So many of these calls are under way to one server at a time: what others ask of it meanwhile waits
/// for no more than these.
const AT_ONCE: usize = 4;

/// So many holds are renewed by one script call, as Redisson does: it bounds how long the server
/// is kept from others.
const BATCH: usize = 100;

#[derive(Debug)]
pub(crate) struct Watchdog {
    /// Every hold of this client, by the address of its lease.
    leases: DashMap<usize, Weak<Lease>>,
    lease: Duration,
    timeout: Duration,
}

impl Watchdog {
    pub(crate) fn new(lease: Duration, command_timeout: Duration) -> Self {
        // Renewals without an answer must leave time for a new connection, and one more of them.
        Self { leases: DashMap::new(), lease, timeout: command_timeout.min(lease / 8) }
    }

    pub(crate) fn add(&self, lease: &Arc<Lease>) {
        self.leases.insert(address(lease), Arc::downgrade(lease));
    }

    pub(crate) fn remove(&self, lease: &Arc<Lease>) {
        self.leases.remove(&address(lease));
    }

    /// Tells every holder that its hold is on its own now.
    pub(crate) fn close(&self) {
        for lease in self.alive() {
            lease.lose(Loss::Closed);
        }
    }

    /// Sends what is due, each batch on its own: one that hangs delays no other.
    fn tick(&self, transport: &Arc<dyn Transport>) {
        let now = Instant::now();
        let mut due = Vec::new();
        // A batch that goes anyway takes along what would be due soon.
        let mut company = Vec::new();
        let soon = now + self.lease / 15;
        for lease in self.alive() {
            match lease.take_due(now, now, self.lease) {
                Some(to) => due.push((lease, to)),
                None if company.len() < BATCH && lease.is_due(soon) => company.push(lease),
                None => {}
            }
        }
        let room = due.len().next_multiple_of(BATCH) - due.len();
        due.extend(company.into_iter().take(room).filter_map(|lease| {
            let to = lease.take_due(now, soon, self.lease)?;
            Some((lease, to))
        }));
        // One call stays within one slot, and so on one server.
        let place = |(lease, _): &Due| {
            (std::ptr::from_ref(lease.script) as usize, transport.slot(&lease.renew.key))
        };
        due.sort_by_cached_key(place);
        let mut turns = HashMap::new();
        for alike in due.chunk_by(|one, next| place(one) == place(next)) {
            for batch in alike.chunks(BATCH) {
                let server = transport.place(&String::from_utf8_lossy(&batch[0].0.renew.key));
                let turns =
                    turns.entry(server).or_insert_with(|| Arc::new(Semaphore::new(AT_ONCE)));
                let (transport, batch) = (transport.clone(), batch.to_vec());
                tokio::spawn(renew(turns.clone(), transport, batch, self.lease, self.timeout));
            }
        }
    }

    fn alive(&self) -> impl Iterator<Item = Arc<Lease>> {
        self.leases.iter().filter_map(|entry| entry.value().upgrade())
    }
}

/// The task. Ends with the engine.
pub(super) async fn run(engine: Weak<Engine>) {
    let Some(pause) = engine.upgrade().map(|engine| {
        (engine.watchdog.lease / 30).clamp(Duration::from_millis(5), Duration::from_secs(1))
    }) else {
        return;
    };
    loop {
        sleep(pause).await;
        let Some(engine) = engine.upgrade() else { return };
        if engine.check_open().is_err() {
            return;
        }
        engine.watchdog.tick(&engine.transport);
    }
}

/// A hold, and the lease it is to be renewed to.
type Due = (Arc<Lease>, Duration);

async fn renew(
    turns: Arc<Semaphore>,
    transport: Arc<dyn Transport>,
    batch: Vec<Due>,
    watchdog: Duration,
    patience: Duration,
) {
    // A wait for its turn is part of it: what is sent too late would renew what is lost by then.
    let sent = Instant::now();
    match ask(&turns, transport, &batch, patience).await {
        Ok(answers) => {
            for ((hold, to), answer) in batch.iter().zip(answers) {
                hold.renewed(answer, sent, *to, watchdog);
            }
        }
        Err(error) => {
            tracing::warn!(holds = batch.len(), %error, "renewal failed, trying again");
            for (hold, _) in &batch {
                hold.not_renewed(watchdog);
            }
        }
    }
}

async fn ask(
    turns: &Semaphore,
    transport: Arc<dyn Transport>,
    batch: &[Due],
    patience: Duration,
) -> Result<Vec<Renewed>, WireError> {
    let script: &'static Script = batch[0].0.script;
    let holds = batch.iter().map(|(hold, to)| (&hold.renew, to.as_millis() as u64));
    let call = protocol::renew(script, holds);
    let answer = async {
        let _turn = turns.acquire().await;
        transport.call(call).await
    };
    let reply = timeout(patience, answer).await.map_err(|_| {
        transport.given_up(&batch[0].0.renew.key);
        WireError::unanswered("no answer in time")
    })??;
    let answers = protocol::renewed(reply)?;
    if answers.len() != batch.len() {
        return Err(WireError::refused("renewals were answered in part"));
    }
    Ok(answers)
}

fn address(lease: &Arc<Lease>) -> usize {
    Arc::as_ptr(lease) as usize
}
