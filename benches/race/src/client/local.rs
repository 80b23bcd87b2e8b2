//! tokio's own semaphore, without Redis: how many turns these cores give at most.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{sync::Semaphore, task::yield_now};

use super::lock_client::LockClient;

/// The permits of a semaphore in the tables.
pub(crate) const PERMITS: u32 = 4;
/// A permit or a lock is kept for so long, so that there is somebody to wait for.
pub(crate) const HOLD: Duration = Duration::from_micros(200);

pub(super) struct LocalSemaphore(Arc<Semaphore>);

impl LockClient for LocalSemaphore {
    type Lock = Arc<Semaphore>;

    async fn connect(_url: &str) -> Self {
        Self(Arc::new(Semaphore::new(PERMITS as usize)))
    }

    fn lock(&self, _name: &str) -> Self::Lock {
        Arc::clone(&self.0)
    }

    async fn turn(semaphore: &Self::Lock) -> Result<Instant, String> {
        let permit = semaphore.acquire().await.map_err(|error| error.to_string())?;
        let granted = Instant::now();
        // As the peers of the other rows hold: tokio's timers are too coarse.
        while granted.elapsed() < HOLD {
            yield_now().await;
        }
        drop(permit);
        Ok(granted)
    }
}
