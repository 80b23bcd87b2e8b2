//! Permits of an expirable semaphore: [`acquire`], and [`LeasedPermits`], what it returns. [`release`],
//! [`change`] and [`set_lease`] need none. The guard that returns permits when it is dropped is
//! `ExpirablePermit`.

use std::{fmt, sync::Arc, time::Duration};

use futures::{FutureExt, future::BoxFuture};
use tokio::time::Instant;

use super::{
    attempt::{self, PermitGrant, Terms},
    counter::Counter,
};
use crate::{
    engine::{Lease, trust},
    error::{Error, Loss},
    locking::{copies::Copies, request::Bounds},
    owner::HoldId,
    permit_id::PermitId,
    protocol::{
        Permitting, RequestArgs, done,
        expirable::{self, Change, Expirable, Left, Return, Stock, Wanted},
    },
};

pub(crate) type LeasedPool = Arc<Counter<Expirable>>;

/// Permits that a caller has, with one lease. Dropping them returns nothing: see
/// [`LeasedPermits::give_back`].
pub(crate) struct LeasedPermits {
    pub(crate) pool: LeasedPool,
    pub(crate) ids: Box<[PermitId]>,
    pub(crate) lease: Arc<Lease>,
    pub(crate) acknowledged: Option<u32>,
    /// Whether a copy of the acquisition may still run. It is cancelled in the background.
    unclear: bool,
}

impl fmt::Debug for LeasedPermits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeasedPermits").field("ids", &self.ids).finish_non_exhaustive()
    }
}

impl LeasedPermits {
    fn begin(pool: &LeasedPool, wanted: Wanted, watched: bool, grant: PermitGrant) -> Self {
        let PermitGrant { id, sent, acknowledged, unclear } = grant;
        if unclear {
            // The permits may be taken back, or returned by anybody. A late copy of the acquisition must
            // not take them again.
            let (pool, id) = (pool.clone(), id.clone());
            let janitor = pool.engine.janitor.clone();
            janitor.spawn(async move {
                // Without an answer, no copy is of use any more when this ends.
                let _ = pool.cancel(&id).await;
            });
        }
        let ids: Box<[_]> = PermitId::of_request(&id, wanted.permits).collect();
        let watchdog = &pool.engine.watchdog;
        let time = Duration::from_millis(wanted.lease);
        let renew = pool.protocol.renewal(&id, &ids);
        let every = pool.engine.settings.watchdog;
        let lease = Lease::renewed_by(renew, &expirable::RENEW, sent, time, every);
        lease.set_shares(1);
        if watched {
            lease.watch_granted(sent);
        }
        let lease = Arc::new(lease);
        watchdog.add(&lease);
        // The call that closes the client sees these permits, or this call sees that it is closed.
        if pool.engine.check_open().is_err() {
            lease.lose(Loss::Closed);
        }
        let acknowledged = acknowledged.map(|acknowledged| acknowledged.by);
        Self { pool: pool.clone(), ids, lease, acknowledged, unclear }
    }

    /// From now on the permits are not renewed, and their holder is told of no loss.
    fn end(&self) {
        self.lease.set_shares(0);
        self.lease.end(Instant::now());
        self.pool.engine.watchdog.remove(&self.lease);
    }

    /// Returns the permits. Fails if one of them was lost.
    pub(crate) async fn give_back(self) -> Result<(), Error> {
        let lost = self.lease.loss();
        self.end();
        if self.pool.engine.is_closed() {
            return Err(Error::Closed);
        }
        let withdrawn = self.unclear.then(|| self.lease.renew.id.clone());
        let released = release(self.pool.clone(), self.ids.clone(), Return::Each, withdrawn);
        match (released.await?, lost) {
            // The server had said that they were gone, and has them back: from an old master.
            (true, Some(why @ (Loss::Removed | Loss::Taken))) => Err(Error::NotHeld { why }),
            (true, _) => Ok(()),
            (false, why) => Err(Error::NotHeld { why: why.unwrap_or(Loss::Removed) }),
        }
    }

    /// Returns the permits in the background.
    pub(crate) fn give_back_later(self) {
        // Nobody is to be told of a loss when the client is closed meanwhile.
        self.lease.set_shares(0);
        let janitor = self.pool.engine.janitor.clone();
        janitor.spawn(async move {
            let (pool, permits) = (self.pool.clone(), self.ids.len());
            match self.give_back().await {
                // Its holder had been told, or did not ask.
                Ok(()) | Err(Error::NotHeld { .. } | Error::Closed) => {}
                Err(error) => {
                    let name = pool.name();
                    log!(warn, name, permits, %error, "permits are not returned yet");
                }
            }
        });
    }

    /// Gives up the permits without returning them. They are no longer renewed.
    pub(crate) fn leave(self) -> Vec<PermitId> {
        self.end();
        self.ids.into_vec()
    }

