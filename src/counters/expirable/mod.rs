//! [`ExpirableSemaphore`]: the handle to an expirable semaphore.
//!
//! | file | content |
//! |---|---|
//! | [`acquire`] | the builders of an acquisition |
//! | [`permit`] | the guard of acquired permits |
//!
//! A permit without a lease is renewed as a hold of a lock is: `counting::leased` registers it with
//! `engine::watchdog`, and `lua/expirable/renew.lua` raises its score.

mod acquire;
mod permit;

use std::{fmt, time::Duration};

use self::acquire::at_once;
pub use self::{
    acquire::{AcquireExpirable, TryAcquireExpirable},
    permit::ExpirablePermit,
};
use crate::{
    counters::{checked_permits, opened, show},
    counting::leased::{self, LeasedPool},
    error::Error,
    inspection::{ExpirableInspection, Remaining},
    locking::request::checked_lease,
    permit_id::PermitId,
    protocol::expirable::{Change, Left, Return},
};

/// How many permits an inspection lists.
const MOST_LISTED: u64 = 1_000;

/// A handle to one semaphore whose permits have leases, Redisson's `RPermitExpirableSemaphore`.
/// [`Client::expirable_semaphore`](crate::Client::expirable_semaphore) makes it, without any I/O. Cheap
/// to clone.
///
/// It is shared with Redisson: keys, values, permit ids, channel and messages are the same. Each permit
/// has an id and a lease, so the permits of a process that dies come back.
///
/// # Leases
/// A permit that is acquired without a [lease](AcquireExpirable::lease) is renewed by the client's
/// watchdog while its guard lives, every third of [`Config::watchdog`](crate::Config::watchdog).
/// Redisson renews none. A permit that is swept is never renewed again: its guard is told of the loss.
///
/// A permit whose lease has ended comes back when somebody next acquires: nobody sweeps in the
/// background. Waiters therefore ask again when the next lease ends. One acquisition sweeps 100 permits at
/// most.
///
/// The server's clock decides when a lease ends. Redisson uses the clock of its machine instead. A JVM
/// whose clock is `d` ahead takes back every permit `d` early. The leases of its own permits end `d`
/// late. If `d` is more than two thirds of the watchdog's time, it takes permits back before they are
/// renewed. The guard is then told by the next renewal. A JVM whose clock is `d` behind loses its own
/// permits `d` early.
///
/// # Waiting
/// As in a [`Semaphore`](crate::Semaphore#waiting). The semaphore of that name and this one share the
/// number of free permits and wake each other's waiters, but a [`Permit`](crate::Permit) has no id.
/// Waiters of the plain semaphore do not take back permits whose lease has ended, as in Redisson.
///
/// # Exactly once
/// The client chooses the ids of permits. An acquisition that is sent twice takes its permits once, and a
/// release that is sent twice returns them once. An acquisition that is dropped is undone by id. Other
/// requests have ids as those of a [`Semaphore`](crate::Semaphore#exactly-once).
///
/// # What it does not promise
/// - **It is no safer than its worst peer.** A JVM with a wrong clock takes permits back early.
/// - **A failover may undo an acquisition or a release**, because Redis replicates asynchronously. A
///   renewal then tells the guard that its permits are lost.
/// - **A TTL that another program sets ends permits.** An acquisition gives the ids of permits the TTL
///   of the semaphore's key, as in Redisson. If that TTL is removed later, by `PERSIST` or by Redisson's
///   `addPermits`, the ids keep theirs. When it ends, the permits that are out are lost.
///
/// # Examples
/// ```no_run
/// # use std::time::Duration;
/// # async fn work() {}
/// # async fn f(client: redisson_lock::Client) -> Result<(), redisson_lock::Error> {
/// let pool = client.expirable_semaphore("pool");
/// pool.try_set(10).await?;
/// let permit = pool.acquire(1).await?; // renewed while `permit` lives
/// permit.while_held(work()).await?;
/// permit.release().await?;
///
/// let wait = Duration::from_secs(3);
/// let Some(two) = pool.try_acquire(2).wait(wait).lease(Duration::from_secs(60)).await? else {
///     return Ok(()); // fewer than two were free
/// };
/// println!("{} {}", two.ids()[0], two.ids()[1]);
/// # Ok(())
/// # }
/// ```
#[must_use = "a semaphore does nothing by itself: `let permit = semaphore.acquire(1).await?`"]
#[derive(Clone)]
pub struct ExpirableSemaphore {
    pool: Result<LeasedPool, Error>,
}

impl ExpirableSemaphore {
    pub(crate) fn new(pool: Result<LeasedPool, Error>) -> Self {
        Self { pool }
    }

