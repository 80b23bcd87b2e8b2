//! [`Link`]: the connections of one client to one server, as the seam of the wire demands them.
//!
//! A connection delivers in the order of sending, and never twice. A call whose connection breaks
//! has no answer, and may have run, or may run later, when calls of the next connection have run.

use std::{
    sync::{Arc, Mutex, MutexGuard, Weak},
    time::Duration,
};

use fastrand::Rng;
use futures::{FutureExt, future::Shared};
use redis_in_process::Subscriber;
use tokio::{
    sync::{Notify, oneshot},
    time::{Instant, sleep},
};

use super::{lane::Lane, server::SimServer};
use crate::{
    engine::Subscriptions,
    runtime::ClientRuntime,
    wire::{Event, ServerClock},
};

const FOREVER: Duration = Duration::from_secs(100_000);

/// What may happen to a call, in per mille, and how slow the network is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Weather {
    pub(super) slow: Duration,
    pub(super) lose_request: u32,
    pub(super) lose_reply: u32,
    /// The connection breaks, and what was on its way runs later.
    pub(super) late: u32,
    pub(super) late_by: Duration,
    pub(super) lose_message: u32,
}

pub(super) struct Link {
    pub(super) name: String,
    pub(super) server: Arc<SimServer>,
    pub(super) subscriptions: Arc<Subscriptions>,
    pub(super) clock: ServerClock,
    /// What is begun here is continued there, whoever polls.
    pub(super) runtime: ClientRuntime,
    pub(super) command_timeout: Duration,
    pub(super) state: Mutex<State>,
    pub(super) back: Notify,
}

pub(super) struct State {
    pub(super) rng: Rng,
    pub(super) weather: Weather,
    pub(super) commands: Option<Arc<Connection>>,
    pub(super) ear: Option<Arc<Ear>>,
    /// No connection can be made before.
    pub(super) cut_until: Instant,
    pub(super) timeouts: u32,
    pub(super) follows: bool,
    pub(super) place: u64,
    pub(super) closed: bool,
}

/// For commands.
pub(super) struct Connection {
    pub(super) up: Lane,
    pub(super) down: Lane,
    pub(super) breaker: Mutex<Option<oneshot::Sender<()>>>,
    pub(super) broken: Shared<oneshot::Receiver<()>>,
    /// Of which life of the server's process.
    pub(super) ends: u64,
}

/// For messages.
pub(super) struct Ear {
    pub(super) up: Lane,
    pub(super) down: Lane,
    pub(super) subscriber: Subscriber,
    pub(super) ends: u64,
}

/// What becomes of what is on its way when a connection breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    Lost,
    /// It runs, so much later.
    Runs(Duration),
}

impl Connection {
    fn new(ends: u64) -> Arc<Self> {
        let (breaker, broken) = oneshot::channel();
        let (up, down) = (Lane::new(), Lane::new());
        let breaker = Mutex::new(Some(breaker));
        Arc::new(Self { up, down, breaker, broken: broken.shared(), ends })
    }

    pub(super) fn end(&self, rest: Rest) {
        match rest {
            Rest::Lost => self.up.kill(),
            Rest::Runs(later) => self.up.stick(Instant::now() + later),
        }
        self.down.kill();
        drop(self.breaker.lock().unwrap().take());
    }
}

