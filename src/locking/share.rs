//! [`Share`]: one of the times a hold is held.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::time::Instant;

use crate::{
    error::Error, locking::budget::Plan, locking::hold::Hold, locking::patience::Patience,
    replicas::Replicas,
};

/// What a caller wants of its hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) lease: Duration,
    /// Whether the watchdog is to renew it.
    pub(crate) watched: bool,
    /// How many replicas have to confirm it.
    pub(crate) replicas: Replicas,
}

/// One of the times a hold is held. Dropping it gives it back.
#[derive(Debug)]
pub struct Share {
    hold: Arc<Hold>,
    watched: bool,
    armed: bool,
    /// Whether its holder still wants it.
    counted: bool,
}

impl Share {
    pub(crate) fn new(hold: Arc<Hold>, watched: bool) -> Self {
        hold.lease.shares.fetch_add(1, Ordering::Relaxed);
        Self { hold, watched, armed: true, counted: true }
    }

    pub(crate) fn hold(&self) -> &Arc<Hold> {
        &self.hold
    }

    /// Makes the hold last for so long from now on, if it does not last longer; goes on in the
    /// background if it is dropped.
    pub(crate) async fn prolong(&self, lease: Duration, patience: Patience) -> Result<(), Error> {
        let janitor = &self.hold.entry.engine.janitor;
        janitor.finish(self.hold.clone().prolong(lease, patience)).await
    }

    /// Gives it back: to the next who waits for it in this process, or to the server. Goes on in the
    /// background if it takes too long, or is dropped.
    pub(crate) async fn release(mut self) -> Result<(), Error> {
        self.uncount();
        match self.plan() {
            Plan::Pass => self.park_or_free().await,
            Plan::Ask => {
                let janitor = self.hold.entry.engine.janitor.clone();
                janitor.finish(self.ask_and_pass()).await
            }
            Plan::Release => self.free().await,
        }
    }

    fn uncount(&mut self) {
        if std::mem::take(&mut self.counted) {
            self.hold.lease.shares.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn plan(&self) -> Plan {
        let entry = &self.hold.entry;
        match entry.passes_on && !entry.queue.is_empty() {
            true => entry.queue.passing.plan(self),
            false => Plan::Release,
        }
    }

    /// Leaves it to the next who waits here. It comes back when there is none.
    fn park(self) -> Result<(), Self> {
        let entry = self.hold.entry.clone();
        entry.queue.park(self)
    }

    /// Passes it on, if it is there and others need not have it first.
    async fn ask_and_pass(self) -> Result<(), Error> {
        // When there is no answer, or the hold is gone, the release finds it out.
        let others = self.hold.extend(self.watched).await;
        match others.is_some_and(|others| self.hold.entry.queue.passing.asked(others)) {
            true => self.park_or_free().await,
            false => self.free().await,
        }
    }

    async fn park_or_free(self) -> Result<(), Error> {
        match self.park() {
            Ok(()) => Ok(()),
            Err(share) => share.free().await,
        }
    }

    /// Makes it the hold of the next, who asked for these terms. It comes back if it does not meet them.
    pub(crate) fn take_over(mut self, terms: &Terms) -> Result<Self, Self> {
        let Terms { lease, watched, replicas } = *terms;
        if !self.hold.suits(lease, watched, replicas) {
            return Err(self);
        }
        self.counted = true;
        self.hold.lease.shares.fetch_add(1, Ordering::Relaxed);
        // A client that was closed before this has told all holders but this one.
        if self.hold.entry.engine.check_open().is_err() {
            self.uncount();
            return Err(self);
        }
        match (self.watched, watched) {
            (true, false) => self.hold.lease.unwatch(),
            (false, true) => self.hold.lease.watch(Instant::now()),
            (true, true) | (false, false) => {}
        }
        self.watched = watched;
        Ok(self)
    }

    /// Whoever has it now does not want it renewed: what it is swapped for is another hold.
    pub(crate) fn unwatch(&mut self) {
        if std::mem::take(&mut self.watched) {
            self.hold.lease.unwatch();
        }
    }

    /// Another hold has taken its place on the server. `by`: who was asked for that, see [`Engine::serves`]. Says
    /// whether it was the current one here.
    ///
    /// [`Engine::serves`]: crate::engine::Engine::serves
    pub(crate) fn replaced(mut self, by: Option<u64>) -> bool {
        self.armed = false;
        self.uncount();
        self.hold.replaced(by)
    }

    /// The server that was asked has said that it is gone.
    pub(crate) fn gone(self, by: Option<u64>) {
        self.hold.lease.lose(self.hold.lease.why_gone());
        self.replaced(by);
    }

    /// Gives it back to the server; goes on in the background if it takes too long, or is dropped.
    pub(crate) async fn free(mut self) -> Result<(), Error> {
        self.armed = false;
        self.uncount();
        let hold = self.hold.clone();
        let janitor = hold.entry.engine.janitor.clone();
        janitor.finish(hold.release(self.watched)).await
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if self.armed {
            self.uncount();
            let hold = self.hold.clone();
            let watched = self.watched;
            let share = Self { hold: hold.clone(), watched, armed: true, counted: false };
            let parked = match share.plan() {
                Plan::Pass => share.park(),
                Plan::Ask | Plan::Release => Err(share),
            };
            let Err(mut share) = parked else { return };
            // A job that is never run, for its runtime is gone, must not come back to here.
            share.armed = false;
            let janitor = hold.entry.engine.janitor.clone();
            janitor.spawn(async move {
                share.armed = true;
                match share.release().await {
                    Ok(()) | Err(Error::Closed) => {}
                    Err(error) => {
                        let lock = hold.entry.name();
                        tracing::warn!(lock, %error, "release of a dropped guard");
                    }
                }
            });
        }
    }
}
