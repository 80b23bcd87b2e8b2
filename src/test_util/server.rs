//! [`TestServer`]: what a test does to a server in the process.

use std::{
    collections::BTreeSet,
    fmt, io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use redis_in_process::Value;

use super::{
    host::Host, link::Link, port::Port, refusal::Refusal, state::State, stranger::Stranger,
};
use crate::{
    client::Client,
    config::Config,
    engine::{Engine, Subscriptions},
    error::Error,
    names,
    observer::LockKind,
    owner::{HoldId, Identity},
    runtime::ClientRuntime,
};

/// A Redis server in the process. Cheap to clone; all clones are one server.
///
/// All methods may be called from any thread, while clients work. None of them blocks, but for what
/// their own work takes.
///
/// Names of locks are those on the server: with the [prefix](Config::prefix), if there is one.
#[derive(Clone)]
pub struct TestServer {
    host: Arc<Host>,
    /// Two servers must not be taken for one.
    name: Arc<str>,
}

impl Default for TestServer {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for TestServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestServer").field("name", &self.name).finish_non_exhaustive()
    }
}

impl TestServer {
    /// Starts a server without data. It has the clock of the tokio runtime of the caller. If there is
    /// none, it has the clock of each runtime that uses it.
    ///
    /// Make one in each test. A server in a `static` keeps the clock of the first test that uses it.
    /// If that clock is paused, it stands still when its runtime ends. No lease ends then, and a
    /// waiter of another runtime may wait without end.
    #[must_use]
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self { host: Arc::new(Host::new()), name: format!("test-server-{number}").into() }
    }

    // ---- Clients

    /// Connects a client with the default configuration. Each call makes a client of its own, as if
    /// it were another process.
    ///
    /// # Errors
    /// As [`client_with`](TestServer::client_with).
    ///
    /// # Panics
    /// When it is not awaited on a tokio runtime.
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    pub async fn client(&self) -> Result<Client, Error> {
        self.client_with(Config::default()).await
    }

    /// Connects a client with this configuration. Its URL, credentials and TLS are ignored.
    ///
    /// # Errors
    /// As [`Client::connect`]: [`Error::Config`] for a setting out of its range, and [`Error::Redis`]
    /// when the server is stopped, stalled or refuses, but not with [`Config::lazy_connect`].
    ///
    /// # Panics
    /// When it is not awaited on a tokio runtime.
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    pub async fn client_with(&self, config: Config) -> Result<Client, Error> {
        let (_, mut settings) = config.into_settings()?;
        settings.server = (*self.name).to_owned();
        let subscriptions = Subscriptions::new();
        let sink = {
            let subscriptions = subscriptions.clone();
            Arc::new(move |event| subscriptions.on_event(event))
        };
        let runtime = ClientRuntime::current();
        let (timeout, lazily) = (settings.command_timeout, settings.lazy_connect);
        let link = Link::connect(&self.host, sink, runtime.clone(), timeout, lazily).await;
        let link = link.map_err(|error| error.about("connecting", None, &settings.server))?;
        Ok(Client::on(Engine::start(
            Identity::new(),
            settings,
            Arc::new(link),
            subscriptions,
            runtime,
        )))
    }

    /// Connects a blocking client with this configuration. Its URL, credentials and TLS are ignored.
    /// Its time is the real one: the server must not have been made on a runtime with a paused clock.
    ///
    /// # Errors
    /// As [`client_with`](TestServer::client_with), and those of
    /// [`blocking::Client::connect`](crate::blocking::Client::connect).
    #[cfg(feature = "blocking")]
    pub fn blocking_client(&self, config: Config) -> Result<crate::blocking::Client, Error> {
        crate::blocking::Client::over(self.client_with(config))
    }

    /// Opens a TCP port on the loopback interface, for clients of other processes and for the
    /// application's own Redis code. Not for a test with a paused clock.
    ///
    /// It has the commands that locks of this crate and of Redisson call, and those that clients send
    /// on connecting. Any other command is an error that says so.
    ///
    /// # Errors
    /// When no port or no thread can be had.
    pub fn listen(&self) -> io::Result<Port> {
        Port::open(self.host.clone())
    }

    // ---- Others

    /// Lets a stranger take a [`lock`](Client::lock), until the returned value is dropped. It may also
    /// be a spin, a fenced or a non-reentrant lock.
    ///
    /// # Panics
    /// When the lock is held. A guard that was dropped holds it until its release, which is queued, is
    /// done: [unlock](crate::LockGuard::unlock) it before.
    pub fn hold(&self, name: impl AsRef<str>) -> Stranger {
        self.stranger(LockKind::Reentrant, name.as_ref())
    }

    /// Lets a stranger take a [`fair_lock`](Client::fair_lock), until the returned value is dropped.
    ///
    /// # Panics
    /// When the lock is held, or others wait for it.
    pub fn hold_fair(&self, name: impl AsRef<str>) -> Stranger {
        self.stranger(LockKind::Fair, name.as_ref())
    }

    /// Lets a stranger take a [`read_write_lock`](Client::read_write_lock) for reading, until the
    /// returned value is dropped.
    ///
    /// # Panics
    /// When it is held by a writer.
    pub fn hold_read(&self, name: impl AsRef<str>) -> Stranger {
        self.stranger(LockKind::Read, name.as_ref())
    }

    /// Lets a stranger take a [`read_write_lock`](Client::read_write_lock) for writing, until the
    /// returned value is dropped.
    ///
    /// # Panics
    /// When it is held.
    pub fn hold_write(&self, name: impl AsRef<str>) -> Stranger {
        self.stranger(LockKind::Write, name.as_ref())
    }

    fn stranger(&self, kind: LockKind, name: &str) -> Stranger {
        let (_, settings) = Config::default().into_settings().expect("the default settings");
        let protocol = Arc::from(kind.protocol(name, &settings));
        // As of a thread of a JVM.
        let writer = if kind == LockKind::Write { ":write" } else { "" };
        let id = format!("{}:{}{writer}", uuid::Uuid::new_v4(), fastrand::u32(1..1000));
        let hold_id = HoldId::read(&id).expect("an id");
        let number = self.host.with(|state| state.hold(protocol, hold_id));
        let Some(number) = number else {
            let holders = self.holders(name);
            panic!(
                "a stranger cannot take {name:?}: it is held by {holders:?} (a guard that was \
                 dropped is released in the background, a moment later)"
            );
        };
        Stranger::new(self.host.clone(), number, id)
    }

    // ---- What goes wrong

    /// Takes a lock away from its holders, as a failover, an operator or an eviction does. Nobody is
    /// told: a holder finds it out at its next renewal, which is due every third of
    /// [`Config::watchdog`]. Returns whether the lock was held.
    ///
    /// The waiters of a fair lock keep their places, and a fenced lock its counter.
    pub fn take_away(&self, name: impl AsRef<str>) -> bool {
        let name = name.as_ref();
        self.host.with(|state| {
            let read_holds = names::read_timeouts(name);
            let is_read_hold = |key: &Vec<u8>| {
                let key = String::from_utf8_lossy(key);
                key.starts_with(&read_holds) && key.contains(":rwlock_timeout:")
            };
            let keys: Vec<_> = state.redis.look_at_all().into_keys().filter(is_read_hold).collect();
            for key in keys {
                state.redis.evict(key);
            }
            state.redis.evict(name)
        })
    }

    /// Stops answering. Requests are taken, and run when the server [runs on](TestServer::resume).
    /// Their callers wait until their time is over: [`Config::command_timeout`] for a request. Has no
    /// effect on a stopped server.
    pub fn stall(&self) {
        self.host.stall();
    }

    /// Runs on after [`stall`](TestServer::stall).
    pub fn resume(&self) {
        self.host.resume();
    }

    /// Stops the server. All connections end, and new ones are refused. The data stay, and leases go
    /// on. Refusals end, also those of [`fail_next`](TestServer::fail_next) that have not come yet.
    ///
    /// Calls go on trying: `try_lock` without a wait for [`Config::command_timeout`], others for
    /// [`Config::retry_timeout`], and so does [`Client::close`] while something is to be released.
    pub fn stop(&self) {
        self.host.stop(true);
    }

    /// Starts the server again after [`stop`](TestServer::stop), with its data. The clients connect
    /// again at once.
    pub fn start(&self) {
        self.host.start();
    }

    /// Stops the server if it runs, and starts it without its data.
    pub fn restart_empty(&self) {
        self.host.stop(false);
        self.host.start();
    }

    /// Loses the replies of the next requests of locks, as many as `count`. The requests are executed,
    /// and their connection then breaks. One request may be for several locks.
    pub fn lose_replies(&self, count: u32) {
        self.host.with(|state| state.lose_replies(count));
    }

    /// Loses the next messages to waiters, as many as `count`. A waiter that misses a message asks the
    /// server by itself, after 3 s at most.
    pub fn lose_messages(&self, count: u32) {
        self.host.with(|state| state.lose_messages(count));
    }

    /// Refuses requests for this reason, until [`accept`](TestServer::accept).
    pub fn refuse(&self, why: Refusal) {
        self.host.with(|state| state.refuse(why.into()));
    }

    /// Refuses the next request that this concerns. The client repeats most requests, so that a caller
    /// may not notice one refusal.
    pub fn fail_next(&self, why: Refusal) {
        self.host.with(|state| state.fail_next(why.into()));
    }

    /// Ends all refusals, also those of [`fail_next`](TestServer::fail_next) that have not come yet.
    pub fn accept(&self) {
        self.host.with(State::accept_all);
    }

    /// Sets the clock of the server ahead. Leases on the server end sooner by this. The clocks of the
    /// clients do not change, so they find a lost hold out at their next renewal.
    ///
    /// It goes 100 years ahead at most, in all. A stranger renews all the while, every 10 s: with
    /// strangers a jump over months takes a while.
    pub fn advance(&self, by: Duration) {
        self.host.with(|state| state.advance(by));
    }

    // ---- A look at the server

    /// Returns the ids of a lock's holders, `<client uuid>:<number>`, and for a writer `:write` behind.
    /// Of a plain lock the token. Empty when the lock is free. [`Lock::inspect`](crate::Lock::inspect) says
    /// more.
    #[must_use]
    pub fn holders(&self, name: impl AsRef<str>) -> Vec<String> {
        let name = name.as_ref();
        let entry = self.host.with(|state| state.redis.look(name));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match entry.map(|entry| entry.value) {
            Some(Value::String(token)) => vec![text(&token)],
            Some(Value::Hash(fields)) => {
                let fields = fields.iter().map(|(field, _)| text(field));
                fields.filter(|field| field != "mode").collect()
            }
            _ => Vec::new(),
        }
    }

    /// Returns the names of all keys, in order.
    #[must_use]
    pub fn keys(&self) -> Vec<String> {
        let keys = self.host.with(|state| state.redis.look_at_all().into_keys());
        keys.map(|key| String::from_utf8_lossy(&key).into_owned()).collect()
    }

    /// Returns how many clients wait for a message about this lock. The waiters of one client count
    /// once, but each by itself for a fair lock. A waiter for a spin lock does not count.
    #[must_use]
    pub fn listeners(&self, name: impl AsRef<str>) -> usize {
        let name = name.as_ref();
        let unlock = names::unlock_channel(name);
        let of_waiters = format!("{unlock}:");
        let of_all = [unlock, names::plain_channel(name), names::read_write_channel(name)];
        self.host.with(|state| {
            let channels = state.channels();
            let is_meant =
                |channel: &String| of_all.contains(channel) || channel.starts_with(&of_waiters);
            let channels: BTreeSet<_> = channels.into_iter().filter(is_meant).collect();
            channels.iter().map(|channel| state.subscribers(channel)).sum()
        })
    }
}
