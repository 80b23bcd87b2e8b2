//! [`Share`]: one entry of a hold.

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
};

/// One entry of a hold: what a guard has. Dropping it releases it.
#[derive(Debug)]
pub struct Share(Option<Stake>);

impl Share {
    /// One more share of the hold.
    pub(crate) fn new(home: Arc<dyn Home>, hold: Arc<Hold>, watched: bool) -> Self {
        hold.lease.shares.fetch_add(1, Ordering::Relaxed);
        // The call that closes the client sees this share, or this call sees that the client is
        // closed.
        if hold.target.engine.check_open().is_err() {
            hold.lease.lose(Loss::Closed);
        }
        Self(Some(Stake { home, hold, watched }))
    }

    /// Makes a share of a hold that was handed off. The baton comes back if the hold does not suit
    /// the request. An owner never adopts one, because an owner's hold has an id of its own.
    pub(crate) fn adopt(baton: Baton, request: &Request) -> Result<Self, Baton> {
        let Request { owner, lease, watched, replicas, .. } = *request;
        let hold = baton.hold();
        if owner.is_some() || !hold.suits(lease, watched, replicas) {
            return Err(baton);
        }
        hold.lease.shares.fetch_add(1, Ordering::Relaxed);
        // The client was closed before, and has told all holders but this one.
        if hold.target.engine.check_open().is_err() {
            hold.lease.shares.fetch_sub(1, Ordering::Relaxed);
            return Err(baton);
        }
        let mut stake = baton.into_stake();
        match (stake.watched, watched) {
            (true, false) => stake.hold.lease.unwatch(),
            (false, true) => stake.hold.lease.watch(Instant::now()),
            (true, true) | (false, false) => {}
        }
        stake.watched = watched;
        Ok(Self(Some(stake)))
    }

    pub(crate) fn hold(&self) -> &Arc<Hold> {
        &self.0.as_ref().expect("given back last").hold
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
    /// the background: releases of the hold wait for it, and the caller may not be polled.
    pub(crate) async fn prolong(&self, lease: Duration, bounds: Bounds) -> Result<(), Error> {
        let engine = &self.hold().target.engine;
        let retry_until = bounds.retry_until(Instant::now(), &engine.settings);
        engine.janitor.run(self.hold().clone().prolong(lease, retry_until)).await
    }

    /// Releases the share. The last share's hold goes to the next local waiter or to the server.
    /// Goes on in the background if it takes long or is dropped.
    pub(crate) async fn release(mut self) -> Result<(), Error> {
        self.give_back().expect("given back once").pass_or_release().await
    }

    fn give_back(&mut self) -> Option<Baton> {
        let stake = self.0.take()?;
        stake.hold.lease.shares.fetch_sub(1, Ordering::Relaxed);
        Some(Baton::new(stake))
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        drop(self.give_back());
    }
}
