//! [`MultiLock`]: several locks acquired as one, kept in the global order that prevents deadlocks.

mod all;
mod asking;
mod enough;
mod guard;
mod majority;
mod one_server;
mod open_requests;
mod request;

use std::{sync::Arc, time::Duration};

pub use self::guard::MultiGuard;
use self::request::MultiRequest;
use crate::{
    acquire::Acquiring,
    error::Error,
    lock::Lock,
    locking::request::{Bounds, checked_lease},
    owner::Owner,
};

/// Several locks acquired as one. They may be of any kind, client and server. Cheap to clone, and
/// made without any I/O.
///
/// # All
/// [`MultiLock::all`], Redisson's `getMultiLock`, acquires all of its locks or none. If some cannot
/// be acquired, the others are released, also when the future is dropped or a server is down.
///
/// Callers that list the same locks in different orders cannot deadlock. All callers have one
/// global order, by name and then by server. A caller that waits holds only locks before that.
///
/// Redisson acquires in the order of the list. A wait that holds locks is therefore bounded: by at
/// most 0.1 s for each lock, doubled each round up to 1.5 s for each lock, and by a third of the
/// lease or of [`Config::watchdog`](crate::Config::watchdog). The watchdog prolongs nothing before
/// all locks are held, so a future that is not polled keeps none for longer than one lease. When the
/// wait ends, all locks and places in line are given up. The caller then waits for the missing lock
/// alone, and starts again. While a server is silent, others are held for 0.1 s for each lock, then
/// twice as long, up to `retry_timeout`; for half a lease of up to 2 s; for two answers of a server
/// that is slow; or for `command_timeout` until the last answer of a bounded wait.
///
/// If several callers try the same free locks at once, one of them succeeds. The caller that gets
/// the first lock keeps it, and tries the others twice more. The other callers release what they
/// hold.
///
/// A fixed lease counts from when the last lock was acquired: those acquired before are extended.
///
/// # Majority
/// [`MultiLock::majority`], Redisson's `RedissonRedLock`, acquires one name on several
/// **independent** servers. Use an odd number of servers, none of them a replica of another. The
/// lock is acquired when more than half of the servers grant it, and survives the loss of the
/// others.
///
/// All servers are asked at the same time. If other holders have too many of them, everything is
/// released and tried again, after a random pause of up to 100 ms. A server is waited on only if it
/// decides: for 50 ms to 0.8 s, or four times as long as the others took; in the last try for `command_timeout`.
///
/// The guard is trusted for *lease − time since the requests were sent − (1 % of the lease + 2
/// ms)*, on more than half of the servers: see [`remaining`](MultiGuard::remaining). A majority
/// that is no longer trusted when it is complete is not granted.
///
/// A server may take a quarter of the lease or of the watchdog's time to answer, and at most
/// [`Config::command_timeout`](crate::Config::command_timeout). A lease shorter than four round
/// trips is therefore hardly ever granted. Its callers also refuse each other for a moment by
/// grants that came too late, so that [`lock`](MultiLock::lock) may try for long.
///
/// Once a majority has answered, the caller does not wait for the others. Their grants join the
/// guard later. A server that does not answer is not asked for half a second, as long as the others
/// decide, and do so within a quarter of the time that it may take.
///
/// # What a majority gives, and what not
/// It removes the single point of failure. A minority of the servers may crash, hang or be cut off,
/// and locks are still acquired and kept. With one master and replicas, a failover can forget a
/// lock that was just granted.
///
/// It does not make a lock safe where correctness depends on it. [Kleppmann's criticism][k] has two
/// points:
/// - *A holder that sleeps past its lease still writes*, after a long pause or over a slow network.
///   A RedLock has only random ids, and no number by which a storage could refuse the write.
/// - *It relies on time*: on clocks that run at about the same speed, and on delays that are small
///   compared with the lease. A server whose clock jumps, or that restarts without its data, may
///   free its part early. Then two holders can have a majority.
///
/// [The answer of Redis's author][a] is:
/// - The validity is measured at the end of the acquisition, so delays before that do no harm.
/// - Delays after that threaten every lock that expires.
/// - A server need not know the right time. Its clock must run at about the right speed and not
///   step.
/// - A restarted server should stay away for the longest lease.
///
/// Both agree that the storage has to refuse what must not happen twice.
///
/// For that, combine the majority with a [fenced lock](crate::Client::fenced_lock) on the data's
/// own server, or with a version column. The majority gives availability, the token gives
/// correctness. If one server is enough, a fenced lock alone is simpler and no less safe.
///
/// [k]: https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html
/// [a]: http://antirez.com/news/101
///
/// # Examples
/// ```no_run
/// # use std::time::Duration;
/// # use redisson_lock::{Client, Error, MultiLock};
/// # async fn f(orders: Client, stock: Client, masters: Vec<Client>) -> Result<(), Error> {
/// let (order, item) = (orders.lock("order:42"), stock.lock("item:7"));
/// let both = MultiLock::all([order, item]).and(orders.fenced_lock("ledger"));
/// let guard = both.lock().await?;
/// guard.unlock().await?;
///
/// let locks = masters.iter().map(|master| master.lock("nightly"));
/// let nightly = MultiLock::majority(locks);
/// let Some(guard) = nightly.try_lock().wait(Duration::from_secs(3)).await? else {
///     return Ok(()); // another holder kept it
/// };
/// # drop(guard); Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "the locks are not held until they are acquired: `let guard = locks.lock().await?`"]
pub struct MultiLock {
    locks: Arc<[Lock]>,
    rule: Rule,
}

