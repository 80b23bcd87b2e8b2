//! [`Client`]: the connection to Redis, from which locks are made.

use std::{fmt, sync::Arc, time::Duration};

use crate::{
    config::Config,
    engine::{Engine, Subscriptions},
    error::Error,
    latch::CountDownLatch,
    lock::{FencedLock, Lock},
    locking::registry::{LockState, Registry},
    observer::LockKind,
    options::SpinBackoff,
    owner::{Identity, Owner},
    protocol,
    read_write::ReadWriteLock,
    runtime::ClientRuntime,
    semaphore::Semaphore,
    waiting::counter::Counters,
    wire::{ConnectOptions, LazyTransport, RedisTransport, Transport},
};

/// The pauses of a waiter on a plain lock.
const PLAIN_BACKOFF: SpinBackoff =
    SpinBackoff { first: Duration::from_millis(5), most: Duration::from_millis(100) };

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
    /// - [`Error::Redis`] when the server cannot be reached, or refuses the connection. Not with
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
            latches: Arc::default(),
        }
    }

    #[cfg(any(test, feature = "_servers"))]
    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Returns the reentrant lock of this name, Redisson's `getLock`. Does no I/O.
    ///
    /// The lock has one holder at a time. Its waiters have no order between processes. The key on
    /// the server is the [prefix](Config::prefix) followed by the name.
    ///
    /// A name that cannot be used is reported by the first call on the lock, as [`Error::Invalid`].
    /// A name must not be empty. In a cluster all keys of the lock must share one hash slot.
    pub fn lock(&self, name: impl AsRef<str>) -> Lock {
        Lock::new(self.state(LockKind::Reentrant, name))
    }

    /// Returns the fair lock of this name, Redisson's `getFairLock`. Does no I/O.
    ///
    /// A fair lock is a [`lock`](Client::lock) whose waiters are served first come, first served,
    /// across processes and languages. The server's clock decides.
    ///
    /// The server keeps the line of waiters. A waiter that is dropped leaves the line at once. A
    /// waiter whose process dies keeps its place for [`Config::fair_wait`] after it last asked the
    /// server. A Redisson waiter keeps it for `fairLockWaitTimeout`, 5 min by default.
    /// [`Lock::inspect`] shows the line.
    ///
    /// A fair lock is slower than a reentrant lock, because no waiter takes it out of turn.
    pub fn fair_lock(&self, name: impl AsRef<str>) -> Lock {
        Lock::new(self.state(LockKind::Fair, name))
    }

    /// Returns the read/write lock of this name, Redisson's `getReadWriteLock`. Does no I/O.
    pub fn read_write_lock(&self, name: impl AsRef<str>) -> ReadWriteLock {
        let name = name.as_ref();
        ReadWriteLock::new(self.state(LockKind::Read, name), self.state(LockKind::Write, name))
    }

    /// Returns the fenced lock of this name, Redisson's `getFencedLock`. Does no I/O.
    ///
    /// A fenced lock is a [`lock`](Client::lock) whose holds have a
    /// [token](crate::FencedGuard::token). The token of a hold is greater than the tokens of all
    /// holds before it, as long as the server keeps its data.
    ///
    /// The counter of the tokens is a key of its own. It has no TTL, and this crate never deletes
    /// it. If the server loses it (evicted under `allkeys-*`, flushed, restarted without its data),
    /// tokens start again at 1. After a failover two holders may have the same token.
    /// [`FencedGuard::token`](crate::FencedGuard::token) says what a storage must refuse.
    ///
    /// A re-entry has the token of the outer hold. A re-entry by Redisson gets a new token.
    ///
    /// # Examples
    /// ```no_run
    /// # struct Storage; impl Storage { async fn write(&self, token: u64, holder: &str, row: &str) {} }
    /// # async fn f(client: redisson_lock::Client, storage: Storage) -> Result<(), redisson_lock::Error> {
    /// let guard = client.fenced_lock("ledger").lock().await?;
    /// // The storage refuses a token that is smaller than its last one,
    /// // or equal to it and from another holder.
    /// storage.write(guard.token().value(), guard.holder(), "row").await;
    /// guard.unlock().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn fenced_lock(&self, name: impl AsRef<str>) -> FencedLock {
        Lock::new(self.state(LockKind::Fenced, name))
    }

    /// Returns the non-reentrant lock of this name, Redisson's `getNonReentrantLock`. Does no I/O.
    ///
    /// It is a [`lock`](Client::lock) that its owner cannot re-enter: a re-entry fails with
    /// [`Error::WouldDeadlock`].
    pub fn non_reentrant_lock(&self, name: impl AsRef<str>) -> Lock {
        Lock::new(self.state(LockKind::NonReentrant, name))
    }

    /// Returns the non-reentrant fair lock of this name, Redisson's `getNonReentrantFairLock`. Does
    /// no I/O.
    ///
    /// It is a [`fair_lock`](Client::fair_lock) that its owner cannot re-enter: a re-entry fails
    /// with [`Error::WouldDeadlock`].
    pub fn non_reentrant_fair_lock(&self, name: impl AsRef<str>) -> Lock {
        Lock::new(self.state(LockKind::NonReentrantFair, name))
    }

    /// Returns the spin lock of this name, Redisson's `getSpinLock`. Does no I/O.
    ///
    /// It is a [`lock`](Client::lock) whose waiters do not subscribe. They poll, with the default
    /// pauses of [`SpinBackoff`].
    ///
    /// A spin lock saves the server messages where locks are held for very short times. It also
    /// works where a user may not subscribe. Its release still wakes waiters of the [`lock`](Client::lock)
    /// of this name.
    pub fn spin_lock(&self, name: impl AsRef<str>) -> Lock {
        Lock::new(self.state(LockKind::Spin, name))
    }

    /// Returns the spin lock of this name, with other pauses. See [`spin_lock`](Client::spin_lock).
    pub fn spin_lock_with(&self, name: impl AsRef<str>, backoff: SpinBackoff) -> Lock {
        self.spin_lock(name).with_backoff(backoff)
    }

    /// Returns the plain lock of this name. Does no I/O. Redisson has none.
    ///
    /// The key is a string, which contains the token of its holder. Clients that lock by
    /// `SET key token NX PX lease`, and release only their own token, share it: Spring's
    /// `setIfAbsent` with a script that compares and deletes, the `Lock` of redis-py, and the like.
    /// Between services of this crate or Redisson's, [`lock`](Client::lock) is better.
    ///
    /// - Its token is the [holder id](crate::LockGuard::holder). The watchdog renews it, and tells
    ///   of a loss, as for the other kinds.
    /// - Waiters poll, because other clients send no message. The pauses double from 5 ms to
    ///   100 ms. A release by this crate wakes them at once.
    /// - It cannot be re-entered: a re-entry by its owner fails with [`Error::WouldDeadlock`].
    /// - A client that deletes the key without comparing the token frees anybody's lock.
    ///   The holder is told by its next renewal.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn f(client: redisson_lock::Client) -> Result<(), redisson_lock::Error> {
    /// // Python: with redis.lock("lock:product:1", timeout=10): ...
    /// let guard = client.plain_lock("lock:product:1").lock().await?;
    /// guard.unlock().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn plain_lock(&self, name: impl AsRef<str>) -> Lock {
        self.plain_lock_with(name, PLAIN_BACKOFF)
    }

    /// Returns the plain lock of this name, with other pauses. See [`plain_lock`](Client::plain_lock).
    pub fn plain_lock_with(&self, name: impl AsRef<str>, backoff: SpinBackoff) -> Lock {
        Lock::new(self.state(LockKind::Plain, name)).with_backoff(backoff)
    }

    /// Returns the semaphore of this name, Redisson's `getSemaphore`. Does no I/O.
    ///
    /// A semaphore is a counter of permits. It exists once [`try_set`](Semaphore::try_set) has
    /// created it. The key on the server is the [prefix](Config::prefix) followed by the name.
    ///
    /// A permit has no lease: the permits of a process that dies are gone. See
    /// [what a semaphore does not promise](Semaphore#what-a-semaphore-does-not-promise).
    ///
    /// A name that cannot be used is reported by the first call, as [`Error::Invalid`].
    pub fn semaphore(&self, name: impl AsRef<str>) -> Semaphore {
        Semaphore::new(self.semaphores.get(&self.engine, name.as_ref()))
    }

    /// Returns the count-down latch of this name, Redisson's `getCountDownLatch`. Does no I/O.
    ///
    /// A latch has a count, which [`try_set`](CountDownLatch::try_set) sets. Callers wait until
    /// others have counted it down to 0.
    ///
    /// A name that cannot be used is reported by the first call, as [`Error::Invalid`]. In a cluster
    /// that is any name with a `}`: Redisson builds the latch's channel from it in a way that puts it
    /// on another slot.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn f(client: redisson_lock::Client) -> Result<(), redisson_lock::Error> {
    /// let ready = client.count_down_latch("ready"); // as redisson.getCountDownLatch("ready")
    /// ready.try_set(3).await?; // no effect if it is set
    /// ready.count_down().await?; // in each of three processes
    /// ready.wait().await?; // in others
    /// # Ok(())
    /// # }
    /// ```
    pub fn count_down_latch(&self, name: impl AsRef<str>) -> CountDownLatch {
        CountDownLatch::new(self.latches.get(&self.engine, name.as_ref()))
    }

    fn state(&self, kind: LockKind, name: impl AsRef<str>) -> Result<Arc<LockState>, Error> {
        self.registry.lock(&self.engine, kind, name.as_ref())
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
    /// [`Config::retry_timeout`](crate::Config::retry_timeout), and ends with its lease. This
    /// includes an acquisition whose future was polled and is now neither polled nor dropped.
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
