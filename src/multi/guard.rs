//! [`MultiGuard`]: holds on several locks, and the one promise they make together.

use std::{
    fmt,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, Weak},
    time::Duration,
};

use futures::{
    FutureExt,
    future::select_all,
    stream::{FuturesUnordered, StreamExt},
};
use tokio::{
    sync::Notify,
    time::{Instant, timeout},
};

use crate::{
    engine::Lease,
    error::{Error, Loss},
    locking::share::Share,
};

/// A hold on several locks. They are released when it is [unlocked](MultiGuard::unlock) or dropped;
/// all else is as with [`LockGuard`](crate::LockGuard).
///
/// It is held while enough of the locks are: all of them, or, of
/// [`MultiLock::majority`](crate::MultiLock::majority), more than half. What is lost stays lost.
#[must_use = "the locks are released as soon as the guard is dropped: keep it, `let guard = …` (not `let _ = …`)"]
pub struct MultiGuard {
    members: Arc<Members>,
}

/// The holds of one guard.
pub(super) struct Members {
    /// So many have to be held.
    need: usize,
    /// `None`: they are being released.
    shares: Mutex<Option<Vec<Share>>>,
    joined: Notify,
}

/// Which locks, how many of them are held, and for how long that may still be trusted.
impl fmt::Debug for MultiGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let locks: Vec<_> = match &*self.members.shares() {
            Some(shares) => {
                shares.iter().map(|share| share.hold().target.name().to_owned()).collect()
            }
            None => Vec::new(),
        };
        f.debug_struct("MultiGuard")
            .field("locks", &locks)
            .field("held", &self.held_members())
            .field("needed", &self.members.need)
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}

impl MultiGuard {
    pub(super) fn new(shares: Vec<Share>, need: usize) -> Self {
        let shares = Mutex::new(Some(shares));
        Self { members: Arc::new(Members { need, shares, joined: Notify::new() }) }
    }

    /// Where those join who come late.
    pub(super) fn door(&self) -> Weak<Members> {
        Arc::downgrade(&self.members)
    }

    /// Releases the locks, all at the same time. Where a majority is enough, those that do not answer
    /// are left to the background as soon as a majority is released.
    ///
    /// # Errors
    /// After all were tried: [`Error::NotHeld`] when the guard had been lost, [`Error::Redis`] when
    /// too few servers answered within [`Config::retry_timeout`](crate::Config::retry_timeout); what
    /// may still be held is released in the background until its lease is over.
    ///
    /// # Cancel safety
    /// Dropped before its end, the release goes on in the background.
    pub async fn unlock(self) -> Result<(), Error> {
        let shares = self.members.shares().take().unwrap_or_default();
        let releases = shares.into_iter().map(async |share| {
            let target = share.hold().target.clone();
            share.release().await.map_err(target.told("releasing"))
        });
        enough(releases, self.members.need).await
    }

    /// Waits until the guard is lost, and says why one of its locks was. For ever, while it is not.
    ///
    /// # Cancel safety
    /// May be dropped and called again at any time.
    pub async fn lost(&self) -> Loss {
        loop {
            let mut joined = pin!(self.members.joined.notified());
            joined.as_mut().enable();
            let leases = self.members.leases();
            if let Some(why) = self.members.loss(&leases) {
                return why;
            }
            let held = leases.iter().filter(|lease| lease.loss().is_none());
            let lost: Vec<_> = held.map(|lease| lease.lost().boxed()).collect();
            if lost.is_empty() {
                continue;
            }
            tokio::select! {
                _ = select_all(lost) => {}
                () = joined => {}
            }
        }
    }

    /// Runs the work, but no longer than the guard can be trusted:
    /// [`LockGuard::while_held`](crate::LockGuard::while_held).
    ///
    /// # Errors
    /// [`Error::NotHeld`] when the guard is lost before the work is done.
    ///
    /// # Cancel safety
    /// Dropping it drops the work. The guard stays.
    pub async fn while_held<T>(&self, work: impl Future<Output = T>) -> Result<T, Error> {
        tokio::select! {
            // The loss first: work that is ready at the same moment came too late.
            biased;
            why = self.lost() => Err(Error::NotHeld { why }),
            // It may have kept this task from being told.
            done = work => match self.members.loss(&self.members.leases()) {
                None => Ok(done),
                Some(why) => Err(Error::NotHeld { why }),
            },
        }
    }

