//! [`Host`]: the server in the process, with its clock and its outages.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use tokio::{runtime::Handle, sync::watch, time::Instant};

use super::state::{Job, State};

/// Whether the server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Up,
    /// It takes requests, and runs them later.
    Stalled,
    Stopped,
}

/// The phase, and how often the server was stopped. A stop ends all connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Life {
    pub(super) phase: Phase,
    pub(super) stops: u64,
}

/// A server in the process. Tasks and threads share it.
pub(super) struct Host {
    /// Server time in µs when it was made.
    epoch: u64,
    begun: Instant,
    /// The runtime whose clock counts. It may be paused. Without one it is the clock of the caller.
    runtime: Option<Handle>,
    life: watch::Sender<Life>,
    state: Mutex<State>,
}

impl Host {
    pub(super) fn new() -> Self {
        let epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            epoch: epoch.as_micros() as u64,
            begun: Instant::now(),
            runtime: Handle::try_current().ok(),
            life: watch::Sender::new(Life { phase: Phase::Up, stops: 0 }),
            state: Mutex::new(State::new()),
        }
    }

    /// Does this at the present moment, and delivers the messages that come of it.
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        let now = {
            let _here = self.runtime.as_ref().map(Handle::enter);
            Instant::now().saturating_duration_since(self.begun).as_micros() as u64
        };
        let mut state = self.lock();
        state.come_to(self.epoch + now);
        let done = act(&mut state);
        state.deliver();
        done
    }

    /// A script that panics leaves the state whole: what it had written stays.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // ---- Requests

    /// Runs a request now, or when the server runs on. Gives it back when the server is stopped.
    pub(super) fn submit(&self, job: Job) -> Result<(), Job> {
        self.with(|state| match self.life.borrow().phase {
            Phase::Up => {
                job(state);
                Ok(())
            }
            Phase::Stalled => {
                state.waiting.push(job);
                Ok(())
            }
            Phase::Stopped => Err(job),
        })
    }

    pub(super) fn life(&self) -> watch::Receiver<Life> {
        self.life.subscribe()
    }

    pub(super) fn phase(&self) -> Phase {
        self.life.borrow().phase
    }

    // ---- What goes wrong

    pub(super) fn stall(&self) {
        self.with(|state| {
            if self.life.send_if_modified(|life| change(life, Phase::Up, Phase::Stalled)) {
                state.stalled = true;
            }
        });
    }

    pub(super) fn resume(&self) {
        self.with(|state| {
            if self.life.send_if_modified(|life| change(life, Phase::Stalled, Phase::Up)) {
                state.resume();
            }
        });
    }

    /// `with_data`: as when its disk is kept.
    pub(super) fn stop(&self, with_data: bool) {
        self.with(|state| {
            self.life.send_if_modified(|life| {
                let was_there = life.phase != Phase::Stopped;
                life.stops += u64::from(was_there);
                life.phase = Phase::Stopped;
                was_there
            });
            state.stop(with_data);
        });
    }

    pub(super) fn start(&self) {
        self.with(|state| {
            if self.life.send_if_modified(|life| change(life, Phase::Stopped, Phase::Up)) {
                state.reconnect();
            }
        });
    }
}

fn change(life: &mut Life, from: Phase, to: Phase) -> bool {
    let changes = life.phase == from;
    if changes {
        life.phase = to;
    }
    changes
}
