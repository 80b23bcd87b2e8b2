//! [`MultiGuard`]: holds on several locks, which count as one hold.

mod asked;

use std::{
    fmt,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use futures::{FutureExt, future::select_all};
use tokio::{
    sync::Notify,
    time::{Instant, timeout_at},
};

use super::{enough::enough, request::too_few_answers};
use crate::{
    determinism::select,
    engine::Lease,
    error::{Error, Loss},
    locking::{hold::Hold, share::Share},
    run::{self, Guard, RunError},
    sometimes::sometimes,
};

/// A hold on several locks. The locks are released when the guard is [unlocked](MultiGuard::unlock)
/// or dropped. Dropping works as for a [`LockGuard`](crate::LockGuard#dropping).
///
/// The guard is held while enough of its locks are: all of them, or more than half for
/// [`MultiLock::majority`](crate::MultiLock::majority). A lost guard stays lost.
#[must_use = "the locks are released as soon as the guard is dropped: keep it, `let guard = …` (not `let _ = …`)"]
pub struct MultiGuard {
    members: Arc<Members>,
}

/// The holds of one guard.
pub(super) struct Members {
    /// How many must be held.
    need: usize,
    /// `None` once their release has begun.
    shares: Mutex<Option<Vec<Share>>>,
    joined: Notify,
}

/// Shows the locks, how many of them are held, and how long the guard can be trusted.
impl fmt::Debug for MultiGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let locks: Vec<_> = match &*self.members.shares() {
            Some(shares) => {
                shares.iter().map(|share| share.hold().target.name().to_owned()).collect()
            }
            None => Vec::new(),
        };
        // Notes no loss.
        let leases = self.members.leases();
        let left: Vec<_> = leases.iter().map(|lease| lease.trust_left()).collect();
        f.debug_struct("MultiGuard")
            .field("locks", &locks)
            .field("held", &left.iter().filter(|left| !left.is_zero()).count())
            .field("needed", &self.members.need)
            .field("remaining", &self.members.left(left))
            .finish_non_exhaustive()
    }
}

impl MultiGuard {
    pub(super) fn new(shares: Vec<Share>, need: usize) -> Self {
        let shares = Mutex::new(Some(shares));
        Self { members: Arc::new(Members { need, shares, joined: Notify::new() }) }
    }

    /// Through this, late grants join the guard.
    pub(super) fn door(&self) -> Weak<Members> {
        Arc::downgrade(&self.members)
    }

    /// Says what the locks are held for: [`LockGuard::note`](crate::LockGuard::note) for each lock
    /// that is held now.
    pub fn note(&self, note: impl AsRef<str>) {
        for share in self.members.shares().iter().flatten() {
            let hold = share.hold();
            if hold.target.engine.announces() {
                hold.lease.note(note.as_ref());
            }
        }
    }

    /// Releases all locks at the same time. A majority does not wait for slower servers once a
    /// majority is released: those releases go on in the background.
    ///
    /// # Errors
    /// All locks are tried first.
    /// - [`Error::NotHeld`] when the guard was lost. A lock whose server does not answer may be held.
    /// - [`Error::Redis`] when too few servers answered within
    ///   [`Config::retry_timeout`](crate::Config::retry_timeout).
    /// - [`Error::Closed`] when a client is closed. Its locks stay held until their leases end.
    ///
    /// After another error, locks that may still be held are released in the background, until
    /// their leases end or their clients are closed.
    ///
    /// # Cancel safety
    /// If it is dropped before its end, the release goes on in the background.
    pub async fn unlock(self) -> Result<(), Error> {
        let shares = self.members.shares().take().unwrap_or_default();
        let releases = shares.into_iter().map(async |share| {
            let target = share.hold().target.clone();
            share.into_baton().hand_off_or_release().await.map_err(target.with_context("releasing"))
        });
        enough(releases, self.members.need).await
    }

    /// Waits until the guard is lost, and returns the reason of one of its lost locks. It does not
    /// complete while the guard is held.
    ///
    /// # Cancel safety
    /// May be dropped and called again at any time.
    pub async fn lost(&self) -> Loss {
        loop {
            let mut joined = pin!(self.members.joined.notified());
            joined.as_mut().enable();
            if let Some(why) = self.members.loss() {
                return why;
            }
            let leases = self.members.leases();
            let held = leases.iter().filter(|lease| lease.loss().is_none());
            let lost: Vec<_> = held.map(|lease| lease.lost().boxed()).collect();
            // One was lost since.
            if lost.len() < self.members.need {
                continue;
            }
            select! {
                _ = select_all(lost) => {}
                () = joined => {}
            }
        }
    }

    /// Runs `work` until it completes or the guard is lost. See
    /// [`LockGuard::while_held`](crate::LockGuard::while_held).
    ///
    /// # Errors
    /// [`Error::NotHeld`] when the guard is lost before the work completes.
    ///
    /// # Cancel safety
    /// Dropping it drops the work. The guard stays.
    pub fn while_held<T>(
        &self,
        work: impl Future<Output = T>,
    ) -> impl Future<Output = Result<T, Error>> {
        run::while_held(self, work)
    }

    /// Runs fallible work under the guard, and releases the locks. See
    /// [`LockGuard::run`](crate::LockGuard::run).
    ///
    /// # Errors
    /// As [`LockGuard::run`](crate::LockGuard::run), for the guard as a whole.
    ///
    /// # Cancel safety
    /// As [`LockGuard::run`](crate::LockGuard::run).
    pub fn run<T, E>(
        self,
        work: impl Future<Output = Result<T, E>>,
    ) -> impl Future<Output = Result<T, RunError<T, E>>> {
        run::run(self, work)
    }

