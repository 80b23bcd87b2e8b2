//! [`Link`]: the connections of one client to one server, as the seam of the wire demands them.
//!
//! A connection delivers in the order of sending, and never twice. A call whose connection breaks
//! has no answer, and may have run, or may run later, when calls of the next connection have run.

use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use fastrand::Rng;
use futures::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use redis_in_process::Subscriber;
use tokio::{
    sync::{Notify, oneshot},
    time::{Instant, sleep, sleep_until, timeout_at},
};

use super::{lane::Lane, server::SimServer};
use crate::{
    engine::Subscriptions,
    error::RedisError,
    runtime::ClientRuntime,
    wire::{Event, Flight, Invocation, Reply, ServerClock, Transport, WireError},
};

/// As `wire::node`.
const TIMEOUTS_UNTIL_RECONNECT: u32 = 3;

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
    subscriptions: Arc<Subscriptions>,
    clock: ServerClock,
    /// What is begun here is continued there, whoever polls.
    pub(super) runtime: ClientRuntime,
    command_timeout: Duration,
    state: Mutex<State>,
    back: Notify,
}

struct State {
    rng: Rng,
    weather: Weather,
    commands: Option<Arc<Connection>>,
    ear: Option<Arc<Ear>>,
    /// No connection can be made before.
    cut_until: Instant,
    timeouts: u32,
    follows: bool,
    place: u64,
    closed: bool,
}

/// For commands.
struct Connection {
    up: Lane,
    down: Lane,
    breaker: Mutex<Option<oneshot::Sender<()>>>,
    broken: Shared<oneshot::Receiver<()>>,
    /// Of which life of the server's process.
    ends: u64,
}

/// For messages.
struct Ear {
    up: Lane,
    down: Lane,
    subscriber: Subscriber,
    ends: u64,
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

    fn end(&self, rest: Rest) {
        match rest {
            Rest::Lost => self.up.kill(),
            Rest::Runs(later) => self.up.stick(Instant::now() + later),
        }
        self.down.kill();
        drop(self.breaker.lock().unwrap().take());
    }
}

fn not_sent(why: &str) -> WireError {
    WireError::NotNow(RedisError::new(format!("Failed to route command: {why}")))
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
        server.add(&link);
        link.connect_commands();
        link.connect_ear();
        link
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(super) fn set_weather(&self, weather: Weather) {
        self.state().weather = weather;
    }

    fn takes(state: &mut State) -> Duration {
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
        let subscriber = self.server.connect(self);
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
        self.state().cut_until = until;
        self.break_all(rest);
    }

    // ---- Calls

    async fn connection(&self, by: Instant) -> Result<Arc<Connection>, WireError> {
        loop {
            let back = self.back.notified();
            {
                let state = self.state();
                if state.closed {
                    return Err(not_sent("the connection is gone"));
                }
                if let Some(connection) = &state.commands {
                    return Ok(connection.clone());
                }
            }
            if timeout_at(by, back).await.is_err() {
                return Err(not_sent("there is no connection"));
            }
        }
    }

    async fn ask<T: Send + 'static>(
        self: Arc<Self>,
        by: Option<Instant>,
        run: impl FnOnce(&Self) -> Result<T, WireError> + Send + 'static,
    ) -> Result<T, WireError> {
        let usual = Instant::now() + self.command_timeout;
        let by = by.map_or(usual, |by| by.min(usual));
        let connection = self.connection(by).await?;
        if by <= Instant::now() {
            return Err(not_sent("no time is left"));
        }
        let (answer, answered) = oneshot::channel();
        self.send(&connection, run, answer);
        let broken = connection.broken.clone();
        drop(connection);
        tokio::select! {
            biased;
            answer = answered => match answer {
                Ok(answer) => {
                    self.state().timeouts = 0;
                    answer
                }
                Err(_) => Err(WireError::unanswered("the connection is gone")),
            },
            _ = broken => Err(WireError::unanswered("the connection is gone")),
            () = sleep_until(by) => {
                self.timed_out();
                Err(WireError::unanswered("no answer in time"))
            }
        }
    }

    fn send<T: Send + 'static>(
        self: &Arc<Self>,
        connection: &Arc<Connection>,
        run: impl FnOnce(&Self) -> Result<T, WireError> + Send + 'static,
        answer: oneshot::Sender<Result<T, WireError>>,
    ) {
        let (there, back, dice, late) = {
            let mut state = self.state();
            let (there, back) = (Self::takes(&mut state), Self::takes(&mut state));
            let late = state.weather.late_by.as_micros() as u64;
            let late = Duration::from_micros(state.rng.u64(0..=late));
            (there, back, state.rng.u32(0..1000), late)
        };
        let Weather { lose_request, lose_reply, late: lates, .. } = self.state().weather;
        let (link, its) = (self.clone(), connection.clone());
        let is_current = move |link: &Self| {
            link.state().commands.as_ref().is_some_and(|current| Arc::ptr_eq(current, &its))
        };
        let down = Arc::downgrade(connection);
        let ends = connection.ends;
        connection.up.send(there, move || {
            if !link.server.is_up() || link.server.ends() != ends {
                return;
            }
            if dice < lose_request && is_current(&link) {
                return link.break_commands(Rest::Lost);
            }
            let said = run(&link);
            if (lose_request..lose_request + lose_reply).contains(&dice) && is_current(&link) {
                return link.break_commands(Rest::Runs(Duration::ZERO));
            }
            if let Some(connection) = down.upgrade() {
                connection.down.send(back, move || drop(answer.send(said)));
            }
        });
        let less = lose_request + lose_reply;
        if (less..less + lates).contains(&dice) {
            self.break_commands(Rest::Runs(late));
        }
    }

    fn timed_out(self: &Arc<Self>) {
        let row = {
            let mut state = self.state();
            state.timeouts += 1;
            state.timeouts
        };
        if row == TIMEOUTS_UNTIL_RECONNECT {
            self.state().timeouts = 0;
            self.note("gives up", format_args!(""));
            let late = Duration::from_millis(self.state().rng.u64(0..2_000));
            self.break_all(Rest::Runs(late));
        }
    }

    // ---- Messages

    /// The server has published something for this connection.
    pub(super) fn hear(self: &Arc<Self>, subscriber: Subscriber, channel: String) {
        let mut state = self.state();
        let takes = Self::takes(&mut state);
        let lost = state.rng.u32(0..1000) < state.weather.lose_message;
        let Some(ear) = state.ear.as_ref().filter(|ear| ear.subscriber == subscriber) else {
            return;
        };
        let link = self.clone();
        ear.down.send(takes, move || {
            if !lost {
                link.note("hears", format_args!("{channel}"));
                link.subscriptions.on_event(Event::Message(channel));
            }
        });
    }

    /// Does something on the server over the connection for messages, and waits for the answer.
    async fn on_ear(
        self: Arc<Self>,
        act: impl FnOnce(&Self, Subscriber) + Send + 'static,
    ) -> Result<(), WireError> {
        let by = Instant::now() + self.command_timeout;
        let ear = loop {
            let back = self.back.notified();
            {
                let state = self.state();
                if state.closed {
                    return Err(not_sent("the connection is gone"));
                }
                if let Some(ear) = &state.ear {
                    break ear.clone();
                }
            }
            if timeout_at(by, back).await.is_err() {
                return Err(not_sent("there is no connection"));
            }
        };
        let (there, back) = {
            let mut state = self.state();
            (Self::takes(&mut state), Self::takes(&mut state))
        };
        let (done, is_done) = oneshot::channel();
        let (link, its) = (self.clone(), Arc::downgrade(&ear));
        ear.up.send(there, move || {
            let Some(ear) = its.upgrade() else { return };
            if !link.server.is_up() || link.server.ends() != ear.ends {
                return;
            }
            act(&link, ear.subscriber);
            ear.down.send(back, move || done.send(()).unwrap_or_default());
        });
        drop(ear);
        match timeout_at(by, is_done).await {
            Ok(Ok(())) => Ok(()),
            // A frozen connection drops nothing: it was ended.
            Ok(Err(_)) => Err(WireError::unanswered("the connection is gone")),
            Err(_) => Err(WireError::unanswered("no answer in time")),
        }
    }

    fn note(&self, what: &str, more: std::fmt::Arguments<'_>) {
        self.server.trace.note(format_args!("{} s{} {what} {more}", self.name, self.server.name));
    }
}

