//! [`Client`]: where locks come from.

use std::{fmt, sync::Arc};

use crate::{
    config::Config,
    engine::{Engine, Subscriptions},
    error::Error,
    lock::{FencedLock, Lock},
    locking::registry::{LockState, Registry},
    options::SpinBackoff,
    owner::Owner,
    protocol::Kind,
    read_write::ReadWriteLock,
    runtime::ClientRuntime,
    wire::RedisTransport,
};

/// A connection to Redis, and the locks on it. Cheap to clone; one per process is enough.
///
/// It belongs to the tokio runtime it was connected on: its connections, timers and background tasks
/// are there. Tasks of other runtimes may use it while that one is running; when theirs ends, what they had
/// begun is finished or undone on the client's own. When the client's own runtime has ended, every
/// call fails with an [`Error::Redis`] that says so, and locks that are still held end with their leases.
#[derive(Clone)]
pub struct Client {
    engine: Arc<Engine>,
    registry: Arc<Registry>,
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
    /// Connects: one connection for commands, one for messages.
    ///
    /// # Errors
    /// [`Error::Config`] when the configuration makes no sense, [`Error::Redis`] when the server
    /// cannot be reached or refuses us. A connection that breaks later is made again without end.
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
        let (timeout, sharded) = (settings.command_timeout, settings.sharded_pubsub);
        let runtime = ClientRuntime::current();
        let transport =
            RedisTransport::connect(deployment, timeout, sharded, sink, runtime.clone());
        let transport =
            transport.await.map_err(|error| error.about("connecting", None, &settings.server))?;
        let engine = Engine::start(settings, Arc::new(transport), subscriptions, runtime);
        Ok(Self::on(engine))
    }

    pub(crate) fn on(engine: Arc<Engine>) -> Self {
        Self { engine, registry: Arc::default() }
    }

    #[cfg(test)]
    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The reentrant lock of that name, Redisson's `RLock`. No I/O; the prefix of the [`Config`] is
    /// put before the name.
    ///
    /// One holder at a time, in no order between processes.
    pub fn lock(&self, name: impl AsRef<str>) -> Lock {
        Lock::new(self.state(Kind::Reentrant, name))
    }

    /// The fair lock of that name, `getFairLock` in Redisson: as [`lock`](Client::lock), but first
    /// come, first served, across processes and languages, by the server's clock.
    ///
    /// Waiters stand in a line on the server. One that is cancelled leaves it at once. One whose
    /// process dies keeps its place for [`Config::fair_wait`] after it was last seen (one of
    /// Redisson's for `fairLockWaitTimeout`, 5 min by default). [`Lock::inspect`] shows the line.
    ///
    /// A fair lock is slower than a plain one: nobody takes it out of turn.
    pub fn fair_lock(&self, name: impl AsRef<str>) -> Lock {
        Lock::new(self.state(Kind::Fair, name))
    }

    /// The read/write lock of that name, `getReadWriteLock` in Redisson.
    pub fn read_write_lock(&self, name: impl AsRef<str>) -> ReadWriteLock {
        let name = name.as_ref();
        ReadWriteLock::new(self.state(Kind::Read, name), self.state(Kind::Write, name))
    }

    /// The fenced lock of that name, `getFencedLock` in Redisson: as [`lock`](Client::lock), and each
    /// hold has a [token](crate::FencedGuard::token) greater than all before it, as long as the server
    /// keeps its data.
    ///
    /// The tokens are counted in a key of their own, which has no TTL and is never deleted from here. A server
    /// that loses it (evicted under `allkeys-*`, flushed, restarted without its data) begins anew at 1, and
    /// after a failover two holders may have the same token: what a storage must refuse stands
    /// [there](crate::FencedGuard::token). (A re-entry of Redisson's counts up, too; one of ours has the
    /// token of its outer hold.)
    ///
    /// # Examples
    /// ```no_run
    /// # struct Storage; impl Storage { async fn write(&self, token: u64, holder: &str, row: &str) {} }
    /// # async fn f(client: redisson_lock::Client, storage: Storage) -> Result<(), redisson_lock::Error> {
    /// let guard = client.fenced_lock("ledger").lock().await?;
    /// // Refuses a token smaller than its last, or equal and from another holder.
    /// storage.write(guard.token().value(), guard.holder(), "row").await;
    /// guard.unlock().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn fenced_lock(&self, name: impl AsRef<str>) -> FencedLock {
        Lock::new(self.state(Kind::Fenced, name))
    }

    /// As [`lock`](Client::lock), but an owner that holds it cannot take it once more:
    /// [`Error::WouldDeadlock`].
    pub fn non_reentrant_lock(&self, name: impl AsRef<str>) -> Lock {
        Lock::new(self.state(Kind::NonReentrant, name))
    }

    /// As [`fair_lock`](Client::fair_lock), but an owner that holds it cannot take it once more:
    /// [`Error::WouldDeadlock`].
    pub fn non_reentrant_fair_lock(&self, name: impl AsRef<str>) -> Lock {
        Lock::new(self.state(Kind::NonReentrantFair, name))
    }

    /// The spin lock of that name, `getSpinLock` in Redisson: as [`lock`](Client::lock), but its waiters
    /// do not listen for messages. They look again and again, with pauses: see [`SpinBackoff`].
    ///
    /// It saves the server messages where a lock is held for very short times, and goes where
    /// messages do not. A release tells waiters of the plain lock of that name all the same.
    pub fn spin_lock(&self, name: impl AsRef<str>) -> Lock {
        Lock::new(self.state(Kind::Spin, name))
    }

    /// The same with other pauses.
    pub fn spin_lock_with(&self, name: impl AsRef<str>, backoff: SpinBackoff) -> Lock {
        self.spin_lock(name).with_backoff(backoff)
    }

    fn state(&self, kind: Kind, name: impl AsRef<str>) -> Result<Arc<LockState>, Error> {
        self.registry.lock(&self.engine, kind, name.as_ref())
    }

    /// A new logical thread, for whoever takes one lock several times over.
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

    /// This client's id on the wire: a UUID, made anew by each connect.
    #[must_use]
    pub fn id(&self) -> &str {
        self.engine.identity.client()
    }

    /// Closes the client, for all its clones: waits until what dropped guards and futures left to be
    /// released is released, and closes the connections. Acquisitions that wait end with
    /// [`Error::Closed`].
    ///
    /// Holders that are still there are told [`Loss::Closed`](crate::Loss::Closed). Their locks are
    /// not released, for their work may still be running: they end with their leases. Unlock or
    /// drop the guards first.
    ///
    /// # Errors
    /// [`Error::Redis`] when something could not be released within
    /// [`Config::retry_timeout`](crate::Config::retry_timeout), and ends with its lease; also when the
    /// future of an acquisition was begun, and is neither polled nor dropped.
    ///
    /// # Cancel safety
    /// Dropped before its end, the client refuses new work, but its connections stay open until
    /// all handles are gone.
    pub async fn close(&self) -> Result<(), Error> {
        let closed = self.engine.close().await;
        closed.map_err(|error| error.about("closing", None, &self.engine.settings.server))
    }
}
