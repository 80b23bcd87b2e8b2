//! [`Hold`]: an outermost hold on a lock, from its grant to its release.
//!
//! A hold knows the lock on its server ([`target::Target`]). It does not know the local waiters, or
//! who has it next.

pub(crate) mod cleanup;
mod listener;
mod reenter;
pub(crate) mod registration;
pub(crate) mod release;
pub(crate) mod target;
mod transfer;

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::{Mutex, MutexGuard, Semaphore},
    time::{Instant, sleep_until, timeout_at},
};

use self::{listener::Listener, registration::Registration, target::Target};
use crate::{
    determinism::select,
    engine::Lease,
    error::{Error, Loss},
    locking::copies::Copies,
    observer::HoldEnd,
    options::Replicas,
    owner::HoldId,
    protocol,
    wire::WireError,
};

/// An outermost hold on a lock.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) target: Arc<Target>,
    pub(crate) lease: Arc<Lease>,
    /// For an owner's hold.
    registration: Option<Registration<Hold>>,
    /// The hold count. It stays locked while it is changed on the server, so that the server sees
    /// the changes one after the other.
    count: Mutex<u32>,
    /// A copy of the count that is read without a lock.
    shown: AtomicU32,
    /// How many prolongations are under way, or about to begin.
    prolongations: AtomicU32,
    /// A one-shot event: a semaphore without permits, closed when the hold is over for its owner. See
    /// [`Hold::until_over`].
    over: Semaphore,
    /// The fencing token, for a kind that has one.
    token: Option<u64>,
    /// How many replicas had to confirm it, and how many did if they were asked.
    replicas: Replicas,
    acknowledged: Option<u32>,
    /// The latest not-after time of the attempt's copies that were never answered.
    unanswered: Option<u64>,
    /// Made when its caller first wants to know whether somebody asks for the lock.
    listener: OnceLock<Box<Listener>>,
}

/// What the server has granted.
#[derive(Debug)]
pub(crate) struct Grant {
    pub(crate) id: HoldId,
    /// When the request was sent that was granted.
    pub(crate) sent: Instant,
    pub(crate) lease: Duration,
    pub(crate) token: Option<u64>,
    pub(crate) replicas: Replicas,
    pub(crate) acknowledged: Option<u32>,
    pub(crate) unanswered: Option<u64>,
    /// The owner's write hold under which it reads.
    pub(crate) under: Option<Arc<Lease>>,
}

#[cfg(test)]
impl Grant {
    /// What a server grants of a lock that is free.
    pub(crate) fn of(target: &Target, lease: Duration) -> Self {
        Self {
            id: target.protocol.id(&target.engine.identity),
            sent: Instant::now(),
            lease,
            token: None,
            replicas: Replicas::None,
            acknowledged: None,
            unanswered: None,
            under: None,
        }
    }
}

impl Hold {
    /// A hold that the server has granted, entered once. `watched`: the watchdog is to renew it.
    pub(crate) fn begin(
        target: &Arc<Target>,
        grant: Grant,
        registration: Option<Registration<Self>>,
        watched: bool,
    ) -> Arc<Self> {
        let Grant { id, sent, token, replicas, acknowledged, unanswered, under, .. } = grant;
        let lease_time = grant.lease;
        let watchdog = target.engine.settings.watchdog;
        let lease = Lease::new(&*target.protocol, id, sent, lease_time, watchdog, under);
        let lease = Arc::new(lease);
        if watched {
            lease.watch_granted(sent);
        }
        target.engine.watchdog.add(&lease);
        target.hold_begins();
        let hold = Arc::new(Self {
            target: target.clone(),
            lease,
            registration,
            count: Mutex::new(1),
            shown: AtomicU32::new(1),
            prolongations: AtomicU32::new(0),
            over: Semaphore::new(0),
            token,
            replicas,
            acknowledged,
            unanswered,
            listener: OnceLock::new(),
        });
        if let Some(registration) = &hold.registration {
            registration.enter(&hold);
        }
        hold
    }

    pub(crate) fn id(&self) -> &HoldId {
        &self.lease.renew.id
    }

