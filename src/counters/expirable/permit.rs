//! [`ExpirablePermit`]: the guard of permits with a lease. Dropping it returns them.

use std::{fmt, time::Duration};

use crate::{
    counting::leased::LeasedPermits,
    error::{Error, Loss},
    permit_id::PermitId,
    run::{self, Guard, RunError},
};

/// One or more permits of an [`ExpirableSemaphore`](crate::ExpirableSemaphore), acquired together.
/// Dropping it returns them, in the background.
///
/// It is a guard as a [`LockGuard`](crate::LockGuard) is, and tells of a loss in the same ways. Its
/// permits have one lease: if one of them is lost, the guard is.
///
/// If a program ends without a release, its permits come back when their lease ends. Release permits
/// before [`Client::close`](crate::Client::close) to have them back at once.
#[must_use = "the permits are returned when this is dropped"]
pub struct ExpirablePermit {
    /// `None`: it was released or forgotten.
    permits: Option<LeasedPermits>,
}

impl ExpirablePermit {
    pub(super) fn new(permits: LeasedPermits) -> Self {
        Self { permits: Some(permits) }
    }

    fn permits(&self) -> &LeasedPermits {
        self.permits.as_ref().expect("taken only by methods that consume it")
    }

    /// Returns the number of permits.
    #[must_use]
    pub fn num_permits(&self) -> u32 {
        self.ids().len() as u32
    }

    /// Returns the id of the first permit: of the only one, if one was acquired.
    #[must_use]
    pub fn id(&self) -> PermitId {
        self.ids()[0]
    }

    /// Returns the ids of the permits.
    #[must_use]
    pub fn ids(&self) -> &[PermitId] {
        &self.permits().ids
    }

    /// Returns the permits, and wakes waiters.
    ///
    /// The request is repeated until it is answered, and counts once. Permits that are still out are
    /// returned also when others of this guard were lost. Nothing is returned to a semaphore that was
    /// deleted meanwhile.
    ///
    /// # Errors
    /// - [`Error::NotHeld`] when a permit was lost: another holder may have had it since.
    /// - [`Error::Redis`] when the server does not answer within
    ///   [`Config::retry_timeout`](crate::Config::retry_timeout), or refuses. The release goes on in
    ///   the background, for about 10 min.
    /// - [`Error::WrongKind`] when the key is no semaphore.
    /// - [`Error::Closed`] when the client is closed. The permits come back when their lease ends.
    ///
    /// # Cancel safety
    /// May be dropped at any time. The release goes on in the background.
    pub async fn release(mut self) -> Result<(), Error> {
        let Some(permits) = self.permits.take() else { return Ok(()) };
        let pool = permits.pool.clone();
        pool.finish("returning permits of", permits.give_back()).await
    }

    /// Gives up the permits without returning them, and returns their ids. They are renewed no
    /// longer, and come back when their lease ends.
    ///
    /// Until then, anybody may [release](crate::ExpirableSemaphore::release) them, also another
    /// process, or give them another [lease](crate::ExpirableSemaphore::set_lease).
    pub fn forget(mut self) -> Vec<PermitId> {
        self.permits.take().map_or_else(Vec::new, LeasedPermits::leave)
    }

    /// As [`LockGuard::lost`](crate::LockGuard::lost): waits until a permit is lost, and returns the
    /// reason.
    ///
    /// # Cancel safety
    /// May be dropped and called again at any time.
    pub async fn lost(&self) -> Loss {
        self.permits().lease.lost().await
    }

    /// As [`LockGuard::while_held`](crate::LockGuard::while_held): runs `work` until it completes or a
    /// permit is lost.
    ///
    /// # Errors
    /// [`Error::NotHeld`] when a permit is lost before the work completes.
    ///
    /// # Cancel safety
    /// Dropping it drops the work. The guard stays.
    pub fn while_held<T>(
        &self,
        work: impl Future<Output = T>,
    ) -> impl Future<Output = Result<T, Error>> {
        run::while_held(self, work)
    }

    /// As [`LockGuard::run`](crate::LockGuard::run): runs fallible work, and returns the permits. The
    /// error says how far it came.
    ///
    /// # Errors
    /// As [`LockGuard::run`](crate::LockGuard::run).
    ///
    /// # Cancel safety
    /// Dropping it drops the work, and then the guard.
    pub fn run<T, E>(
        self,
        work: impl Future<Output = Result<T, E>>,
    ) -> impl Future<Output = Result<T, RunError<T, E>>> {
        run::run(self, work)
    }

    /// Returns how long the permits can be trusted if no further renewal succeeds. Zero when one is
    /// lost, which is then logged. Does no I/O.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.permits().lease.trusted_for()
    }

    /// Returns whether the permits can be trusted now. Does no I/O.
    #[must_use]
    pub fn is_held(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// Asks the server whether all permits are still out.
    ///
    /// # Errors
    /// - [`Error::NotHeld`] when one is not.
    /// - [`Error::Redis`] when the server does not answer within
    ///   [`Config::command_timeout`](crate::Config::command_timeout), or refuses.
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    pub async fn check(&self) -> Result<(), Error> {
        let permits = self.permits();
        permits.check().await.map_err(permits.pool.with_context("checking permits of"))
    }

    /// Returns how many replicas confirmed the acquisition. `None` when they were not asked: see
    /// [`Config::replicas`](crate::Config::replicas).
    #[must_use]
    pub fn acknowledged(&self) -> Option<u32> {
        self.permits().acknowledged
    }
}

impl run::sealed::Held for ExpirablePermit {
    fn known_loss(&self) -> Option<Loss> {
        self.permits().lease.loss()
    }
}

impl Guard for ExpirablePermit {
    fn unlock(self) -> impl Future<Output = Result<(), Error>> + Send {
        self.release()
    }

    fn lost(&self) -> impl Future<Output = Loss> + Send {
        self.lost()
    }

    fn check(&self) -> impl Future<Output = Result<(), Error>> + Send {
        self.check()
    }

    /// Never completes: nobody asks for permits.
    async fn asked_to_release(&self) {
        std::future::pending().await
    }

    fn remaining(&self) -> Duration {
        self.remaining()
    }
}

impl Drop for ExpirablePermit {
    fn drop(&mut self) {
        if let Some(permits) = self.permits.take() {
            permits.give_back_later();
        }
    }
}

/// Shows the semaphore, the ids, and how long the permits can be trusted.
impl fmt::Debug for ExpirablePermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExpirablePermit")
            .field("semaphore", &self.permits().pool.name())
            .field("ids", &self.ids())
            .field("remaining", &self.permits().lease.trust_left())
            .finish()
    }
}
