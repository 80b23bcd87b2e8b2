//! [`Semaphore`]: the handle to a semaphore, and the builders of its acquisitions.

use std::{fmt, time::Duration};

use crate::{
    acquire::Acquiring,
    counters::{checked_permits, opened, permit::Permit, show},
    counting::permits::{self, Pool},
    error::Error,
    locking::request::Bounds,
};

/// A handle to one semaphore, Redisson's `RSemaphore`. [`Client::semaphore`](crate::Client::semaphore)
/// makes it, without any I/O. Cheap to clone.
///
/// A semaphore is a counter of free permits on the server. Its methods have the words of tokio's
/// `Semaphore`. It is shared with Redisson: key, value, channel and messages are the same.
///
/// # Waiting
/// A waiter asks the server, subscribes, and asks again. Then it waits for a message. It looks again
/// by itself every 3 s, and at its deadline. Waiters have no order between processes.
///
/// In one client, a message wakes the first waiter. What it cannot use is offered to waiters behind
/// it that want less. A waiter that wants many permits may therefore wait long while others take few.
///
/// On the name of an [expirable semaphore](crate::ExpirableSemaphore) a waiter does not take back permits
/// whose lease has ended, as in Redisson. It gets them when somebody acquires with a lease.
///
/// # Exactly once
/// Every request that changes the number has an id, which the server keeps for up to 10 min, in the
/// sorted set `redisson_lock_requests:{name}`. A request that is sent again counts once. None is
/// sent again after that time, whatever [`Config::retry_timeout`](crate::Config::retry_timeout) is.
/// The ids of answered requests are removed by later requests.
///
/// # What a semaphore does not promise
/// - **A permit has no owner and no lease.** The permits of a process that dies are gone, until
///   somebody adds them again. Anybody may release more permits than there were.
/// - **It is no safer than its worst peer.** Redisson repeats acquisitions and releases whose replies
///   were lost, and each copy counts. In a cluster and behind sentinels it returns permits of refused
///   acquisitions that it never had. Both change the number for all clients.
/// - **A semaphore that is deleted and set anew** gets back the permits that were out before, and then
///   has more than it was set to.
/// - **A failover may undo an acquisition or a release**, because Redis replicates asynchronously.
/// - **An outage of more than 10 min loses permits** whose release or undo was under way when it
///   began. The same is true of a server clock that is set forward by that much. A server that evicts
///   keys may count a request twice whose reply was lost, an acquisition too, and may keep the permits
///   of an acquisition that was dropped before its answer.
///
/// # Examples
/// ```no_run
/// # use std::time::Duration;
/// # async fn f(client: redisson_lock::Client) -> Result<(), redisson_lock::Error> {
/// let pool = client.semaphore("pool");
/// pool.try_set(10).await?;
/// let Some(permit) = pool.try_acquire(2).wait(Duration::from_secs(3)).await? else {
///     return Ok(()); // fewer than two were free
/// };
/// // Work. A dropped permit is returned in the background, unless the program ends.
/// permit.release().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a semaphore does nothing by itself: `let permit = semaphore.acquire(1).await?`"]
#[derive(Clone)]
pub struct Semaphore {
    pool: Result<Pool, Error>,
}

impl Semaphore {
    pub(crate) fn new(pool: Result<Pool, Error>) -> Self {
        Self { pool }
    }

    fn pool(&self) -> Result<&Pool, Error> {
        opened(&self.pool)
    }

    /// Creates the semaphore with this number of permits, Redisson's `trySetPermits`. Returns `false`
    /// if it exists.
    ///
    /// # Errors
    /// - [`Error::Redis`] when the server does not answer within
    ///   [`Config::retry_timeout`](crate::Config::retry_timeout), or refuses. It is then unknown
    ///   whether the semaphore was created.
    /// - [`Error::Invalid`] when the name or the number is out of range. A number is `i32::MAX` at
    ///   most, as in Redisson.
    /// - [`Error::Closed`] when the client is closed.
    ///
    /// # Cancel safety
    /// If it is dropped before its end, it goes on in the background.
    pub async fn try_set(&self, permits: u32) -> Result<bool, Error> {
        let pool = self.pool()?;
        let permits = checked_permits(permits)?;
        let set = pool.clone().create(move |pool, request| pool.try_set(permits, request));
        pool.finish("creating", set).await
    }

    /// Acquires `n` permits together, and waits for them without a bound. Await the result.
    ///
    /// It also waits for a semaphore that does not exist yet, as Redisson does. 0 permits are
    /// acquired at once, without a request. Callers of one client may overtake each other.
    ///
    /// # Errors
    /// - [`Error::Redis`] when the server does not answer within
    ///   [`Config::retry_timeout`](crate::Config::retry_timeout), or refuses. What the acquisition
    ///   may have taken is returned in the background.
    /// - [`Error::NotReplicated`] when too few replicas confirm the acquisition: see
    ///   [`Config::replicas`](crate::Config::replicas).
    /// - [`Error::WrongKind`] when the key is no semaphore.
    /// - [`Error::Invalid`] when the name or the number is out of range.
    /// - [`Error::Closed`] when the client is closed.
    ///
    /// # Cancel safety
    /// May be dropped at any time. What was acquired, or may still be acquired, is returned in the
    /// background, once.
    pub fn acquire(&self, n: u32) -> AcquirePermits {
        AcquirePermits { semaphore: self.clone(), n }
    }