/// How many of the locks are enough.
#[derive(Clone, Copy, Debug)]
enum Rule {
    All,
    Majority,
}

impl MultiLock {
    /// Makes a lock that acquires all of these locks, or none. Does no I/O. To mix types: [`and`](Self::and).
    ///
    /// The first acquisition fails with [`Error::Invalid`] when there is no lock, when one name on
    /// one server is listed twice, or when a name cannot be used. No request is sent then. Servers are
    /// compared as they are written. Of a server that is written in two ways, an acquisition that waits
    /// finds out, and fails with the same error; one without a wait returns `None`.
    pub fn all(locks: impl IntoIterator<Item = impl Into<Lock>>) -> Self {
        Self::new(locks, Rule::All)
    }

    /// Makes a lock that acquires more than half of these locks. They should live on as many
    /// independent servers. Does no I/O. The first acquisition refuses the same as for
    /// [`all`](MultiLock::all).
    pub fn majority(locks: impl IntoIterator<Item = impl Into<Lock>>) -> Self {
        Self::new(locks, Rule::Majority)
    }

    /// The same, with one more lock. It may be of another type than those before:
    ///
    /// ```no_run
    /// # use redisson_lock::{Client, Error, MultiLock};
    /// # async fn f(client: Client) -> Result<(), Error> {
    /// let all = MultiLock::all([client.lock("order:42")])
    ///     .and(client.fenced_lock("ledger"))
    ///     .and(client.read_write_lock("catalog").read_lock());
    /// # drop(all.lock().await?); Ok(())
    /// # }
    /// ```
    ///
    /// A fenced lock goes in without its tokens. In a majority, the added lock counts as one
    /// more server.
    pub fn and(self, lock: impl Into<Lock>) -> Self {
        let locks = self.locks.iter().cloned().chain([lock.into()]).collect();
        Self { locks, ..self }
    }

    fn new(locks: impl IntoIterator<Item = impl Into<Lock>>, rule: Rule) -> Self {
        Self { locks: locks.into_iter().map(Into::into).collect(), rule }
    }

    /// Acquires the locks, and waits for them without a bound.
    ///
    /// Await the result. Before that, [`lease`](AcquireMulti::lease), [`by`](AcquireMulti::by) and
    /// [`note`](AcquireMulti::note) add options.
    ///
    /// # Errors
    /// As [`Lock::lock`] for any of the locks. For a majority, only when too few servers are left.
    /// [`Error::Invalid`] when the list of locks cannot be used.
    ///
    /// # Cancel safety
    /// May be dropped at any time. What was acquired, or may still be acquired, is released in the
    /// background.
    pub fn lock(&self) -> AcquireMulti<'static> {
        AcquireMulti { lock: self.clone(), owner: None, lease: None, note: None }
    }

    /// Acquires the locks if they are free, or become free within [`wait`](TryAcquireMulti::wait).
    /// Returns `None` when they did not. If one is held and the server of another is silent, it is either
    /// `None` or an error.
    ///
    /// # Errors
    /// As [`lock`](MultiLock::lock).
    ///
    /// # Cancel safety
    /// As [`lock`](MultiLock::lock).
    pub fn try_lock(&self) -> TryAcquireMulti<'static> {
        let (lock, wait) = (self.clone(), Duration::ZERO);
        TryAcquireMulti { lock, owner: None, lease: None, wait, note: None }
    }

    /// The locks in the global order.
    fn in_order(&self) -> Result<Vec<Lock>, Error> {
        let mut placed = Vec::with_capacity(self.locks.len());
        for lock in &*self.locks {
            let state = lock.state()?;
            placed.push((state.name(), &*state.target.engine.settings.server, lock));
        }
        if placed.is_empty() {
            return Err(Error::Invalid("a MultiLock needs at least one lock".into()));
        }
        placed.sort_by_key(|(name, server, _)| (*name, *server));
        for pair in placed.windows(2) {
            let [(name, server, _), (other, other_server, _)] = pair else { unreachable!() };
            if (name, server) == (other, other_server) {
                return Err(Error::Invalid(format!("the lock {name:?} is named twice")));
            }
        }
        Ok(placed.into_iter().map(|(.., lock)| lock.clone()).collect())
    }

    async fn take(&self, request: MultiRequest) -> Result<Option<MultiGuard>, Error> {
        let locks = self.in_order()?;
        request.lease.map(checked_lease).transpose()?;
        match self.rule {
            Rule::All => {
                let shares = all::take(&locks, request).await?;
                Ok(shares.map(|shares| MultiGuard::new(shares, locks.len())))
            }
            Rule::Majority => majority::take(&locks, request).await,
        }
    }
}