    /// Returns how long the guard can be trusted if no further renewal succeeds. Zero when it is
    /// lost, which is then told to the observer. Does no I/O.
    ///
    /// For all locks, the lock that ends first decides. For a majority, the last lock that it needs
    /// does.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        loop {
            let leases = self.members.leases();
            let left = leases.iter().map(|lease| lease.trusted_for()).collect();
            let left = self.members.left(left);
            // A lost guard stays lost.
            if !left.is_zero() || !self.members.has_more_than(leases.len()) {
                return left;
            }
        }
    }

    /// Returns whether the guard can be trusted now. Does no I/O. [`check`](MultiGuard::check) asks
    /// the servers.
    #[must_use]
    pub fn is_held(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// Returns how many of the locks are held, as far as known. Does no I/O.
    ///
    /// The number may grow for a moment after a majority was granted, because late grants join.
    #[must_use]
    pub fn held_members(&self) -> usize {
        held(&self.members.leases())
    }

    /// Asks the servers whether the locks are still held.
    ///
    /// # Errors
    /// - [`Error::NotHeld`] when too few can be. A lock whose server does not answer may be held.
    /// - [`Error::Redis`] when too few servers answer within
    ///   [`Config::command_timeout`](crate::Config::command_timeout).
    ///
    /// If that would fail while a late grant joins a majority, they are asked again, within that time.
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    pub async fn check(&self) -> Result<(), Error> {
        let asked = select! {
            biased;
            why = self.lost() => return Err(Error::NotHeld { why }),
            asked = self.ask() => asked,
        };
        // The answers need not be of one moment.
        let loss = self.members.loss();
        loss.map_or(asked, |why| Err(Error::NotHeld { why }))
    }

    async fn ask(&self) -> Result<(), Error> {
        let begun = Instant::now();
        let (mut asked, mut done) = self.members.ask().await;
        while done.is_err()
            && let holds = self.members.holds()
            && holds.len() > asked
        {
            // A late grant may make up for a lock that is lost.
            let timeouts = holds.iter().map(|hold| hold.target.engine.settings.command_timeout);
            let by = begun + timeouts.max().unwrap_or_default();
            let again = timeout_at(by, self.members.ask()).await;
            (asked, done) = again.unwrap_or_else(|_| (usize::MAX, Err(too_few_answers())));
        }
        done
    }
}

impl run::sealed::Held for MultiGuard {
    fn known_loss(&self) -> Option<Loss> {
        self.members.loss()
    }
}

impl Guard for MultiGuard {
    fn unlock(self) -> impl Future<Output = Result<(), Error>> + Send {
        self.unlock()
    }

    fn lost(&self) -> impl Future<Output = Loss> + Send {
        self.lost()
    }

    fn check(&self) -> impl Future<Output = Result<(), Error>> + Send {
        self.check()
    }

    fn asked_to_release(&self) -> impl Future<Output = ()> + Send {
        self.asked_to_release()
    }

    fn remaining(&self) -> Duration {
        self.remaining()
    }
}

#[cfg(test)]
impl MultiGuard {
    /// The ids of its holds on their servers.
    pub(crate) fn holder_ids(&self) -> Vec<String> {
        let leases = self.members.leases();
        leases.iter().map(|lease| lease.renew.id.as_str().to_owned()).collect()
    }
}

impl Members {
    fn shares(&self) -> MutexGuard<'_, Option<Vec<Share>>> {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn leases(&self) -> Vec<Arc<Lease>> {
        let shares = self.shares();
        shares.iter().flatten().map(|share| share.hold().lease.clone()).collect()
    }

    /// How much is left of the trust in the guard, by what is left of the trust in each lock.
    fn left(&self, mut left: Vec<Duration>) -> Duration {
        left.sort_unstable_by(|a, b| b.cmp(a));
        left.get(self.need - 1).copied().unwrap_or_default()
    }

    fn holds(&self) -> Vec<Arc<Hold>> {
        self.shares().iter().flatten().map(|share| share.hold().clone()).collect()
    }

    /// Asks the servers about the locks that the guard has now. Returns how many these are, and
    /// whether enough of them are held.
    async fn ask(&self) -> (usize, Result<(), Error>) {
        let holds = self.holds();
        let checks = holds
            .iter()
            .map(async |hold| hold.check().await.map_err(hold.target.with_context("checking")));
        (holds.len(), enough(checks, self.need).await)
    }

    /// Why the guard is lost, if it is. Lost locks stay lost, and then nobody joins: a lost guard
    /// stays lost.
    fn loss(&self) -> Option<Loss> {
        loop {
            // Not under the lock: an observer that is told of a loss may ask this guard.
            let leases = self.leases();
            let lost = leases.iter().find_map(|lease| lease.loss());
            let why = lost.filter(|_| held(&leases) < self.need)?;
            // One may have joined before the last of the losses was noted.
            if !self.has_more_than(leases.len()) {
                return Some(why);
            }
        }
    }

    fn has_more_than(&self, count: usize) -> bool {
        self.shares().as_ref().is_some_and(|shares| shares.len() > count)
    }

    /// Adds a late grant. If the guard is gone or lost, the grant is released.
    pub(super) fn join(&self, share: Share) {
        let mut shares = self.shares();
        let Some(shares) = &mut *shares else { return };
        // Without noting a loss under the lock: its observer may ask this guard.
        let now = Instant::now();
        if shares.iter().filter(|share| share.hold().lease.is_trusted(now)).count() >= self.need {
            sometimes!("majority: one joins late");
            shares.push(share);
            self.joined.notify_waiters();
        }
    }
}

fn held<'a>(leases: impl IntoIterator<Item = &'a Arc<Lease>>) -> usize {
    leases.into_iter().filter(|lease| lease.loss().is_none()).count()
}

#[cfg(test)]
mod tests;
