//! [`Permit`]: the guard of permits of a semaphore. Dropping it returns them.

use std::fmt;

use crate::{counting::permits::Permits, error::Error};

/// One or more permits of a [`Semaphore`](crate::Semaphore), acquired together. Dropping it returns
/// them, in the background.
///
/// It works as tokio's `OwnedSemaphorePermit`. It has no lease, and cannot be lost: the server does
/// not know who has a permit.
///
/// Release permits before [`Client::close`](crate::Client::close): later they cannot be returned.
///
/// **A program that ends does not wait for permits that were dropped**, and they have no lease: the
/// semaphore then has fewer for good. Await [`release`](Self::release) or
/// [`Client::close`](crate::Client::close) before the end.
#[must_use = "the permits are returned in the background when this is dropped"]
pub struct Permit {
    /// `None`: it was released or forgotten.
    permits: Option<Permits>,
}

impl Permit {
    pub(crate) fn new(permits: Permits) -> Self {
        Self { permits: Some(permits) }
    }

    fn permits(&self) -> &Permits {
        self.permits.as_ref().expect("taken only by methods that consume it")
    }

    /// Takes what is to be returned.
    fn take(&mut self) -> Option<Permits> {
        self.permits.take().filter(|permits| permits.count > 0)
    }

    /// Returns the number of permits.
    #[must_use]
    pub fn num_permits(&self) -> u32 {
        self.permits().count
    }

    /// Splits off `n` permits. `None` if there are fewer.
    pub fn split(&mut self, n: u32) -> Option<Permit> {
        let permits = self.permits.as_mut()?;
        permits.count = permits.count.checked_sub(n)?;
        Some(Self::new(Permits { pool: permits.pool.clone(), count: n }))
    }

    /// Returns the permits, and wakes waiters.
    ///
    /// The request is repeated until it is answered, and counts once. Nothing is returned while the
    /// semaphore is deleted. One that was set anew meanwhile gets the permits, and then has too many.
    ///
    /// # Errors
    /// [`Error::Redis`] when the server does not answer within
    /// [`Config::retry_timeout`](crate::Config::retry_timeout), or refuses. The release goes on in
    /// the background, for about 10 min. [`Error::WrongKind`] when the key is no semaphore.
    /// [`Error::Closed`] when the client is closed: the permits stay out.
    ///
    /// # Cancel safety
    /// May be dropped at any time. The release goes on in the background.
    pub async fn release(mut self) -> Result<(), Error> {
        let Some(permits) = self.take() else { return Ok(()) };
        let pool = permits.pool.clone();
        pool.finish("returning permits of", permits.give_back()).await
    }

    /// Forgets the permits: they are not returned. The semaphore then has fewer, until somebody
    /// [adds](crate::Semaphore::add) or [releases](crate::Semaphore::release) some.
    pub fn forget(mut self) {
        self.permits = None;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(permits) = self.take() {
            permits.give_back_later();
        }
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("semaphore", &self.permits().pool.name())
            .field("num_permits", &self.num_permits())
            .finish()
    }
}
