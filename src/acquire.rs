//! [`Acquire`] and [`TryAcquire`]: the builders of an acquisition. Awaiting one begins it.

use std::{fmt, marker::PhantomData, pin::Pin, sync::Arc, time::Duration};

use futures::FutureExt;

use crate::{
    error::Error,
    guard::{LockGuard, SingleGuard},
    locking::{
        acquire_anew, acquire_by, acquire_observed, ask_or_wait,
        registry::LockState,
        request::{Bounds, Request},
        share::Share,
    },
    observer::is_observed,
    options::LockOptions,
    owner::{Owner, OwnerId},
};

/// The future of an acquisition.
pub(crate) type Acquiring<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// What a handle to a lock consists of: the lock, and the options of the handle. It borrows nothing, so
/// that an acquisition may be spawned.
pub(crate) struct LockHandle<G> {
    pub(crate) state: Result<Arc<LockState>, Error>,
    pub(crate) options: LockOptions,
    guard: PhantomData<fn() -> G>,
}

impl<G> Clone for LockHandle<G> {
    fn clone(&self) -> Self {
        Self { state: self.state.clone(), options: self.options, guard: PhantomData }
    }
}

impl<G> LockHandle<G> {
    pub(crate) fn new(state: Result<Arc<LockState>, Error>) -> Self {
        Self { state, options: LockOptions::default(), guard: PhantomData }
    }

    /// The same lock, with guards that show no token.
    pub(crate) fn erased(&self) -> LockHandle<LockGuard> {
        LockHandle { state: self.state.clone(), options: self.options, guard: PhantomData }
    }
}

impl<G> fmt::Debug for LockHandle<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lock = f.debug_struct("Lock");
        match &self.state {
            Ok(state) => lock.field("kind", &state.target.kind).field("name", &state.name()),
            Err(error) => lock.field("error", error),
        }
        .finish_non_exhaustive()
    }
}

impl<G: SingleGuard> LockHandle<G> {
    pub(crate) async fn acquire(
        &self,
        owner: Option<OwnerId>,
        lease: Option<Duration>,
        bounds: Bounds,
    ) -> Result<Option<Share>, Error> {
        self.share(owner, lease, bounds).await.map_err(|error| *error)
    }

    async fn share(
        &self,
        owner: Option<OwnerId>,
        lease: Option<Duration>,
        bounds: Bounds,
    ) -> Result<Option<Share>, Box<Error>> {
        let state = self.state.as_ref().map_err(Clone::clone)?;
        let engine = &state.target.engine;
        engine.check_open()?;
        let needs_token = G::HAS_TOKEN;
        let settings = &engine.settings;
        let mut request =
            Request::checked(settings, self.options, owner, lease, bounds, needs_token)?;
        // Boxed, as what an acquisition that nobody observes does not need.
        let observed = state.target.observed();
        match (is_observed(observed), owner) {
            (true, _) => acquire_observed(state, &mut request, observed.cloned()).boxed().await,
            (false, Some(owner)) => acquire_by(state, owner, &request).boxed().await,
            (false, None) if !state.target.kind.is_one_side() => {
                ask_or_wait(state, &request, None, None).await
            }
            (false, None) => acquire_anew(state, &request, None, None).boxed().await,
        }
    }

    /// As [`acquire`](Self::acquire), and adds to an error what was being done to which lock.
    async fn guard(
        &self,
        owner: Option<&mut Owner>,
        lease: Option<Duration>,
        bounds: Bounds,
    ) -> Result<Option<G>, Error> {
        let owner = owner.map(|owner| owner.id());
        match (self.share(owner, lease, bounds).await, &self.state) {
            (Ok(share), _) => Ok(share.map(G::from_share)),
            (Err(error), Ok(state)) => Err(state.target.with_context("acquiring")(*error)),
            (Err(error), Err(_)) => Err(*error),
        }
    }
}

fn noted<G: SingleGuard>(guard: Option<G>, note: Option<Box<str>>) -> Option<G> {
    if let (Some(guard), Some(note)) = (&guard, note) {
        guard.as_ref().note(note);
    }
    guard
}