    fn pool(&self) -> Result<&LeasedPool, Error> {
        opened(&self.pool)
    }

    /// Creates the semaphore with this number of permits, Redisson's `trySetPermits`. Returns `false`
    /// if it exists.
    ///
    /// # Errors
    /// As [`Semaphore::try_set`](crate::Semaphore::try_set).
    ///
    /// # Cancel safety
    /// If it is dropped before its end, it goes on in the background.
    pub async fn try_set(&self, permits: u32) -> Result<bool, Error> {
        let pool = self.pool()?;
        let permits = checked_permits(permits)?;
        let set = pool.clone().create(move |pool, request| pool.try_set(permits, request));
        pool.finish("creating", set).await
    }

    /// Sets the number of all permits, those that are free and those that are out, Redisson's
    /// `setPermits`. Creates a semaphore that does not exist.
    ///
    /// If more permits are out, the number of free permits becomes negative. It keeps the TTL of the key.
    ///
    /// # Errors
    /// As [`add`](ExpirableSemaphore::add): it goes on in the background.
    ///
    /// # Cancel safety
    /// As [`add`](ExpirableSemaphore::add).
    pub async fn set(&self, permits: u32) -> Result<(), Error> {
        let pool = self.pool()?;
        let permits = checked_permits(permits)?;
        pool.finish("setting", leased::change(pool.clone(), Change::To(permits))).await
    }

    /// Adds `n` permits, or with a negative number takes them away, whether or not they are free:
    /// Redisson's `addPermits`. Creates a semaphore that does not exist. Keeps the TTL of the key.
    ///
    /// # Errors
    /// - [`Error::Redis`] when the server does not answer within
    ///   [`Config::retry_timeout`](crate::Config::retry_timeout), or refuses. The request goes on in
    ///   the background, for about 10 min: do not repeat it.
    /// - [`Error::WrongKind`], [`Error::Invalid`], [`Error::Closed`].
    ///
    /// # Cancel safety
    /// If it is dropped before its end, it goes on in the background.
    pub async fn add(&self, n: i32) -> Result<(), Error> {
        let pool = self.pool()?;
        let added = leased::change(pool.clone(), Change::By(n.into()));
        pool.finish("adding permits to", added).await
    }

    /// Acquires `n` permits together, from 1 to 100, and waits for them without a bound. Await the
    /// result: one guard of `n` permits, each with an id.
    ///
    /// It also waits for a semaphore that does not exist yet, as Redisson does.
    ///
    /// # Errors
    /// - [`Error::Redis`] when the server does not answer within
    ///   [`Config::retry_timeout`](crate::Config::retry_timeout), or refuses. What the acquisition
    ///   may have taken is returned in the background.
    /// - [`Error::NotHeld`] when the answer came after the end of the lease.
    /// - [`Error::NotReplicated`] when too few replicas confirm the acquisition: see
    ///   [`Config::replicas`](crate::Config::replicas).
    /// - [`Error::WrongKind`] when the key is no semaphore.
    /// - [`Error::Invalid`] when the name, the number or the lease is out of range.
    /// - [`Error::Closed`] when the client is closed.
    ///
    /// # Cancel safety
    /// May be dropped at any time. What was acquired, or may still be acquired, is returned in the
    /// background.
    pub fn acquire(&self, n: u32) -> AcquireExpirable {
        AcquireExpirable::new(self.pool.clone(), n)
    }

    /// Acquires `n` permits together, from 1 to 100, if they are free, or become free within
    /// [`wait`](TryAcquireExpirable::wait). Await the result: `None` if there were not enough,
    /// according to the server's last answer.
    ///
    /// # Errors
    /// As [`acquire`](ExpirableSemaphore::acquire). [`Error::Redis`] also when the wait ends and the
    /// server has not answered. Without a `wait`, it must answer within
    /// [`Config::command_timeout`](crate::Config::command_timeout).
    ///
    /// # Cancel safety
    /// As [`acquire`](ExpirableSemaphore::acquire).
    pub fn try_acquire(&self, n: u32) -> TryAcquireExpirable {
        TryAcquireExpirable::new(self.pool.clone(), n)
    }