    /// Asks the server whether all permits are still out.
    pub(crate) async fn check(&self) -> Result<(), Error> {
        self.lease.check_trusted()?;
        if remaining(&self.pool, &self.ids).await?.contains(&Left::Nothing) {
            let why = self.lease.why_gone();
            self.lease.lose(why);
            return Err(Error::NotHeld { why });
        }
        // The answer may have waited for its caller while the lease ended.
        self.lease.check_trusted()
    }
}

/// Acquires permits. `lease`: `None` if the watchdog is to renew them. The result is `None` if there
/// were not enough until the bounds were over.
pub(crate) async fn acquire(
    pool: &LeasedPool,
    permits: u32,
    lease: Option<Duration>,
    bounds: Bounds,
) -> Result<Option<LeasedPermits>, Error> {
    let time = lease.unwrap_or(pool.engine.settings.watchdog);
    let wanted = Wanted { permits, lease: time.as_millis() as u64 };
    let grant = attempt::acquire(pool, wanted, bounds, &TERMS).await?;
    Ok(grant.map(|grant| LeasedPermits::begin(pool, wanted, lease.is_none(), grant)))
}

const TERMS: Terms<Expirable> = Terms { judge, give_back };

/// The server finds the permits by their ids.
fn give_back(pool: LeasedPool, id: HoldId, wanted: Wanted) -> BoxFuture<'static, bool> {
    async move {
        let call = |counter: &Expirable, kept| counter.withdraw(&id, wanted, kept);
        pool.undo(wanted.permits.into(), call).await
    }
    .boxed()
}

/// Permits that are no longer trusted when the answer comes are of no use.
fn judge(wanted: Wanted, grant: &PermitGrant) -> Result<(), Error> {
    match Instant::now() < grant.sent + trust(Duration::from_millis(wanted.lease)) {
        true => Ok(()),
        false => Err(Error::NotHeld { why: Loss::Expired }),
    }
}

/// Returns permits. `false`: some were not out any more, or their lease had ended. If the server does
/// not answer in time, it goes on in the background. `withdrawn`: the acquisition of which a copy may
/// still run.
pub(crate) async fn release(
    pool: LeasedPool,
    permits: Box<[PermitId]>,
    which: Return,
    withdrawn: Option<HoldId>,
) -> Result<bool, Error> {
    let mut once = pool.new_request();
    let call = move |semaphore: &Expirable, request: &RequestArgs<'_>| {
        semaphore.release(&permits, which, withdrawn.as_ref(), request)
    };
    match pool.send_until_answered(&mut once, None, &call, done).await {
        Ok((all, _)) => Ok(all),
        Err(error) => Err(pool.goes_on(once, call, done, error)),
    }
}

/// Changes the number of permits. If the server does not answer in time, it goes on in the background.
pub(crate) async fn change(pool: LeasedPool, change: Change) -> Result<(), Error> {
    let mut once = pool.new_request();
    let call =
        move |semaphore: &Expirable, request: &RequestArgs<'_>| semaphore.change(change, request);
    match pool.send_until_answered(&mut once, None, call, done).await {
        Ok(_) => Ok(()),
        Err(error) => Err(pool.goes_on(once, call, done, error)),
    }
}

/// Gives a permit another lease. `false`: it is not out any more.
pub(crate) async fn set_lease(
    pool: LeasedPool,
    permit: PermitId,
    lease: Duration,
) -> Result<bool, Error> {
    let (engine, ms) = (&pool.engine, lease.as_millis() as u64);
    let now = Instant::now();
    let mut copies = Copies::new(now, now + engine.settings.retry_timeout);
    loop {
        engine.check_open()?;
        let sent = copies.sent();
        let not_after = engine.not_after(pool.protocol.timeouts(), sent);
        let call = pool.protocol.set_lease(permit, ms, not_after);
        let answer = copies.send(engine.call(call, sent)).await.and_then(done);
        match answer.and_then(|answer| pool.in_time(answer)) {
            Ok(is_out) => return Ok(is_out),
            Err(error) => copies.again_for(error, engine, pool.name()).await?,
        }
    }
}

/// Asks how long the leases of permits last. Once, for callers that may repeat it themselves.
pub(crate) async fn remaining(pool: &LeasedPool, permits: &[PermitId]) -> Result<Vec<Left>, Error> {
    let reply = pool.engine.transport.call(pool.protocol.remaining(permits)).await;
    let left = reply.and_then(|reply| expirable::remaining(&reply));
    left.map_err(|error| error.into_error(pool.name()))
}

/// Reads the state, with at most this many permits. Once, for callers that may repeat it themselves.
pub(crate) async fn inspect(pool: &LeasedPool, most: u64) -> Result<Stock, Error> {
    let reply = pool.engine.transport.call(pool.protocol.inspect(most)).await;
    let stock = reply.and_then(|reply| expirable::stock(&reply));
    stock.map_err(|error| error.into_error(pool.name()))
}
