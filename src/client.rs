//! [`Client`]: the connection to Redis, from which locks are made.
//!
//! | file | content |
//! |---|---|
//! | [`locks`] | the handles to locks, by kind |
//! | [`counters`] | the handles to semaphores and latches |

mod counters;
mod locks;

use std::{fmt, sync::Arc};

use crate::{
    config::Config,
    counting::counter::Counters,
    engine::{Engine, Subscriptions},
    error::Error,
    locking::registry::Registry,
    owner::{Identity, Owner},
    protocol,
    runtime::ClientRuntime,
    wire::{ConnectOptions, LazyTransport, RedisTransport, Transport},
};

/// A connection to Redis, and the source of its locks. Cheap to clone; one per process is enough.
///
/// A client belongs to the tokio runtime on which it was connected. Its connections, timers and
/// background tasks run there. Tasks of other runtimes may use it while that runtime runs. Those
/// runtimes need their timers, too ([`enable_time`](tokio::runtime::Builder::enable_time)). When
/// such a task's runtime ends, the client finishes or undoes what the task had begun.
///
/// When the client's own runtime has ended, every call fails with an [`Error::Redis`] that says so.
/// Locks that are still held then end with their leases.
#[derive(Clone)]
pub struct Client {
    engine: Arc<Engine>,
    registry: Arc<Registry>,
    semaphores: Arc<Counters<protocol::semaphore::Semaphore>>,
    expirable: Arc<Counters<protocol::expirable::Expirable>>,
    latches: Arc<Counters<protocol::latch::Latch>>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("id", &self.id())
            .field("server", &self.engine.settings.server)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// Connects to Redis: one connection for commands, one for messages.
    ///
    /// A connection that breaks later is reconnected until the client is closed. Each connection gets
    /// a name, which `CLIENT LIST` of the server shows: `redisson-lock:`, the [id](Client::id), and
    /// what the client [announces](Config::announce). If the server refuses that, it has no name.
    ///
    /// # Errors
    /// - [`Error::Config`] when a setting is out of its range or settings contradict each other.
    /// - [`Error::Redis`] when the server cannot be reached, or refuses the connection. In a cluster:
    ///   when no master can be reached, or one refuses the connection. Not with
    ///   [`Config::lazy_connect`].
    ///
    /// # Panics
    /// When it is not awaited on a tokio runtime.
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn f() -> Result<(), redisson_lock::Error> {
    /// use redisson_lock::{Client, Config};
    ///
    /// let client = Client::connect(Config::from_url("redis://127.0.0.1:6379")?).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect(config: Config) -> Result<Self, Error> {
        let (deployment, settings) = config.into_settings()?;
        let subscriptions = Subscriptions::new();
        let sink = {
            let subscriptions = subscriptions.clone();
            Arc::new(move |event| subscriptions.on_event(event))
        };
        let runtime = ClientRuntime::current();
        let identity = Identity::new();
        let app = settings.about.as_ref().map(|about| format!(":{}", about.app));
        let name = format!("redisson-lock:{}{}", identity.client(), app.unwrap_or_default());
        let options = ConnectOptions {
            deployment,
            driver: settings.driver,
            command_timeout: settings.command_timeout,
            sharding: settings.sharded_pubsub,
            name: Some(name),
            sink,
            runtime: runtime.clone(),
        };
        let transport: Result<Arc<dyn Transport>, _> = if settings.lazy_connect {
            LazyTransport::start(options).map(|it| Arc::new(it) as _)
        } else {
            RedisTransport::connect(options).await.map(|it| Arc::new(it) as _)
        };
        let transport =
            transport.map_err(|error| error.about("connecting", None, &settings.server))?;
        let engine = Engine::start(identity, settings, transport, subscriptions, runtime);
        Ok(Self::on(engine))
    }

    pub(crate) fn on(engine: Arc<Engine>) -> Self {
        Self {
            engine,
            registry: Arc::default(),
            semaphores: Arc::default(),
            expirable: Arc::default(),
            latches: Arc::default(),
        }
    }

    #[cfg(any(test, feature = "_servers"))]
    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Makes a new owner, which can re-enter the locks it holds. Does no I/O.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn f(client: redisson_lock::Client) -> Result<(), redisson_lock::Error> {
    /// let lock = client.lock("order:42");
    /// let mut me = client.owner();
    /// let outer = lock.lock().by(&mut me).await?;
    /// let inner = lock.lock().by(&mut me).await?;
    /// assert_eq!(inner.hold_count(), 2);
    /// # drop((outer, inner)); Ok(())
    /// # }
    /// ```
    pub fn owner(&self) -> Owner {
        Owner::new()
    }

    /// Returns the client's id on the server: a UUID. Every [`connect`](Client::connect) makes a
    /// new one.
    #[must_use]
    pub fn id(&self) -> &str {
        self.engine.identity.client()
    }

    /// Closes the client and all its clones.
    ///
    /// It waits until the releases in the background are done, then closes the connections. Those
    /// are the releases of dropped guards and dropped acquisitions. Acquisitions that wait end with
    /// [`Error::Closed`].
    ///
    /// Holds with a live guard get [`Loss::Closed`](crate::Loss::Closed). Their locks are not
    /// released, because the work under them may still run. They end with their leases. To free
    /// them at once, unlock or drop the guards first.
    ///
    /// # Errors
    /// [`Error::Redis`] when something could not be released within
    /// [`Config::retry_timeout`](crate::Config::retry_timeout). A lock then ends with its lease.
    /// Permits of a [`Semaphore`](crate::Semaphore) have none, and may be lost. This includes an
    /// acquisition whose future was polled and is now neither polled nor dropped.
    ///
    /// # Cancel safety
    /// If it is dropped before its end, the client refuses new calls, but its connections stay open
    /// until all handles are dropped.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn f(client: redisson_lock::Client) -> Result<(), redisson_lock::Error> {
    /// let guard = client.lock("order:42").lock().await?;
    /// drop(guard); // queues the release
    /// client.close().await?; // waits until it is done
    /// # Ok(())
    /// # }
    /// ```
    pub async fn close(&self) -> Result<(), Error> {
        let closed = self.engine.close().await;
        closed.map_err(|error| error.about("closing", None, &self.engine.settings.server))
    }
}
