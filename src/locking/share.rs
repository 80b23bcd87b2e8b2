//! [`Share`]: one entry of a hold, or one of the local readers that share it: what a guard has.
//!
//! ```text
//! share --unlock, drop--> baton --a local waiter exists--> slot --adopted--> share
//!                           |                               `--swapped--> (another hold)
//!                           `--none, or others come first--> released
//! ```

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::time::Instant;

use crate::{
    error::{Error, Loss},
    locking::{
        baton::{Baton, Home, Stake},
        hold::Hold,
        request::{Bounds, Request},
    },
    observer::HoldEnd,
    protocol::Side,
};

/// One entry of a hold: what a guard has. Dropping it releases it.
///
/// Boxed: it goes through the results of several callers, and from owner to owner in a hand-off.
#[derive(Debug)]
pub struct Share(Option<Box<Stake>>);

impl Share {
    /// One more share of the hold.
    pub(crate) fn new(home: Arc<dyn Home>, hold: Arc<Hold>, watched: bool) -> Self {
        hold.lease.shares.fetch_add(1, Ordering::Relaxed);
        // The call that closes the client sees this share, or this call sees that the client is
        // closed.
        if hold.target.engine.check_open().is_err() {
            hold.lease.lose(Loss::Closed);
        }
        Self(Some(Box::new(Stake { home, hold, watched })))
    }

    /// The share of one more reader, who has joined the hold. The watchdog renews it already.
    pub(crate) fn of_a_reader(home: Arc<dyn Home>, hold: Arc<Hold>) -> Self {
        Self::new(home, hold, true)
    }

    /// Makes a share of a hold that was handed off, for a caller of this side of the lock. The baton
    /// comes back if the hold does not suit the request. An owner never adopts one, because an owner's
    /// hold has an id of its own.
    pub(crate) fn adopt(baton: Baton, request: &Request, side: Side) -> Result<Self, Baton> {
        let Request { owner, lease, watched, replicas, .. } = *request;
        let hold = baton.hold();
        // A writer needs a write hold. It is more than a reader needs.
        let suits = side != Side::Write || hold.id().is_writer();
        if owner.is_some() || !suits || !hold.take_over(lease, watched, replicas) {
            return Err(baton);
        }
        hold.lease.shares.fetch_add(1, Ordering::Relaxed);
        // The client was closed before, and has told all holders but this one.
        if hold.target.engine.check_open().is_err() {
            hold.lease.shares.fetch_sub(1, Ordering::Relaxed);
            return Err(baton);
        }
        if side == Side::Read {
            hold.begin_reading();
        }
        hold.lease.turns.end(HoldEnd::HandedOn);
        let mut stake = baton.into_stake();
        match (stake.watched, watched) {
            (true, false) => stake.hold.lease.unwatch(),
            (false, true) => stake.hold.lease.watch(Instant::now()),
            (true, true) | (false, false) => {}
        }
        stake.watched = watched;
        Ok(Self(Some(stake)))
    }

    /// The hold that the caller has now.
    pub(crate) fn hold(&self) -> &Arc<Hold> {
        self.0.as_ref().expect("given back last").hold.latest()
    }

    /// Completes when the hold is lost.
    pub(crate) async fn lost(&self) -> Loss {
        self.0.as_ref().expect("given back last").hold.lost().await
    }

    /// Asks the server whether the hold is there.
    pub(crate) async fn check(&self) -> Result<(), Error> {
        let stake = self.0.as_ref().expect("given back last");
        stake.hold.check_shared().await
    }

    /// Releases the share. The hold is released, or handed off, if no other reader shares it.
    pub(crate) async fn unlock(mut self) -> Result<(), Error> {
        let hold = self.hold().clone();
        match self.take() {
            Some(baton) => {
                drop(hold);
                baton.pass_or_release().await
            }
            None => hold.lease.loss().map_or(Ok(()), |why| Err(Error::NotHeld { why })),
        }
    }

    /// The watchdog renews the hold for this share from now on. The first renewal is due at `due`.
    pub(crate) fn watch(&mut self, due: Instant) {
        let stake = self.0.as_mut().expect("given back last");
        let lease = &stake.hold.lease;
        lease.watch(due);
        if due <= Instant::now() {
            // The next check of a hold that was not renewed may come at the end of its lease.
            stake.hold.target.engine.watchdog.add(lease);
        }
        stake.watched = true;
    }

    /// Extends the hold to last this long from now, if it does not last longer already. Goes on in
    /// the background: releases of the hold wait for it, and the caller may not be polled. The hold
    /// is not handed off meanwhile.
    pub(crate) async fn prolong(&self, lease: Duration, bounds: Bounds) -> Result<(), Error> {
        let engine = &self.hold().target.engine;
        let retry_until = bounds.retry_until(Instant::now(), &engine.settings);
        engine.janitor.run(self.hold().clone().prolong(lease, retry_until)).await
    }

    /// Releases the share. The baton decides what becomes of the hold. `None`: other readers share it.
    fn take(&mut self) -> Option<Baton> {
        let mut stake = self.0.take()?;
        loop {
            stake.hold.lease.shares.fetch_sub(1, Ordering::Relaxed);
            if !stake.hold.leave() {
                return None;
            }
            // Its readers together were one reader of its successor.
            match stake.hold.successor() {
                Some(successor) => stake.hold = successor,
                None => return Some(Baton::new(stake)),
            }
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        drop(self.take());
    }
}
