//! [`LazyTransport`]: connections that are made in the background, for servers that may not be up
//! yet.

use std::{
    fmt,
    sync::{Arc, Weak},
    time::Duration,
};

use futures::{FutureExt, future::BoxFuture};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout_at},
};

use super::{
    Confirm, Event, Flight, ServerId, Transport, connect::ConnectOptions, deployment::Servers,
    error::WireError, script::Invocation, topology::slot_of, transport::RedisTransport,
};
#[cfg(feature = "_servers")]
use super::{RawServer, RawServers};
use crate::{
    backoff::Backoff,
    error::Error,
    redis_error::{RedisError, RedisErrorKind},
};

/// The pauses between tries to connect double from the first to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The connections of one client, from before they are made. Until then each call waits for them,
/// as long as a call may take.
#[derive(Clone)]
pub(crate) struct LazyTransport(Arc<Shared>);

struct Shared {
    options: ConnectOptions,
    state: watch::Sender<State>,
}

enum State {
    /// With the last failure.
    Connecting(Option<Error>),
    Up(RedisTransport),
    Closed,
}

impl LazyTransport {
    /// Begins to connect. Fails only for what no server can mend.
    pub(crate) fn start(options: ConnectOptions) -> Result<Self, Error> {
        options.driver()?;
        let state = watch::Sender::new(State::Connecting(None));
        let shared = Arc::new(Shared { options, state });
        shared.options.runtime.spawn(connect(Arc::downgrade(&shared)));
        Ok(Self(shared))
    }

    /// The connections, if there are any.
    fn up(&self) -> Option<RedisTransport> {
        match &*self.0.state.borrow() {
            State::Up(transport) => Some(transport.clone()),
            _ => None,
        }
    }

    /// Waits for the connections, and goes on with them, within one bound for both.
    fn once_up<T: Send + 'static>(
        &self,
        by: Option<Instant>,
        go_on: impl FnOnce(RedisTransport, Option<Instant>) -> BoxFuture<'static, Result<T, WireError>>
        + Send
        + 'static,
    ) -> BoxFuture<'static, Result<T, WireError>> {
        if let Some(transport) = self.up() {
            return go_on(transport, by);
        }
        let shared = self.0.clone();
        let runtime = shared.options.runtime.clone();
        let go_on = move || async move {
            let by = by.unwrap_or_else(|| Instant::now() + shared.options.command_timeout);
            go_on(shared.wait(by).await?, Some(by)).await
        };
        async move { runtime.run(go_on).await }.boxed()
    }
}

impl Shared {
    async fn wait(&self, by: Instant) -> Result<RedisTransport, WireError> {
        let mut state = self.state.subscribe();
        let settled = state.wait_for(|state| !matches!(state, State::Connecting(_)));
        if let Ok(settled) = timeout_at(by, settled).await {
            return match settled.as_deref() {
                Ok(State::Up(transport)) => Ok(transport.clone()),
                _ => Err(unreachable("the connection is gone")),
            };
        }
        Err(match &*self.state.borrow() {
            State::Connecting(Some(Error::Redis(why))) => {
                let text = format!("there is no connection yet: {why}");
                WireError::NotNow(RedisError::new(why.kind(), text))
            }
            State::Connecting(Some(why)) => {
                unreachable(format!("there is no connection yet: {why}"))
            }
            _ => unreachable("there is no connection yet"),
        })
    }
}

fn unreachable(text: impl Into<String>) -> WireError {
    WireError::NotNow(RedisError::new(RedisErrorKind::Unreachable, text))
}

/// Connects, as often as it takes.
async fn connect(shared: Weak<Shared>) {
    let mut backoff = Backoff::between(FIRST_PAUSE, LONGEST_PAUSE);
    let mut told = false;
    while let Some(shared) = shared.upgrade() {
        let mut closed = shared.state.subscribe();
        let server = shared.options.deployment.name();
        let connecting = RedisTransport::connect(shared.options.clone());
        let connected = tokio::select! {
            biased;
            _ = closed.wait_for(|state| matches!(state, State::Closed)) => return,
            connected = connecting => connected,
        };
        match connected {
            Ok(transport) => {
                let is_open = shared.state.send_if_modified(|state| {
                    let is_open = !matches!(state, State::Closed);
                    if is_open {
                        *state = State::Up(transport.clone());
                    }
                    is_open
                });
                if !is_open {
                    return transport.quit().await;
                }
                log!(info, server, "redis is connected to");
                // Waiters that could not subscribe do so now.
                return (shared.options.sink)(Event::Gap);
            }
            Err(error) => {
                if std::mem::replace(&mut told, true) {
                    log!(debug, server, %error, "redis cannot be connected to yet");
                } else {
                    log!(warn, server, %error, "redis cannot be connected to yet");
                }
                shared.state.send_if_modified(|state| {
                    if let State::Connecting(why) = state {
                        *why = Some(error);
                    }
                    // No caller waits for this change.
                    false
                });
            }
        }
        drop(shared);
        sleep(backoff.next()).await;
    }
}