/// A link as its client sees it.
pub(super) struct ToServer(pub(super) Arc<Link>);

impl std::fmt::Debug for ToServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ToServer")
    }
}

impl Transport for ToServer {
    fn call(&self, call: Invocation) -> Flight {
        self.0.clone().call(call, None)
    }

    fn call_by(&self, call: Invocation, by: Instant) -> Flight {
        self.0.clone().call(call, Some(by))
    }

    fn time_at(&self, _: &[u8], moment: Instant) -> u64 {
        self.0.clock.at(moment)
    }

    fn observe(&self, _: &[u8], now: u64) {
        self.0.clock.observe(now);
    }

    fn server_time(&self, _: &[u8]) -> BoxFuture<'static, Result<u64, WireError>> {
        let link = self.0.clone();
        async move {
            let time = || link.clone().ask(None, |link| link.server.time());
            let now = link.runtime.run(time).await?;
            link.clock.observe(now);
            Ok(now)
        }
        .boxed()
    }

    fn keep_time(&self) -> BoxFuture<'static, ()> {
        self.server_time(&[]).map(drop).boxed()
    }

    fn subscribe(&self, channels: Vec<String>) -> BoxFuture<'static, Result<(), WireError>> {
        let act = move |link: &Link, ear| link.server.subscribe(ear, &channels, true);
        self.0.clone().on_ear(act).boxed()
    }

    fn unsubscribe(&self, channels: Vec<String>) -> BoxFuture<'static, Result<(), WireError>> {
        let act = move |link: &Link, ear| link.server.subscribe(ear, &channels, false);
        self.0.clone().on_ear(act).boxed()
    }

    fn follows(&self) -> bool {
        self.0.state().follows
    }

    fn place(&self, _: &str) -> u64 {
        self.0.state().place
    }

    fn probe(&self, _: u64) -> BoxFuture<'static, Result<(), WireError>> {
        let link = self.0.clone();
        async move {
            let alive = link.clone().on_ear(|_, _| ()).await;
            if matches!(alive, Err(WireError::Unanswered(_))) {
                link.break_ear();
            }
            alive
        }
        .boxed()
    }

    fn given_up(&self, _: &[u8]) {
        self.0.timed_out();
    }

    fn quit(&self) -> BoxFuture<'static, ()> {
        let link = self.0.clone();
        async move {
            let (commands, ear) = {
                let mut state = link.state();
                state.closed = true;
                (state.commands.take(), state.ear.take())
            };
            if let Some(connection) = commands {
                connection.end(Rest::Runs(Duration::ZERO));
            }
            if let Some(ear) = ear {
                link.server.disconnect(ear.subscriber);
            }
            link.back.notify_waiters();
        }
        .boxed()
    }
}

impl Link {
    fn call(self: Arc<Self>, call: Invocation, by: Option<Instant>) -> Flight {
        let runtime = self.runtime.clone();
        let run =
            move |link: &Self| -> Result<Reply, WireError> { link.server.run(&link.name, &call) };
        async move { runtime.run(|| self.ask(by, run)).await }.boxed()
    }
}
