//! [`Share`]: one entry of a hold.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use crate::{
    error::{Error, Loss},
    locking::{
        baton::{Baton, Home, Stake},
        hold::Hold,
        request::{Bounds, Request},
    },
    observer::{HoldEnd, Observed},
};

/// One entry of a hold: what a guard has. Dropping it releases it.
///
/// Boxed: it goes through the results of several callers, and from owner to owner in a hand-off.
#[derive(Debug)]
pub struct Share(Option<Box<Stake>>);

impl Share {
    /// One more share of the hold.
    pub(crate) fn new(home: Arc<dyn Home>, hold: Arc<Hold>, watched: bool) -> Self {
        hold.lease.add_share();
        Self::counted(home, hold, watched)
    }

    /// The same for a share that is counted already.
    pub(crate) fn counted(home: Arc<dyn Home>, hold: Arc<Hold>, watched: bool) -> Self {
        // The call that closes the client sees this share, or this call sees that the client is
        // closed.
        if hold.target.engine.check_open().is_err() {
            hold.lease.lose(Loss::Closed);
        }
        Self(Some(Box::new(Stake { home, hold, watched, turn: 0, counts: true })))
    }

    /// Makes a share of a hold that was handed off. The baton comes back if the hold does not suit
    /// the request. An owner never adopts one, because an owner's hold has an id of its own.
    pub(crate) fn adopt(baton: Baton, request: &Request) -> Result<Self, Baton> {
        let Request { owner, lease, watched, replicas, .. } = *request;
        let hold = baton.hold();
        if owner.is_some() || !hold.adopt(lease, watched, replicas) {
            return Err(baton);
        }
        hold.lease.add_share();
        // The client was closed before, and has told all holders but this one.
        if hold.target.engine.check_open().is_err() {
            hold.lease.remove_share();
            return Err(baton);
        }
        hold.lease.turns.end(HoldEnd::HandedOff);
        let mut stake = baton.into_stake();
        match (stake.watched, watched) {
            (true, false) => stake.hold.lease.unwatch(),
            (false, true) => stake.hold.watch(Instant::now()),
            (true, true) | (false, false) => {}
        }
        (stake.watched, stake.counts) = (watched, true);
        Ok(Self(Some(stake)))
    }

    pub(crate) fn hold(&self) -> &Arc<Hold> {
        &self.0.as_ref().expect("given back last").hold
    }

    fn stake(&mut self) -> &mut Stake {
        self.0.as_mut().expect("given back last")
    }

    /// A turn of the hold begins, which is told to this observer.
    pub(crate) fn begin_turn(&mut self, observed: Option<Observed>) {
        let stake = self.stake();
        let Hold { target, lease, .. } = &*stake.hold;
        let (key, id) = (target.protocol.key(), &lease.renew.id);
        stake.turn = lease.turns.begin(observed, key, target.kind, id);
    }

    /// The watchdog renews the hold for this share from now on. The first renewal is due at `due`.
    pub(crate) fn watch(&mut self, due: Instant) {
        let stake = self.stake();
        debug_assert!(!stake.watched, "it counts once");
        stake.hold.watch(due);
        stake.watched = true;
    }

    /// The watchdog does not renew the hold for this share from now on.
    pub(crate) fn unwatch(&mut self) {
        self.stake().unwatch();
    }

    /// Extends the hold to last this long from now, if it does not last longer already. Goes on in
    /// the background: releases of the hold wait for it, and the caller may not be polled. The hold
    /// is not handed off meanwhile.
    pub(crate) async fn prolong(&self, lease: Duration, bounds: Bounds) -> Result<(), Error> {
        let engine = &self.hold().target.engine;
        let retry_until = bounds.retry_until(Instant::now(), &engine.settings);
        engine.janitor.run_apart(self.hold().clone().prolong(lease, retry_until)).await
    }

    /// Releases the share. The baton decides what becomes of the hold.
    pub(crate) fn into_baton(mut self) -> Baton {
        self.take().expect("taken once")
    }

    fn take(&mut self) -> Option<Baton> {
        let mut stake = self.0.take()?;
        // The shares of a hold that others may join are counted where they join it.
        if !stake.hold.is_shareable() {
            stake.hold.lease.remove_share();
            stake.counts = false;
        }
        Some(Baton(Some(stake)))
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        drop(self.take());
    }
}