    /// Returns permits by their ids, whoever acquired them, and wakes waiters: Redisson's `tryRelease`.
    /// From 1 to 100 permits. A permit that is named twice is returned once.
    ///
    /// Returns `false` if one of them was not out, or its lease had ended. Of several, none is returned then. A
    /// lone one whose lease had ended is returned.
    ///
    /// An [`ExpirablePermit`] returns its own permits. This is for permits that were
    /// [forgotten](crate::ExpirablePermit::forget), or acquired by another process.
    ///
    /// # Errors
    /// As [`add`](ExpirableSemaphore::add): it goes on in the background.
    ///
    /// # Cancel safety
    /// If it is dropped before its end, it goes on in the background.
    pub async fn release(&self, permits: impl AsRef<[PermitId]>) -> Result<bool, Error> {
        let permits = permits.as_ref();
        let pool = self.pool()?;
        at_once(permits.len() as u64)?;
        let mut permits = permits.to_vec();
        // The script counts each id that it is given.
        permits.sort_unstable();
        permits.dedup();
        let which = if permits.len() > 1 { Return::AllOrNone } else { Return::Each };
        let released = leased::release(pool.clone(), permits.into(), which, None);
        pool.finish("returning permits of", released).await
    }

    /// Gives a permit another lease, longer or shorter, which counts from now: Redisson's
    /// `updateLeaseTime`. From 10 ms to 3650 days. Returns `false` if the permit is not out, or its
    /// lease has ended.
    ///
    /// It is not for permits of a living guard, which does not learn of it. Waiters are not told.
    ///
    /// # Errors
    /// - [`Error::Redis`] when the server does not answer within
    ///   [`Config::retry_timeout`](crate::Config::retry_timeout), or refuses. It is then unknown
    ///   whether the permit has this lease.
    /// - [`Error::WrongKind`], [`Error::Invalid`], [`Error::Closed`].
    ///
    /// # Cancel safety
    /// If it is dropped before its end, it goes on in the background.
    pub async fn set_lease(&self, permit: PermitId, lease: Duration) -> Result<bool, Error> {
        let pool = self.pool()?;
        let set = leased::set_lease(pool.clone(), permit, checked_lease(lease)?);
        pool.finish("changing a lease of", set).await
    }

    /// Returns how long the lease of a permit lasts, Redisson's `getLeaseTime`. [`Remaining::Free`] if
    /// it is not out.
    ///
    /// # Errors
    /// As [`available`](ExpirableSemaphore::available).
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    pub async fn ttl_of(&self, permit: PermitId) -> Result<Remaining, Error> {
        let pool = self.pool()?;
        let left =
            leased::remaining(pool, &[permit]).await.map_err(pool.with_context("reading"))?;
        Ok(left.first().map_or(Remaining::Free, |left| rest(*left)))
    }

    /// Returns how many permits are free: 0 if the semaphore does not exist. Permits whose lease has
    /// ended count as free. It may be negative: see [`set`](ExpirableSemaphore::set).
    ///
    /// # Errors
    /// - [`Error::Redis`] when the server does not answer within
    ///   [`Config::command_timeout`](crate::Config::command_timeout), or refuses.
    /// - [`Error::WrongKind`], [`Error::Invalid`], [`Error::Closed`].
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    pub async fn available(&self) -> Result<i64, Error> {
        Ok(self.inspect_some(0).await?.available)
    }

    /// Returns how many permits are out, Redisson's `acquiredPermits`. Those whose lease has ended do
    /// not count.
    ///
    /// # Errors
    /// As [`available`](ExpirableSemaphore::available).
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    pub async fn acquired(&self) -> Result<u64, Error> {
        Ok(self.inspect_some(0).await?.acquired)
    }

    /// Returns the number of all permits, free and out, Redisson's `getPermits`: 0 if the semaphore
    /// does not exist.
    ///
    /// # Errors
    /// As [`available`](ExpirableSemaphore::available).
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    pub async fn permits(&self) -> Result<i64, Error> {
        let seen = self.inspect_some(0).await?;
        Ok(seen.available + seen.acquired as i64)
    }

    /// Reads the state of the semaphore: the number of free permits, and the permits that are out with
    /// their remaining leases. It lists 1 000 permits at most, those first whose leases end first.
    ///
    /// # Errors
    /// As [`available`](ExpirableSemaphore::available).
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    pub async fn inspect(&self) -> Result<ExpirableInspection, Error> {
        self.inspect_some(MOST_LISTED).await
    }

    async fn inspect_some(&self, most: u64) -> Result<ExpirableInspection, Error> {
        let pool = self.pool()?;
        let stock = leased::inspect(pool, most).await.map_err(pool.with_context("reading"))?;
        let permits = stock.permits.into_iter().map(|(id, left)| (id, rest(left))).collect();
        let client = pool.engine.identity.client();
        Ok(ExpirableInspection::new(stock.free, stock.out, permits, client))
    }
}

impl fmt::Debug for ExpirableSemaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(f, "ExpirableSemaphore", &self.pool)
    }
}

fn rest(left: Left) -> Remaining {
    match left {
        Left::Nothing => Remaining::Free,
        Left::Time(time) => Remaining::Held(time),
        Left::Forever => Remaining::WithoutExpiry,
    }
}
