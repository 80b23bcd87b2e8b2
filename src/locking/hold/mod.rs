//! An outermost hold on a lock, and the shares in it that guards have.

mod cleanup;
mod pass;
mod release;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::{Mutex, MutexGuard},
    time::{Instant, timeout_at},
};

pub(crate) use self::cleanup::{sweep, take_back};
use crate::{
    engine::{Backoff, Lease},
    error::{Error, Loss},
    locking::patience::Patience,
    locking::registry::Entry,
    locking::share::Share,
    owner::{OwnerId, OwnerKey},
    protocol::{self, Reentry, Terms},
    replicas::Replicas,
    wire::{Reply, WireError},
};

#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) entry: Arc<Entry>,
    pub(crate) lease: Arc<Lease>,
    owner: Option<OwnerKey>,
    /// The hold count. Whoever changes it on the server keeps it locked meanwhile, so changes
    /// reach the server one after the other.
    count: Mutex<u32>,
    /// The same, for a glance.
    shown: AtomicU32,
    /// The fencing token of a kind that has one.
    token: Option<u64>,
    /// How many replicas had to confirm it, and how many did if they were asked.
    replicas: Replicas,
    acknowledged: Option<u32>,
    /// As in the claim it came from.
    unanswered: Option<u64>,
}

/// What the server has granted.
#[derive(Debug)]
pub(crate) struct Grant {
    pub(crate) id: OwnerId,
    /// When the winning request was sent.
    pub(crate) sent: Instant,
    pub(crate) lease: Duration,
    pub(crate) token: Option<u64>,
    pub(crate) replicas: Replicas,
    pub(crate) acknowledged: Option<u32>,
    pub(crate) unanswered: Option<u64>,
    /// The owner's write hold under which a read was taken.
    pub(crate) under: Option<Arc<Lease>>,
}

impl Hold {
    pub(crate) fn begin(
        entry: &Arc<Entry>,
        grant: Grant,
        owner: Option<OwnerKey>,
        watched: bool,
    ) -> Share {
        let Grant { id, sent, token, replicas, acknowledged, unanswered, under, .. } = grant;
        let lease_time = grant.lease;
        let watchdog = entry.engine.settings.watchdog;
        let lease = Lease::new(&*entry.protocol, id, sent, lease_time, watchdog, under);
        let lease = Arc::new(lease);
        if watched {
            lease.watch(sent + lease_time / 3);
        }
        entry.engine.watchdog.add(&lease);
        entry.held.fetch_add(1, Ordering::Relaxed);
        let hold = Arc::new(Self {
            entry: entry.clone(),
            lease,
            owner,
            count: Mutex::new(1),
            shown: AtomicU32::new(1),
            token,
            replicas,
            acknowledged,
            unanswered,
        });
        if let Some(owner) = owner {
            entry.remember(owner, &hold);
        }
        Self::share(hold, watched)
    }

    /// One more share in it. Whoever closes the client sees it, or else it is told here.
    fn share(hold: Arc<Self>, watched: bool) -> Share {
        let share = Share::new(hold, watched);
        if share.hold().entry.engine.check_open().is_err() {
            share.hold().lease.lose(Loss::Closed);
        }
        share
    }

    pub(crate) fn id(&self) -> &OwnerId {
        &self.lease.renew.id
    }

    pub(crate) fn token(&self) -> Option<u64> {
        self.token
    }

    pub(crate) fn acknowledged(&self) -> Option<u32> {
        self.acknowledged
    }

    /// Whether anybody still means to hold it.
    pub(crate) fn is_wanted(&self) -> bool {
        self.lease.is_wanted()
    }

    pub(crate) fn count(&self) -> u32 {
        self.shown.load(Ordering::Relaxed)
    }

    fn set_count(&self, count: &mut u32, to: u32) {
        *count = to;
        self.shown.store(to, Ordering::Relaxed);
    }