/// An acquisition that waits for the locks. Awaiting it begins it. See [`MultiLock::lock`].
///
/// It borrows nothing but its [owner](AcquireMulti::by), so it may be spawned.
#[derive(Debug)]
#[must_use = "nothing is acquired until this is awaited, and what is acquired is released when its guard is dropped: `let guard = ….await?`"]
pub struct AcquireMulti<'a> {
    lock: MultiLock,
    owner: Option<&'a mut Owner>,
    lease: Option<Duration>,
    note: Option<Box<str>>,
}

impl AcquireMulti<'_> {
    /// Acquires the locks for this owner. It re-enters those that it already holds.
    ///
    /// A majority for an owner waits a moment for the slower servers, because none can join it
    /// later: 50 ms, or four times as long as the majority took if that is more.
    pub fn by(self, owner: &mut Owner) -> AcquireMulti<'_> {
        AcquireMulti { lock: self.lock, owner: Some(owner), lease: self.lease, note: self.note }
    }

    /// Holds the locks for this long at most. They are never renewed. From 10 ms to 3650 days, in
    /// whole milliseconds.
    ///
    /// Without a lease, each lock is renewed by the watchdog of its client while the guard lives.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Says what the locks are held for: see [`MultiGuard::note`]. A server that joins a majority
    /// after the guard was returned does not have the note.
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into().into_boxed_str());
        self
    }
}

impl<'a> IntoFuture for AcquireMulti<'a> {
    type Output = Result<MultiGuard, Error>;
    type IntoFuture = Acquiring<'a, MultiGuard>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { lock, owner, lease, note } = self;
        Box::pin(async move {
            let owner = owner.map(|owner| owner.id());
            let guard = lock.take(MultiRequest { owner, lease, bounds: Bounds::FOREVER }).await?;
            Ok(noted(guard, note).expect("waits until it is granted"))
        })
    }
}

/// As [`AcquireMulti`], for a limited time, or without a wait. See [`MultiLock::try_lock`].
///
/// It borrows nothing but its owner.
#[derive(Debug)]
#[must_use = "nothing is acquired until this is awaited, and what is acquired is released when its guard is dropped: `let guard = ….await?`"]
pub struct TryAcquireMulti<'a> {
    lock: MultiLock,
    owner: Option<&'a mut Owner>,
    lease: Option<Duration>,
    wait: Duration,
    note: Option<Box<str>>,
}

impl TryAcquireMulti<'_> {
    /// As [`AcquireMulti::by`].
    pub fn by(self, owner: &mut Owner) -> TryAcquireMulti<'_> {
        let Self { lock, lease, wait, note, .. } = self;
        TryAcquireMulti { lock, owner: Some(owner), lease, wait, note }
    }

    /// As [`AcquireMulti::lease`].
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Waits for this long at most, for all locks together: 3650 days or less. Without it, the
    /// acquisition does not wait.
    ///
    /// If requests are under way when the wait ends, their answers are still awaited, for at most
    /// [`Config::command_timeout`](crate::Config::command_timeout).
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// As [`AcquireMulti::note`].
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into().into_boxed_str());
        self
    }
}

impl<'a> IntoFuture for TryAcquireMulti<'a> {
    type Output = Result<Option<MultiGuard>, Error>;
    type IntoFuture = Acquiring<'a, Option<MultiGuard>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { lock, owner, lease, wait, note } = self;
        Box::pin(async move {
            let (owner, bounds) = (owner.map(|owner| owner.id()), Bounds::of(wait)?);
            Ok(noted(lock.take(MultiRequest { owner, lease, bounds }).await?, note))
        })
    }
}

fn noted(guard: Option<MultiGuard>, note: Option<Box<str>>) -> Option<MultiGuard> {
    if let (Some(guard), Some(note)) = (&guard, note) {
        guard.note(note);
    }
    guard
}