    pub(crate) fn token(&self) -> Option<u64> {
        self.token
    }

    pub(crate) fn acknowledged(&self) -> Option<u32> {
        self.acknowledged
    }

    /// Whether a guard of the hold is left.
    pub(crate) fn has_guard(&self) -> bool {
        self.lease.has_guard()
    }

    /// Whether an owner holds it, maybe several times.
    pub(crate) fn is_owned(&self) -> bool {
        self.registration.is_some()
    }

    pub(crate) fn count(&self) -> u32 {
        self.shown.load(Ordering::Relaxed)
    }

    /// Its release was answered, or has failed, or it belongs to another caller: its owner waits for
    /// it no longer.
    pub(crate) fn mark_over(&self) {
        self.over.close();
    }

    /// Completes when somebody has asked for the hold: see `lock/asking.rs`. The first call begins to
    /// listen, until the hold ends.
    pub(crate) async fn asked_to_release(&self) {
        self.listener().asked().await;
    }

    /// Whether somebody has, as far as known. The first call begins to listen.
    pub(crate) fn is_asked_to_release(&self) -> bool {
        self.listener().is_asked()
    }

    fn listener(&self) -> &Listener {
        self.listener.get_or_init(|| Box::new(Listener::start(&self.target, &self.lease)))
    }

    /// Waits until a hold that no guard is left of is over, or until this moment. Returns whether it
    /// is over.
    pub(crate) async fn until_over(&self, until: Instant) -> Result<bool, Error> {
        select! {
            _ = self.over.acquire() => Ok(true),
            () = sleep_until(until) => Ok(false),
            closed = self.target.engine.closing() => Err(closed),
        }
    }

    /// Waits while another change of the count has no answer yet. Returns the count, and the copies
    /// of the change that comes next. `None`: the time is over.
    async fn counting(&self, copies: Copies) -> Option<(MutexGuard<'_, u32>, Copies)> {
        if let Ok(count) = self.count.try_lock() {
            return Some((count, copies));
        }
        let count = timeout_at(copies.retry_until(), self.count.lock()).await.ok()?;
        Some((count, copies.after_a_wait()))
    }

    fn set_count(&self, count: &mut u32, to: u32) {
        *count = to;
        self.shown.store(to, Ordering::Relaxed);
    }

    /// Asks the server whether the hold is there.
    pub(crate) async fn check(&self) -> Result<(), Error> {
        self.check_by(Instant::now() + self.target.engine.settings.command_timeout).await
    }

    /// Asks the server whether the hold is there. The answer comes by this moment, or within the command
    /// timeout if that is sooner.
    pub(crate) async fn check_by(&self, by: Instant) -> Result<(), Error> {
        if self.lease.loss().is_none() {
            self.target.engine.check_open()?;
        }
        match self.find_loss(by).await {
            // The answer may have waited for its caller while the lease ended.
            Ok(None) => self.lease.check_trusted(),
            Ok(Some(why)) => Err(Error::NotHeld { why }),
            Err(error) => Err(error.into_error(self.target.name())),
        }
    }

    /// As [`check_by`](Self::check_by). Returns why the hold is not there.
    pub(crate) async fn find_loss(&self, by: Instant) -> Result<Option<Loss>, WireError> {
        if let Some(why) = self.lease.loss() {
            return Ok(Some(why));
        }
        let Target { engine, protocol, .. } = &*self.target;
        let reply = engine.transport.call_by(protocol.look_for(self.id()), by).await?;
        let snapshot = protocol::inspected(reply)?;
        if snapshot.has(self.id()) {
            return Ok(None);
        }
        let why = match snapshot.is_free() {
            true => self.lease.why_gone(),
            false => Loss::Taken,
        };
        self.lease.lose(why);
        Ok(Some(why))
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.target.engine.watchdog.remove(&self.lease);
        self.target.hold_ends();
        // Its release was never answered, because the client was closed or its runtime has ended.
        self.lease.turns.end(HoldEnd::Lost(Loss::Closed));
    }
}