/// An acquisition that waits for the lock. Awaiting it begins it. See
/// [`Lock::lock`](crate::Lock::lock).
///
/// It borrows nothing but its [owner](Acquire::by), so it may be spawned:
/// `tokio::spawn(lock.lock().into_future())`.
#[derive(Debug)]
#[must_use = "nothing is acquired until this is awaited, and what is acquired is released when its guard is dropped: `let guard = ….await?`"]
pub struct Acquire<'a, G = LockGuard> {
    lock: LockHandle<G>,
    owner: Option<&'a mut Owner>,
    lease: Option<Duration>,
    note: Option<Box<str>>,
}

impl<G> Acquire<'_, G> {
    pub(crate) fn new(lock: LockHandle<G>) -> Self {
        Self { lock, owner: None, lease: None, note: None }
    }

    /// Acquires the lock for this owner. If the owner already holds the lock through the same client, it
    /// re-enters. Through another client it would wait for itself.
    ///
    /// The acquisition then borrows the owner. Without an owner it is `'static`.
    pub fn by(self, owner: &mut Owner) -> Acquire<'_, G> {
        Acquire { lock: self.lock, owner: Some(owner), lease: self.lease, note: self.note }
    }

    /// Holds the lock for this long at most. The hold is never renewed. From 10 ms to 3650 days, in
    /// whole milliseconds.
    ///
    /// Without a lease the watchdog renews the hold while its guard lives. When an owner re-enters,
    /// its hold lasts for the longest of its leases.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Says what the lock is held for: see [`LockGuard::note`](crate::LockGuard::note).
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into().into_boxed_str());
        self
    }
}

impl<'a, G: SingleGuard> IntoFuture for Acquire<'a, G> {
    type Output = Result<G, Error>;
    type IntoFuture = Acquiring<'a, G>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { lock, owner, lease, note } = self;
        Box::pin(async move {
            let guard = lock.guard(owner, lease, Bounds::FOREVER).await?;
            Ok(noted(guard, note).expect("waits until it is granted"))
        })
    }
}

/// An acquisition that waits for a limited time, or not at all. Awaiting it begins it. See
/// [`Lock::try_lock`](crate::Lock::try_lock).
///
/// As an [`Acquire`], it borrows nothing but its owner.
#[derive(Debug)]
#[must_use = "nothing is acquired until this is awaited, and what is acquired is released when its guard is dropped: `let guard = ….await?`"]
pub struct TryAcquire<'a, G = LockGuard> {
    lock: LockHandle<G>,
    owner: Option<&'a mut Owner>,
    lease: Option<Duration>,
    wait: Duration,
    note: Option<Box<str>>,
}

impl<G> TryAcquire<'_, G> {
    pub(crate) fn new(lock: LockHandle<G>) -> Self {
        Self { lock, owner: None, lease: None, wait: Duration::ZERO, note: None }
    }

    /// As [`Acquire::by`].
    pub fn by(self, owner: &mut Owner) -> TryAcquire<'_, G> {
        let Self { lock, lease, wait, note, .. } = self;
        TryAcquire { lock, owner: Some(owner), lease, wait, note }
    }

    /// As [`Acquire::lease`].
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Waits for the lock for this long at most: 3650 days or less. Without it, the acquisition
    /// does not wait.
    ///
    /// If a request is under way when the wait ends, its answer is still awaited, for at most
    /// [`Config::command_timeout`](crate::Config::command_timeout).
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// As [`Acquire::note`].
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into().into_boxed_str());
        self
    }
}

impl<'a, G: SingleGuard> IntoFuture for TryAcquire<'a, G> {
    type Output = Result<Option<G>, Error>;
    type IntoFuture = Acquiring<'a, Option<G>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { lock, owner, lease, wait, note } = self;
        Box::pin(async move {
            let guard = lock.guard(owner, lease, Bounds::of(wait)?).await?;
            Ok(noted(guard, note))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Lock = LockHandle<LockGuard>;

    fn size_of_future<F: Future>(_: impl FnOnce(&'static Lock) -> F) -> usize {
        size_of::<F>()
    }

    /// It is allocated for every acquisition, and allocators are faster with small blocks. What an
    /// acquisition of a free lock does not need is boxed apart from it.
    #[test]
    fn an_acquisition_under_way_is_small() {
        let size = size_of_future(|lock| lock.guard(None, None, Bounds::FOREVER));
        assert!(size <= 896, "{size} bytes");
    }
}