impl fmt::Debug for LazyTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LazyTransport").field(&self.up()).finish()
    }
}

impl Transport for LazyTransport {
    fn call(&self, call: Invocation) -> Flight {
        self.once_up(None, |transport, by| transport.send(call, None, by))
    }

    fn call_by(&self, call: Invocation, by: Instant) -> Flight {
        self.once_up(Some(by), |transport, by| transport.send(call, None, by))
    }

    fn call_confirmed(&self, call: Invocation, confirm: Confirm) -> Flight {
        self.once_up(None, move |transport, by| transport.send(call, Some(confirm), by))
    }

    fn slot(&self, key: &[u8]) -> u16 {
        if self.is_cluster() { slot_of(key) } else { 0 }
    }

    fn is_cluster(&self) -> bool {
        self.0.options.deployment.is_cluster()
    }

    fn time_at(&self, key: &[u8], moment: Instant) -> u64 {
        self.up().map_or(0, |transport| transport.time_at(key, moment))
    }

    fn observe(&self, key: &[u8], now: u64) {
        if let Some(transport) = self.up() {
            transport.observe(key, now);
        }
    }

    fn server_time(&self, key: &[u8]) -> BoxFuture<'static, Result<u64, WireError>> {
        let key = key.to_vec();
        self.once_up(None, move |transport, _| transport.server_time(&key))
    }

    fn keep_time(&self) -> BoxFuture<'static, ()> {
        self.up().map_or_else(|| async {}.boxed(), |transport| transport.keep_time())
    }

    fn subscribe(&self, channels: Vec<String>) -> BoxFuture<'static, Result<(), WireError>> {
        self.once_up(None, |transport, _| transport.subscribe(channels))
    }

    fn unsubscribe(&self, channels: Vec<String>) -> BoxFuture<'static, Result<(), WireError>> {
        self.once_up(None, |transport, _| transport.unsubscribe(channels))
    }

    fn may_be_subscribed(&self, channel: &str) -> bool {
        self.up().is_some_and(|transport| transport.may_be_subscribed(channel))
    }

    fn may_replace_servers(&self) -> bool {
        matches!(self.0.options.deployment.servers, Servers::Cluster(_) | Servers::Sentinels(..))
    }

    fn server_id(&self, name: &str) -> ServerId {
        self.up().map_or(0, |transport| transport.server_id(name))
    }

    fn probe(&self, server: ServerId) -> BoxFuture<'static, Result<(), WireError>> {
        self.up().map_or_else(|| async { Ok(()) }.boxed(), |transport| transport.probe(server))
    }

    fn given_up(&self, key: &[u8], silence: Duration) {
        if let Some(transport) = self.up() {
            transport.given_up(key, silence);
        }
    }

    #[cfg(feature = "_servers")]
    fn servers(&self) -> RawServers {
        self.up().map_or_else(RawServers::default, |transport| transport.servers())
    }

    #[cfg(feature = "_servers")]
    fn server_of(&self, key: &[u8]) -> Option<Arc<dyn RawServer>> {
        self.up()?.server_of(key)
    }

    fn quit(&self) -> BoxFuture<'static, ()> {
        match self.0.state.send_replace(State::Closed) {
            State::Up(transport) => transport.quit(),
            _ => async {}.boxed(),
        }
    }
}

#[cfg(test)]
mod tests {
    use harness::RedisServer;
    use tokio::{sync::mpsc, time::timeout};

    use super::*;
    use crate::{
        options::{Driver, ShardedPubsub},
        runtime::ClientRuntime,
        wire::read_url,
    };

    /// What was subscribed at no place yet would otherwise never be looked after.
    #[tokio::test]
    async fn a_gap_follows_when_the_servers_have_places() {
        let server = RedisServer::start();
        let (heard, mut events) = mpsc::unbounded_channel();
        let transport = LazyTransport::start(ConnectOptions {
            deployment: read_url(&server.url()).unwrap(),
            driver: Driver::default(),
            command_timeout: Duration::from_secs(3),
            sharding: ShardedPubsub::Auto,
            name: None,
            sink: Arc::new(move |event| heard.send(event).unwrap()),
            runtime: ClientRuntime::current(),
        });
        let transport = transport.unwrap();
        assert_eq!(transport.server_id("l"), 0, "nobody is connected to yet");
        let event = timeout(Duration::from_secs(30), events.recv()).await;
        assert!(matches!(event, Ok(Some(Event::Gap))), "{event:?}");
        assert_ne!(transport.server_id("l"), 0);
        transport.quit().await;
    }
}
