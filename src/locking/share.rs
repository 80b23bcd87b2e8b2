//! [`Share`]: one of the times a hold is held.

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

/// One of the times a hold is held: what a guard has. Dropping it gives it back.
#[derive(Debug)]
pub struct Share(Option<Stake>);

impl Share {
    /// One more share in the hold.
    pub(crate) fn new(home: Arc<dyn Home>, hold: Arc<Hold>, watched: bool) -> Self {
        hold.lease.shares.fetch_add(1, Ordering::Relaxed);
        // Whoever closes the client sees it, or else it is told here.
        if hold.target.engine.check_open().is_err() {
            hold.lease.lose(Loss::Closed);
        }
        Self(Some(Stake { home, hold, watched }))
    }

    /// Makes the hold that was left here the hold of one who asks for this. It comes back if it is not what is asked
    /// for, or if an owner asks: an owner's hold has an id of its own.
    pub(crate) fn adopt(baton: Baton, request: &Request) -> Result<Self, Baton> {
        let Request { owner, lease, watched, replicas, .. } = *request;
        let hold = baton.hold();
        if owner.is_some() || !hold.suits(lease, watched, replicas) {
            return Err(baton);
        }
        hold.lease.shares.fetch_add(1, Ordering::Relaxed);
        // A client that was closed before this has told all holders but this one.
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

    /// Makes the hold last for so long from now on, if it does not last longer; goes on in the
    /// background if it is dropped.
    pub(crate) async fn prolong(&self, lease: Duration, bounds: Bounds) -> Result<(), Error> {
        let engine = &self.hold().target.engine;
        let retry_until = bounds.retry_until(Instant::now(), &engine.settings);
        engine.janitor.finish(self.hold().clone().prolong(lease, retry_until)).await
    }

    /// Gives it back: to the next who waits for it in this process, or to the server. Goes on in the
    /// background if it takes too long, or is dropped.
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
