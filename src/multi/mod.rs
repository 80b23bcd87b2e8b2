//! [`MultiLock`]: several locks taken as one.

mod all;
mod guard;
mod majority;
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

/// Several locks taken as one: of any kind, from any client, on any server. Cheap to clone, and made
/// without any I/O.
///
/// # All
/// [`MultiLock::all`], Redisson's `getMultiLock`, is for work on several things at once. Either all locks are
/// taken or none: what was taken in part is given back, also when the future is dropped, a server is
/// down or a reply is lost.
///
/// Two callers who name the same locks in different order do not wait for each other for ever: whoever
/// waits holds only locks that come earlier in one order, that of names and then of servers. Redisson's
/// peers take them in the order they were written in, so a wait that holds something ends after 0.1 s for
/// each lock (more each time, 1.5 s at most; never more than a third of the lease), gives all back and goes on holding
/// nothing. (So ends a place in a fair lock's line, too.)
///
/// Of several callers who try the same free locks at once, one gets them: whoever is granted the first keeps it,
/// and tries the others again (twice, at once) that somebody else was granted and gives back.
///
/// A fixed lease counts from when the last lock was taken: those taken before it are prolonged to it.
///
/// # Majority
/// [`MultiLock::majority`], Redisson's `RedissonRedLock`, is for one name on several **independent** servers, an
/// odd number of them, none the other's replica. It is taken when more than half grant it, and outlives the
/// loss of the others.
///
/// All servers are asked at the same time, and no waiting is done at any: where others hold too many,
/// all is given back and tried again after a pause of up to 100 ms, left to chance. The guard is trusted for *lease −
/// time since the requests were sent − drift* (1 % of the lease + 2 ms), as by the
/// [`quorum`-th](MultiGuard::remaining) best of its servers; a majority of which nothing is left when it is complete is
/// not granted. A server may take a quarter of the lease to answer, or
/// [`Config::command_timeout`](crate::Config::command_timeout) if that is less; but once a majority has answered,
/// nobody waits for the others: they may join the guard later. One that hangs is left alone for half a second
/// while the others are a majority.
///
/// # What a majority gives, and what not
/// It takes the single server out of the picture: a minority of servers may crash, hang or be cut off, and locks are still
/// taken and kept. With one master and replicas a failover can forget a lock that was just granted.
///
/// It does not make the lock a safe one where correctness hangs on it. [Kleppmann's criticism][k] has two points:
/// - *A holder that sleeps past its lease still writes* (a long pause, a slow network), and a RedLock, made of random
///   ids, has no number that a storage could refuse it by.
/// - *It relies on time*: on clocks that run at about the same speed, and on delays that are small against the lease. A
///   server whose clock jumps, or that restarts without its data, may free its part early; then two can have
///   a majority.
///
/// [The answer of Redis's author][a]: the validity is measured at the end of the acquisition, so delays before that do no
/// harm; delays after it threaten every lock that expires, of whatever make; a server need not have the right time, only count
/// seconds at about the right speed, and not step; restarted servers should stay away for the longest lease. Both are right
/// about what they say, and agree that what must not happen twice has to be refused by the storage.
///
/// For that take a [fenced lock](crate::Client::fenced_lock) on the data's own server, or a version column, beside it: the majority
/// for being there, the token for being right. (Where one server is enough, a fenced lock alone is simpler and no less safe.)
///
/// [k]: https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html
/// [a]: http://antirez.com/news/101
///
/// # Examples
/// ```no_run
/// # use std::time::Duration;
/// # use redisson_lock::{Client, Error, MultiLock};
/// # async fn f(orders: Client, stock: Client, masters: Vec<Client>) -> Result<(), Error> {
/// let both = MultiLock::all([orders.lock("order:42"), stock.fair_lock("item:7")]);
/// let guard = both.lock().await?;
/// guard.unlock().await?;
///
/// let nightly = MultiLock::majority(masters.iter().map(|master| master.lock("nightly")));
/// let wait = Duration::from_secs(3);
/// let Some(guard) = nightly.try_lock().wait(wait).lease(Duration::from_secs(10)).await? else {
///     return Ok(()); // somebody else is at it
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

/// How many of them are enough.
#[derive(Clone, Copy, Debug)]
enum Rule {
    All,
    Majority,
}

impl MultiLock {
    /// All of these locks, or none. A [`FencedLock`](crate::FencedLock) goes in by `.into()`: its tokens are not shown.
    ///
    /// No locks at all, a lock twice (of whatever kind: one name on one server), or a name that cannot be used is
    /// reported by the first acquisition, and nothing is sent.
    pub fn all(locks: impl IntoIterator<Item = impl Into<Lock>>) -> Self {
        Self::new(locks, Rule::All)
    }

