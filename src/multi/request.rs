//! [`MultiRequest`]: the options of an acquisition, equal for all of its locks.

use std::time::Duration;

use tokio::time::Instant;

use crate::{
    config::Settings,
    error::Error,
    lock::Lock,
    locking::{request::Bounds, share::Share},
    owner::OwnerId,
    wire::WireError,
};

/// How long a caller waits for the release of locks that it acquired in vain. After that the
/// release goes on in the background.
pub(super) const GIVE_BACK: Duration = Duration::from_millis(100);

/// The options of an acquisition of several locks.
#[derive(Clone, Copy, Debug)]
pub(super) struct MultiRequest {
    pub(super) owner: Option<OwnerId>,
    pub(super) lease: Option<Duration>,
    pub(super) bounds: Bounds,
}

impl MultiRequest {
    /// Acquires one of the locks. The watchdog does not renew it before [`keep`](Self::keep): as long
    /// as others are missing, a caller that is not polled must not keep it for more than one lease. It
    /// is not shared with other readers, who count on being renewed.
    pub(super) async fn acquire(
        &self,
        lock: &Lock,
        bounds: Bounds,
    ) -> Result<Option<Share>, Error> {
        let mut handle = lock.handle().clone();
        handle.options.apart = true;
        let acquired = handle.acquire(self.owner, self.lease, bounds).await;
        let mut share = acquired.map_err(lock.with_context("acquiring"))?;
        if let Some(share) = &mut share {
            share.unwatch();
        }
        Ok(share)
    }

    /// The caller has all that it needs: without a lease of its own, the watchdog renews these from now
    /// on.
    pub(super) fn keep<'a>(&self, shares: impl IntoIterator<Item = &'a mut Share>) {
        if self.lease.is_some() {
            return;
        }
        for share in shares {
            // About a third of a full lease after its grant, and at once if less is left.
            let lease = &share.hold().lease;
            let due = lease.trusted_for().saturating_sub(2 * lease.period());
            let due = due.min(lease.period());
            share.watch(Instant::now() + due);
        }
    }

    /// How long the locks last that are not kept yet, at least.
    pub(super) fn shortest_lease(&self, locks: &[Lock]) -> Duration {
        let states = locks.iter().filter_map(|lock| lock.state().ok());
        let watchdog = states.map(|state| state.target.engine.settings.watchdog).min();
        self.lease.or(watchdog).unwrap_or_default()
    }
}

/// The settings of the client whose servers may take longest to answer.
pub(super) fn most_patient(locks: &[Lock]) -> Option<&Settings> {
    let settings = locks.iter().filter_map(|lock| Some(&lock.state().ok()?.target.engine.settings));
    settings.max_by_key(|settings| settings.command_timeout)
}

pub(super) fn too_few_answers() -> Error {
    WireError::unanswered("too few servers answered in time").into_error("")
}
