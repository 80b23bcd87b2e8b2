//! [`Client`]: where locks come from.

use std::sync::Arc;

use crate::{
    config::Config,
    engine::{Engine, Wakeups},
    entry::Entries,
    error::Error,
    lock::Lock,
    owner::Owner,
    wire::FredTransport,
};

/// A connection to Redis, and the locks on it. Cheap to clone; one per process is enough.
///
/// It belongs to the tokio runtime it was connected on.
#[derive(Clone, Debug)]
pub struct Client {
    engine: Arc<Engine>,
    entries: Arc<Entries>,
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
        let (fred, settings) = config.into_settings()?;
        let wakeups = Wakeups::new();
        let sink = {
            let wakeups = wakeups.clone();
            Arc::new(move |event| wakeups.take(event))
        };
        let transport = FredTransport::connect(fred, settings.command_timeout, sink).await?;
        let engine = Engine::start(settings, Arc::new(transport), wakeups).await?;
        Ok(Self::on(engine))
    }

    pub(crate) fn on(engine: Arc<Engine>) -> Self {
        Self { engine, entries: Arc::default() }
    }

    #[cfg(test)]
    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The lock of that name. No I/O; the prefix of the [`Config`] is put before the name.
    pub fn lock(&self, name: impl AsRef<str>) -> Lock {
        Lock::new(self.entries.reentrant(&self.engine, name.as_ref()))
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
        self.engine.close().await
    }
}