    /// More than half of these locks, which should live on as many independent servers. The same is
    /// reported as by [`all`](MultiLock::all).
    pub fn majority(locks: impl IntoIterator<Item = impl Into<Lock>>) -> Self {
        Self::new(locks, Rule::Majority)
    }

    fn new(locks: impl IntoIterator<Item = impl Into<Lock>>, rule: Rule) -> Self {
        Self { locks: locks.into_iter().map(Into::into).collect(), rule }
    }

    /// Acquires the locks, waiting for them without a bound. Await the result, or first say more:
    /// [`lease`](MultiAcquire::lease), [`by`](MultiAcquire::by).
    ///
    /// # Errors
    /// As [`Lock::lock`], of any of the locks; of a majority, when too few servers are left.
    /// [`Error::Invalid`] when the locks cannot be meant.
    ///
    /// # Cancel safety
    /// May be dropped at any time: whatever was or may yet be acquired is released in the background.
    pub fn lock(&self) -> MultiAcquire<'_> {
        MultiAcquire { lock: self.clone(), owner: None, lease: None }
    }

    /// Acquires the locks if they are free, or become free within [`wait`](MultiTryAcquire::wait).
    /// `None`: they did not.
    ///
    /// # Errors
    /// As [`lock`](MultiLock::lock).
    ///
    /// # Cancel safety
    /// As [`lock`](MultiLock::lock).
    pub fn try_lock(&self) -> MultiTryAcquire<'_> {
        MultiTryAcquire { lock: self.clone(), owner: None, lease: None, wait: Duration::ZERO }
    }

    /// The locks in the order of all callers.
    fn in_order(&self) -> Result<Vec<Lock>, Error> {
        let mut placed = Vec::with_capacity(self.locks.len());
        for lock in &*self.locks {
            let entry = lock.state()?;
            placed.push((entry.name(), &*entry.target.engine.settings.server, lock));
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

/// An acquisition that waits for the locks, begun by awaiting it. See [`MultiLock::lock`].
#[derive(Debug)]
#[must_use = "nothing is acquired until this is awaited, and what is acquired is released when its guard is dropped: `let guard = ….await?`"]
pub struct MultiAcquire<'a> {
    lock: MultiLock,
    owner: Option<&'a mut Owner>,
    lease: Option<Duration>,
}

impl<'a> MultiAcquire<'a> {
    /// Acquires for this owner: those of the locks it holds, once more. A majority waits a moment
    /// (50 ms, or four times as long as it took) for the servers that were not as quick, for none can join later.
    pub fn by(self, owner: &mut Owner) -> MultiAcquire<'_> {
        MultiAcquire { lock: self.lock, owner: Some(owner), lease: self.lease }
    }

    /// Holds the locks for so long at most, and never renews them. Without a lease the watchdog of each
    /// client renews its part while the guard lives.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }
}

impl<'a> IntoFuture for MultiAcquire<'a> {
    type Output = Result<MultiGuard, Error>;
    type IntoFuture = Acquiring<'a, MultiGuard>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { lock, owner, lease } = self;
        Box::pin(async move {
            let owner = owner.map(|owner| owner.key());
            let guard = lock.take(MultiRequest { owner, lease, bounds: Bounds::FOREVER }).await?;
            Ok(guard.expect("waits until it is granted"))
        })
    }
}

/// An acquisition that waits for a limited time or not at all, begun by awaiting it. See
/// [`MultiLock::try_lock`].
#[derive(Debug)]
#[must_use = "nothing is acquired until this is awaited, and what is acquired is released when its guard is dropped: `let guard = ….await?`"]
pub struct MultiTryAcquire<'a> {
    lock: MultiLock,
    owner: Option<&'a mut Owner>,
    lease: Option<Duration>,
    wait: Duration,
}

impl<'a> MultiTryAcquire<'a> {
    /// As [`MultiAcquire::by`].
    pub fn by(self, owner: &mut Owner) -> MultiTryAcquire<'_> {
        let Self { lock, lease, wait, .. } = self;
        MultiTryAcquire { lock, owner: Some(owner), lease, wait }
    }

    /// As [`MultiAcquire::lease`].
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Waits for the locks for so long at most, all in all. Commands under way then are still
    /// awaited, for [`Config::command_timeout`](crate::Config::command_timeout) at most.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }
}

impl<'a> IntoFuture for MultiTryAcquire<'a> {
    type Output = Result<Option<MultiGuard>, Error>;
    type IntoFuture = Acquiring<'a, Option<MultiGuard>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { lock, owner, lease, wait } = self;
        Box::pin(async move {
            let bounds = Bounds::of(wait)?;
            lock.take(MultiRequest { owner: owner.map(|owner| owner.key()), lease, bounds }).await
        })
    }
}