    /// Acquires `n` permits together if they are free, or become free within
    /// [`wait`](TryAcquirePermits::wait). Await the result: `None` if there were not enough, according
    /// to the server's last answer.
    ///
    /// # Errors
    /// As [`acquire`](Semaphore::acquire). [`Error::Redis`] also when the wait ends and the server has
    /// not answered. Without a `wait`, it must answer within
    /// [`Config::command_timeout`](crate::Config::command_timeout).
    ///
    /// # Cancel safety
    /// As [`acquire`](Semaphore::acquire).
    pub fn try_acquire(&self, n: u32) -> TryAcquirePermits {
        TryAcquirePermits { semaphore: self.clone(), n, wait: Duration::ZERO }
    }

    /// Returns `n` permits, whoever acquired them, and wakes waiters. A semaphore that does not exist
    /// is created with them, as by Redisson.
    ///
    /// A [`Permit`] returns its own permits. This is for permits that were
    /// [forgotten](Permit::forget).
    ///
    /// # Errors
    /// - [`Error::Redis`] when the server does not answer within
    ///   [`Config::retry_timeout`](crate::Config::retry_timeout), or refuses. The release goes on in
    ///   the background, for about 10 min: do not repeat it.
    /// - [`Error::WrongKind`], [`Error::Invalid`], [`Error::Closed`].
    ///
    /// # Cancel safety
    /// If it is dropped before its end, it goes on in the background.
    pub async fn release(&self, n: u32) -> Result<(), Error> {
        let pool = self.pool()?;
        if checked_permits(n)? == 0 {
            return Ok(());
        }
        let released = permits::release(pool.clone(), n.into(), false);
        pool.finish("returning permits of", released).await
    }

    /// Adds `n` permits, or with a negative number takes them away, whether or not they are free. The
    /// number of free permits may become negative. Keeps the TTL of the key.
    ///
    /// # Errors
    /// As [`release`](Semaphore::release): it goes on in the background.
    ///
    /// # Cancel safety
    /// As [`release`](Semaphore::release).
    pub async fn add(&self, n: i32) -> Result<(), Error> {
        let pool = self.pool()?;
        let added = permits::release(pool.clone(), n.into(), false);
        pool.finish("adding permits to", added).await
    }

    /// Takes all free permits, and returns their number. Nobody has a [`Permit`] for them. A negative
    /// number is set to 0, and returned. Keeps the TTL of the key.
    ///
    /// # Errors
    /// - [`Error::Redis`] as for [`try_set`](Semaphore::try_set): it is then unknown whether the
    ///   permits were taken. Also when others change the number all the time.
    /// - [`Error::WrongKind`], [`Error::Invalid`], [`Error::Closed`].
    ///
    /// # Cancel safety
    /// If it is dropped before its end, it goes on in the background, and nobody learns the number.
    pub async fn drain(&self) -> Result<i64, Error> {
        let pool = self.pool()?;
        pool.finish("draining", permits::drain(pool.clone())).await
    }

    /// Returns how many permits are free: 0 if the semaphore does not exist. It may be negative: see
    /// [`add`](Semaphore::add).
    ///
    /// # Errors
    /// - [`Error::Redis`] when the server does not answer within
    ///   [`Config::command_timeout`](crate::Config::command_timeout), or refuses.
    /// - [`Error::WrongKind`], [`Error::Invalid`], [`Error::Closed`].
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    pub async fn available(&self) -> Result<i64, Error> {
        let pool = self.pool()?;
        let number = pool.number().await;
        number.map_err(pool.with_context("reading"))
    }

    async fn acquire_within(&self, n: u32, bounds: Bounds) -> Result<Option<Permit>, Error> {
        let pool = self.pool()?;
        let acquired = permits::acquire(pool, checked_permits(n)?, bounds).await;
        let acquired = acquired.map_err(pool.with_context("acquiring permits of"))?;
        Ok(acquired.map(Permit::new))
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(f, "Semaphore", &self.pool)
    }
}

/// An acquisition of permits that waits for them. Awaiting it begins it. See
/// [`Semaphore::acquire`].
///
/// It borrows nothing, so it may be spawned: `tokio::spawn(semaphore.acquire(1).into_future())`.
#[derive(Debug)]
#[must_use = "nothing is acquired until this is awaited, and the permits are returned when their guard is dropped: `let permit = ….await?`"]
pub struct AcquirePermits {
    semaphore: Semaphore,
    n: u32,
}

impl IntoFuture for AcquirePermits {
    type Output = Result<Permit, Error>;
    type IntoFuture = Acquiring<'static, Permit>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let permit = self.semaphore.acquire_within(self.n, Bounds::FOREVER).await?;
            Ok(permit.expect("waits until it is granted"))
        })
    }
}

/// An acquisition of permits that waits for a limited time, or not at all. Awaiting it begins it. See
/// [`Semaphore::try_acquire`].
///
/// It borrows nothing, so it may be spawned.
#[derive(Debug)]
#[must_use = "nothing is acquired until this is awaited, and the permits are returned when their guard is dropped: `let permit = ….await?`"]
pub struct TryAcquirePermits {
    semaphore: Semaphore,
    n: u32,
    wait: Duration,
}

impl TryAcquirePermits {
    /// Waits for the permits for this long at most: 3650 days or less. Without it, the acquisition
    /// does not wait.
    ///
    /// At the end of the wait the server is asked once more. Its answer is awaited for at most
    /// [`Config::command_timeout`](crate::Config::command_timeout).
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }
}

impl IntoFuture for TryAcquirePermits {
    type Output = Result<Option<Permit>, Error>;
    type IntoFuture = Acquiring<'static, Option<Permit>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.semaphore.acquire_within(self.n, Bounds::of(self.wait)?).await })
    }
}
