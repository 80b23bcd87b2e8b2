//! The operations of every contestant.

use std::time::Instant;

/// Somebody's way to lock, over one client.
pub(super) trait LockClient: Send + Sync + 'static {
    /// What one owner has of one lock.
    type Lock: Send + Sync + 'static;

    /// Whether its calls block their thread; then each owner gets one.
    const BLOCKS: bool = false;

    fn connect(url: &str) -> impl Future<Output = Self> + Send;

    fn lock(&self, name: &str) -> Self::Lock;

    /// Takes the lock, however long that lasts, and releases it; when it was granted.
    fn turn(lock: &Self::Lock) -> impl Future<Output = Result<Instant, String>> + Send;
}