    /// How long the guard may be trusted if no renewal succeeds any more. Asks nobody.
    ///
    /// All locks: as long as the one that ends first. A majority: as long as a majority of them.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        let mut left: Vec<_> =
            self.members.leases().iter().map(|lease| lease.trusted_for()).collect();
        left.sort_unstable_by(|a, b| b.cmp(a));
        left.get(self.members.need - 1).copied().unwrap_or_default()
    }

    /// Whether the guard can be trusted at this moment. Asks nobody; see
    /// [`check`](MultiGuard::check).
    #[must_use]
    pub fn is_held(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// How many of the locks are held, as far as is known. Asks nobody.
    ///
    /// A majority may grow for a moment after it was granted: servers that answer late join it.
    #[must_use]
    pub fn held_members(&self) -> usize {
        held(&self.members.leases())
    }

    /// Asks the servers whether the locks are still held.
    ///
    /// # Errors
    /// [`Error::NotHeld`] when too few are, [`Error::Redis`] when too few servers say.
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    pub async fn check(&self) -> Result<(), Error> {
        let holds: Vec<_> = match &*self.members.shares() {
            Some(shares) => shares.iter().map(|share| share.hold().clone()).collect(),
            None => Vec::new(),
        };
        let checks =
            holds.iter().map(async |hold| hold.check().await.map_err(hold.target.told("checking")));
        enough(checks, self.members.need).await
    }
}

impl Members {
    fn shares(&self) -> MutexGuard<'_, Option<Vec<Share>>> {
        self.shares.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn leases(&self) -> Vec<Arc<Lease>> {
        let shares = self.shares();
        shares.iter().flatten().map(|share| share.hold().lease.clone()).collect()
    }

    /// Why too few are held, if so. Locks that are lost stay lost, so this stays as well.
    fn loss(&self, leases: &[Arc<Lease>]) -> Option<Loss> {
        let lost = leases.iter().find_map(|lease| lease.loss());
        lost.filter(|_| held(leases) < self.need)
    }

    /// One more, unless the guard is gone or lost: then it is given back.
    pub(super) fn join(&self, share: Share) {
        let mut shares = self.shares();
        let Some(shares) = &mut *shares else { return };
        if held(shares.iter().map(|share| &share.hold().lease)) >= self.need {
            shares.push(share);
            self.joined.notify_waiters();
        }
    }
}

fn held<'a>(leases: impl IntoIterator<Item = &'a Arc<Lease>>) -> usize {
    leases.into_iter().filter(|lease| lease.loss().is_none()).count()
}

/// Done when so many are, and all that are as quick as these. Failed when too few were, after all.
async fn enough(
    parts: impl Iterator<Item = impl Future<Output = Result<(), Error>>>,
    need: usize,
) -> Result<(), Error> {
    /// What is slower than so is not waited for.
    const SLOWEST: Duration = Duration::from_millis(20);

    let begun = Instant::now();
    let mut parts: FuturesUnordered<_> = parts.collect();
    let (mut done, mut failed) = (0, None);
    while done < need {
        match parts.next().await {
            Some(Ok(())) => done += 1,
            Some(Err(error)) => {
                // That it was lost says more than that somebody did not answer.
                let is_news = matches!(error, Error::NotHeld { .. })
                    && !matches!(failed, Some(Error::NotHeld { .. }));
                if failed.is_none() || is_news {
                    failed = Some(error);
                }
            }
            None => return failed.map_or(Ok(()), Err),
        }
    }
    let grace = begun.elapsed().clamp(Duration::from_millis(1), SLOWEST);
    let _ = timeout(grace, async { while parts.next().await.is_some() {} }).await;
    Ok(())
}
