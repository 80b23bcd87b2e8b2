//! What runs behind the locks of one client: connections, clock and the background tasks.
//!
//! The tasks hold the engine weakly: when the last client, lock and guard are gone, so is it, and
//! the janitor closes the connections once its own work is done.

mod agenda;
mod backoff;
mod combiner;
mod janitor;
mod lease;
mod releases;
mod silence;
mod wakeups;
mod watchdog;

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};

use self::{agenda::Agenda, combiner::Combiner, lease::Look};
pub(crate) use self::{
    backoff::Backoff,
    janitor::{Busy, Janitor},
    lease::{Lease, trust},
    releases::{Released, Releases},
    silence::Silence,
    wakeups::{Subscription, Wakeups},
    watchdog::Watchdog,
};
use crate::{
    config::Settings,
    error::{Error, RedisError},
    owner::Identity,
    replicas::Replicas,
    runtime::{ClientRuntime, RuntimeEnded},
    wire::{Confirm, Flight, Invocation, Reply, Transport, WireError},
};

/// How often the offsets to the servers' clocks are taken anew.
const CLOCK_INTERVAL: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) settings: Settings,
    /// What outlives a call runs here.
    pub(crate) runtime: ClientRuntime,
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) identity: Identity,
    pub(crate) janitor: Janitor,
    pub(crate) wakeups: Arc<Wakeups>,
    pub(crate) watchdog: Arc<Watchdog>,
    pub(crate) silence: Silence,
    releases: Releases,
    combiner: Combiner,
    state: watch::Sender<State>,
    /// Whether that is `Open`: looked at by every call.
    is_open: AtomicBool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Open,
    /// Nothing new is begun, what is queued is finished.
    Closing,
    Closed,
}

impl Engine {
    /// Starts the background tasks.
    pub(crate) fn start(
        settings: Settings,
        transport: Arc<dyn Transport>,
        wakeups: Arc<Wakeups>,
        runtime: ClientRuntime,
    ) -> Arc<Self> {
        let engine = Arc::new(Self {
            identity: Identity::new(),
            janitor: Janitor::start(transport.clone(), runtime.clone()),
            watchdog: Arc::new(Watchdog::new(settings.watchdog, settings.command_timeout)),
            wakeups,
            silence: Silence::default(),
            releases: Releases::default(),
            combiner: Combiner::new(transport.clone(), runtime.clone(), settings.command_timeout),
            state: watch::Sender::new(State::Open),
            is_open: AtomicBool::new(true),
            settings,
            transport,
            runtime: runtime.clone(),
        });
        runtime.spawn(wakeups::run(Arc::downgrade(&engine)));
        runtime.spawn(watchdog::run(Arc::downgrade(&engine)));
        runtime.spawn(keep_time(Arc::downgrade(&engine)));
        if engine.transport.follows() {
            runtime.spawn(releases::run(Arc::downgrade(&engine)));
        }
        engine
    }

    /// Server time in ms past which a request for this key, sent at this moment, must have no effect.
    pub(crate) fn not_after(&self, key: &[u8], sent: Instant) -> u64 {
        self.transport.time_at(key, sent) + self.settings.command_timeout.as_millis() as u64
    }

    /// Sends one copy of a call, which so many replicas are to confirm when `is_due` says so of its reply.
    pub(crate) fn call(
        &self,
        call: Invocation,
        replicas: Replicas,
        is_due: fn(&Reply) -> bool,
    ) -> Flight {
        match replicas {
            Replicas::None => self.combiner.call(call),
            replicas => {
                let patience = self.settings.replica_timeout;
                self.transport.call_confirmed(call, Confirm { replicas, patience, is_due })
            }
        }
    }

    pub(crate) fn check_open(&self) -> Result<(), Error> {
        if !self.is_open.load(Ordering::Acquire) {
            return Err(Error::Closed);
        }
        if self.runtime.has_ended() {
            return Err(RuntimeEnded.into());
        }
        Ok(())
    }

    /// Whether the connections are closed: nothing can be undone any more.
    pub(crate) fn is_closed(&self) -> bool {
        *self.state.borrow() == State::Closed
    }

    /// Done when the client is being closed, or its runtime has ended. Says what those who wait are told.
    pub(crate) async fn closing(&self) -> Error {
        let mut state = self.state.subscribe();
        tokio::select! {
            _ = state.wait_for(|state| *state >= State::Closing) => Error::Closed,
            () = self.runtime.ended() => RuntimeEnded.into(),
        }
    }

    /// Refuses all that is new, tells the holders, and waits for what is still to be undone.
    pub(crate) async fn close(&self) -> Result<(), Error> {
        // Before anybody is woken by it.
        self.is_open.store(false, Ordering::Release);
        self.state.send_if_modified(|state| {
            let open = *state == State::Open;
            *state = State::Closing.max(*state);
            open
        });
        self.watchdog.close();
        let drained = tokio::select! {
            drained = timeout(self.settings.retry_timeout, self.janitor.drained()) => drained,
            () = self.runtime.ended() => Ok(()),
        };
        self.state.send_replace(State::Closed);
        if self.runtime.has_ended() {
            return Err(RuntimeEnded.into());
        }
        self.transport.quit().await;
        drained.map_err(|_| {
            Error::Redis(RedisError::new("closed, but some locks could not be released in time"))
        })
    }

    /// Whether a call may be made once more for its caller, after `error`; done after a pause.
    pub(crate) async fn may_retry(
        &self,
        error: WireError,
        backoff: &mut Backoff,
        give_up: Instant,
    ) -> Result<(), WireError> {
        match error {
            WireError::Unanswered(_) | WireError::NotNow(_) => {
                self.must_retry(error, backoff, give_up).await
            }
            WireError::WrongType | WireError::Refused(_) => Err(error),
        }
    }

    /// The same for what takes something away from the server, and so has to be done in the end: it is
    /// refused today by a full disk or for want of a right, and not for ever.
    pub(crate) async fn must_retry(
        &self,
        error: WireError,
        backoff: &mut Backoff,
        give_up: Instant,
    ) -> Result<(), WireError> {
        let pause = backoff.next();
        if self.runtime.has_ended() {
            return Err(RuntimeEnded.into());
        }
        // What is of another type is nothing of ours any more.
        if matches!(error, WireError::WrongType) || Instant::now() + pause >= give_up {
            return Err(error);
        }
        sleep(pause).await;
        Ok(())
    }
}

async fn keep_time(engine: Weak<Engine>) {
    loop {
        sleep(CLOCK_INTERVAL).await;
        let Some(engine) = engine.upgrade() else { return };
        if engine.check_open().is_err() {
            return;
        }
        engine.transport.keep_time().await;
    }
}