impl Link {
    pub(super) fn new(
        name: String,
        server: &Arc<SimServer>,
        subscriptions: Arc<Subscriptions>,
        command_timeout: Duration,
        follows: bool,
        rng: Rng,
    ) -> Arc<Self> {
        let state = State {
            rng,
            weather: Weather::default(),
            commands: None,
            ear: None,
            cut_until: Instant::now(),
            timeouts: 0,
            follows,
            place: server.heirs(),
            closed: false,
        };
        let link = Arc::new(Self {
            name,
            server: server.clone(),
            subscriptions,
            clock: ServerClock::new(server.now()),
            runtime: ClientRuntime::current(),
            command_timeout,
            state: Mutex::new(state),
            back: Notify::new(),
        });
        link.connect_commands();
        link.connect_ear();
        link
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(super) fn set_weather(&self, weather: Weather) {
        self.state().weather = weather;
    }

    pub(super) fn takes(state: &mut State) -> Duration {
        let slow = state.weather.slow.as_micros() as u64;
        Duration::from_micros(state.rng.u64(100..3_000) + state.rng.u64(0..=slow))
    }

    // ---- Connecting

    fn connect_commands(self: &Arc<Self>) {
        self.state().commands = Some(Connection::new(self.server.ends()));
        self.back.notify_waiters();
    }

    fn connect_ear(self: &Arc<Self>) {
        let ends = self.server.ends();
        let itself: Weak<Self> = Arc::downgrade(self);
        let subscriber = self.server.connect(itself);
        let ear = Ear { up: Lane::new(), down: Lane::new(), subscriber, ends };
        self.state().ear = Some(Arc::new(ear));
        self.back.notify_waiters();
    }

    /// Ends the connection for commands. A next one is made.
    pub(super) fn break_commands(self: &Arc<Self>, rest: Rest) {
        let Some(connection) = self.state().commands.take() else { return };
        self.note("breaks", format_args!("{rest:?}"));
        connection.end(rest);
        let link = self.clone();
        tokio::spawn(async move {
            if link.reachable().await {
                link.follow();
                link.connect_commands();
            }
        });
    }

    /// Ends the connection for messages. A next one is made, and the listeners are told.
    pub(super) fn break_ear(self: &Arc<Self>) {
        let Some(ear) = self.state().ear.take() else { return };
        self.note("hears nothing", format_args!(""));
        ear.up.kill();
        ear.down.kill();
        self.server.disconnect(ear.subscriber);
        let link = self.clone();
        tokio::spawn(async move {
            if link.reachable().await {
                link.follow();
                link.connect_ear();
                link.subscriptions.on_event(Event::Gap);
            }
        });
    }

    pub(super) fn break_all(self: &Arc<Self>, rest: Rest) {
        self.break_commands(rest);
        self.break_ear();
    }

    /// Waits until a connection can be made. `false`: none is wanted any more.
    async fn reachable(&self) -> bool {
        loop {
            let pause = self.state().rng.u64(1..60);
            sleep(Duration::from_millis(pause)).await;
            let state = self.state();
            if state.closed {
                return false;
            }
            let cut = state.cut_until > Instant::now();
            drop(state);
            if !cut && self.server.is_up() {
                return true;
            }
        }
    }

    /// Notes that another server has taken the place of the one before.
    fn follow(&self) {
        let heirs = self.server.heirs();
        let changed = {
            let mut state = self.state();
            let changed = state.follows && state.place != heirs;
            state.place = heirs;
            changed
        };
        if changed {
            self.subscriptions.on_event(Event::Gap);
        }
    }

    // ---- What goes wrong

    /// Nothing gets through, and nobody knows. After `until` it does, unless the connections were
    /// given up.
    pub(super) fn freeze(&self, requests: bool, replies: bool, until: Instant) {
        let state = self.state();
        if let Some(connection) = &state.commands {
            if requests {
                connection.up.stick(until);
            }
            if replies {
                connection.down.stick(until);
            }
        }
        if let Some(ear) = &state.ear
            && replies
        {
            ear.down.stick(until);
        }
    }

    /// The connection for messages is gone, and nobody knows.
    pub(super) fn deafen(&self) {
        if let Some(ear) = &self.state().ear {
            ear.up.stick(Instant::now() + FOREVER);
            ear.down.stick(Instant::now() + FOREVER);
            self.server.disconnect(ear.subscriber);
        }
    }

    /// Breaks all connections. None can be made before.
    pub(super) fn cut(self: &Arc<Self>, until: Instant, rest: Rest) {
        {
            let mut state = self.state();
            state.cut_until = state.cut_until.max(until);
        }
        self.break_all(rest);
    }

    pub(super) fn note(&self, what: &str, more: std::fmt::Arguments<'_>) {
        self.server.trace.note(format_args!("{} s{} {what} {more}", self.name, self.server.name));
    }
}
