//! [`Link`]: the connection of one client to a server in the process.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::{FutureExt, future::BoxFuture};
use tokio::{
    sync::oneshot,
    task::yield_now,
    time::{Instant, sleep, timeout_at},
};

use super::{
    host::{Host, Phase},
    state::State,
};
use crate::{
    error::Error,
    options::{Acknowledged, Replicas},
    redis_error::{RedisError, RedisErrorKind},
    runtime::ClientRuntime,
    wire::{Confirm, EventSink, Flight, Invocation, Reply, ServerClock, Transport, WireError},
};

/// The connection of one client.
#[derive(Clone)]
pub(super) struct Link(Arc<Inner>);

struct Inner {
    host: Arc<Host>,
    number: u64,
    clock: ServerClock,
    runtime: ClientRuntime,
    command_timeout: Duration,
    closed: AtomicBool,
}

/// The answer of a request, unless it is lost.
type Heard<T> = Option<Result<T, WireError>>;

fn unreachable(text: &str) -> WireError {
    WireError::NotNow(RedisError::new(RedisErrorKind::Unreachable, text))
}

impl Link {
    /// Connects. `lazily`: the server may be stopped.
    pub(super) async fn connect(
        host: &Arc<Host>,
        sink: EventSink,
        runtime: ClientRuntime,
        command_timeout: Duration,
        lazily: bool,
    ) -> Result<Self, Error> {
        let is_up = host.phase() != Phase::Stopped;
        if !is_up && !lazily {
            return Err(unreachable("the test server is stopped").into_error(""));
        }
        let number = host.with(|state| state.link(sink, is_up));
        let (host, clock, closed) = (host.clone(), ServerClock::new(0), AtomicBool::new(false));
        let link = Self(Arc::new(Inner { host, number, clock, runtime, command_timeout, closed }));
        if !lazily {
            link.server_time(&[]).await.map_err(|error| error.into_error(""))?;
        }
        Ok(link)
    }

    /// Sends a request at the first poll, or when the server can be reached. It then runs whether
    /// or not its answer is waited for.
    fn ask<T: Send + 'static>(
        &self,
        by: Option<Instant>,
        run: impl FnOnce(&mut State, u64) -> Heard<T> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, WireError>> {
        let link = self.0.clone();
        async move {
            let runtime = link.runtime.clone();
            runtime.run(|| link.ask(by, run)).await
        }
        .boxed()
    }
}

impl Inner {
    async fn ask<T: Send + 'static>(
        self: Arc<Self>,
        by: Option<Instant>,
        run: impl FnOnce(&mut State, u64) -> Heard<T> + Send + 'static,
    ) -> Result<T, WireError> {
        let by = by.unwrap_or_else(|| Instant::now() + self.command_timeout);
        let (tell, told) = oneshot::channel();
        let number = self.number;
        let mut job: Box<dyn FnOnce(&mut State) + Send> = Box::new(move |state| {
            if let Some(answer) = run(state, number) {
                // Nobody may wait for it any more.
                let _ = tell.send(answer);
            }
        });
        loop {
            if self.closed.load(Ordering::Relaxed) {
                return Err(unreachable("the connection is gone"));
            }
            match self.host.submit(job) {
                Ok(()) => break,
                Err(back) => job = back,
            }
            let mut life = self.host.life();
            let up = life.wait_for(|life| life.phase != Phase::Stopped);
            if timeout_at(by, up).await.is_err() {
                return Err(unreachable("there is no connection: the test server is stopped"));
            }
        }
        // As any answer of a server, it does not come within the poll that sends the request.
        yield_now().await;
        match timeout_at(by, told).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(WireError::Unanswered(RedisError::new(
                RedisErrorKind::Disconnected,
                "the connection is gone",
            ))),
            Err(_) => Err(WireError::unanswered("no answer in time")),
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.host.with(|state| state.unlink(self.number));
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Link").field(&self.0.number).finish()
    }
}

impl Transport for Link {
    fn call(&self, call: Invocation) -> Flight {
        self.ask(None, move |state, _| state.call(&call))
    }

    fn call_by(&self, call: Invocation, by: Instant) -> Flight {
        self.ask(Some(by), move |state, _| state.call(&call))
    }

    /// There are no replicas: the answer to WAIT is 0, at the end of its time.
    fn call_confirmed(&self, call: Invocation, confirm: Confirm) -> Flight {
        let flight = self.call(call);
        let runtime = self.0.runtime.clone();
        async move {
            let confirmed = || async {
                let reply = flight.await?;
                let needed = match confirm.replicas {
                    Replicas::None => return Ok(reply),
                    Replicas::AtLeast(n) => n,
                    Replicas::All | Replicas::OneOfAll => 0,
                };
                if !(confirm.needs_confirmation)(&reply) {
                    return Ok(reply);
                }
                if needed > 0 {
                    sleep(confirm.timeout).await;
                }
                Ok(Reply::Confirmed(Box::new(reply), Acknowledged { by: 0, needed }))
            };
            runtime.run(confirmed).await
        }
        .boxed()
    }

    fn time_at(&self, _: &[u8], moment: Instant) -> u64 {
        self.0.clock.at(moment)
    }

    fn observe(&self, _: &[u8], now: u64) {
        self.0.clock.observe(now);
    }

    fn server_time(&self, _: &[u8]) -> BoxFuture<'static, Result<u64, WireError>> {
        let time = self.ask(None, |state, _| Some(state.time()));
        let link = self.0.clone();
        async move {
            let now = time.await?;
            link.clock.observe(now);
            Ok(now)
        }
        .boxed()
    }

    fn keep_time(&self) -> BoxFuture<'static, ()> {
        self.server_time(&[]).map(drop).boxed()
    }

    fn subscribe(&self, channels: Vec<String>) -> BoxFuture<'static, Result<(), WireError>> {
        let act = move |state: &mut State, link| {
            state.subscribe(link, &channels, true);
            Some(Ok(()))
        };
        self.ask(None, act)
    }

    fn unsubscribe(&self, channels: Vec<String>) -> BoxFuture<'static, Result<(), WireError>> {
        let act = move |state: &mut State, link| {
            state.subscribe(link, &channels, false);
            Some(Ok(()))
        };
        self.ask(None, act)
    }

    fn probe(&self, _: u64) -> BoxFuture<'static, Result<(), WireError>> {
        let sign = self.ask(None, |_, _| Some(Ok(())));
        let link = self.0.clone();
        async move {
            let alive = sign.await;
            if matches!(alive, Err(WireError::Unanswered(_))) {
                // Replaced when the server runs on.
                link.host.with(|state| state.hang_up_link(link.number));
            }
            alive
        }
        .boxed()
    }

    fn quit(&self) -> BoxFuture<'static, ()> {
        let link = self.0.clone();
        async move {
            link.closed.store(true, Ordering::Relaxed);
            link.host.with(|state| state.unlink(link.number));
        }
        .boxed()
    }
}