    /// Takes the lock once more for the owner that has it. `None`: the hold has ended meanwhile.
    pub(crate) async fn reenter(
        self: Arc<Self>,
        lease_time: Duration,
        watched: bool,
        patience: Patience,
        replicas: Replicas,
    ) -> Result<Option<Share>, Error> {
        let give_up = patience.give_up(Instant::now(), &self.entry.engine.settings);
        let mut count = self.counting(give_up).await?;
        if *count == 0 {
            return Ok(None);
        }
        let to = count.checked_add(1).ok_or_else(|| Error::Invalid("held too often".into()))?;
        let raised = match self.lease.loss() {
            Some(why) => Err(Error::NotHeld { why }),
            None => self.raise(to, lease_time, give_up, replicas).await,
        };
        let sent = match raised {
            // Its owner gave it back, lost as it was.
            Err(Error::NotHeld { .. }) if !self.is_wanted() => return Ok(None),
            raised => raised?,
        };
        if watched {
            self.lease.watch(sent + lease_time / 3);
        }
        self.set_count(&mut count, to);
        drop(count);
        Ok(Some(Self::share(self, watched)))
    }

    /// Sees to it that the hold lasts for so long from now on, if it does not last longer.
    pub(crate) async fn prolong(
        self: Arc<Self>,
        lease: Duration,
        patience: Patience,
    ) -> Result<(), Error> {
        let give_up = patience.give_up(Instant::now(), &self.entry.engine.settings);
        let count = self.counting(give_up).await?;
        self.raise(*count, lease, give_up, Replicas::None).await.map(drop)
    }

    /// Waits behind a release that has no answer yet.
    async fn counting(&self, give_up: Instant) -> Result<MutexGuard<'_, u32>, Error> {
        timeout_at(give_up, self.count.lock())
            .await
            .map_err(|_| WireError::unanswered("no answer in time").into_error(self.entry.name()))
    }

    /// Says when the request was sent that was granted.
    async fn raise(
        &self,
        to: u32,
        lease: Duration,
        give_up: Instant,
        replicas: Replicas,
    ) -> Result<Instant, Error> {
        let engine = &self.entry.engine;
        let mut backoff = Backoff::new();
        loop {
            let sent = Instant::now();
            self.lease.asked(sent, lease);
            let terms =
                Terms { lease: lease.as_millis() as u64, not_after: self.entry.not_after(sent) };
            let call = self.entry.protocol.reenter(self.id(), terms, to);
            let is_due = |reply: &Reply| *reply == Reply::Int(1);
            let mut acknowledged = None;
            let answer = engine.call(call, replicas, is_due).await.and_then(|reply| {
                let (reply, by) = reply.split();
                acknowledged = by;
                protocol::reentered(reply)
            });
            let error = match answer {
                Ok(Reentry::Granted) => {
                    self.lease.confirm(sent, lease);
                    if let Some(acknowledged) = acknowledged.filter(|by| !by.is_enough()) {
                        return Err(acknowledged.into());
                    }
                    // Its holder may have been told meanwhile.
                    return match self.lease.loss() {
                        Some(why) => Err(Error::NotHeld { why }),
                        None => Ok(sent),
                    };
                }
                Ok(Reentry::Gone) => {
                    let why = self.lease.why_gone();
                    self.lease.lose(why);
                    return Err(Error::NotHeld { why });
                }
                Ok(Reentry::Late(now)) => {
                    self.entry.observe(now);
                    WireError::unanswered("the answers come too late")
                }
                Err(error) => error,
            };
            engine
                .may_retry(error, &mut backoff, give_up)
                .await
                .map_err(|error| error.into_error(self.entry.name()))?;
        }
    }

    /// Asks the server whether the hold is there.
    pub(crate) async fn check(&self) -> Result<(), Error> {
        if let Some(why) = self.lease.loss() {
            return Err(Error::NotHeld { why });
        }
        let reply = self.entry.ask(self.entry.protocol.inspect()).await?;
        let snapshot =
            protocol::inspected(reply).map_err(|error| error.into_error(self.entry.name()))?;
        if snapshot.fields.iter().any(|(holder, _)| holder == self.id().as_str()) {
            return Ok(());
        }
        let why = match snapshot.fields.is_empty() {
            true => self.lease.why_gone(),
            false => Loss::Taken,
        };
        self.lease.lose(why);
        Err(Error::NotHeld { why })
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.entry.engine.watchdog.remove(&self.lease);
        self.entry.held.fetch_sub(1, Ordering::Relaxed);
        if let Some(owner) = self.owner {
            self.entry.forget(owner);
        }
    }
}
