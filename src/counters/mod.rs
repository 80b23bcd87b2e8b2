//! Semaphores and latches: numbers on the server that callers change and wait for.
//!
//! | file | content |
//! |---|---|
//! | [`semaphore`], [`permit`] | the handle to a semaphore; the guard of its permits |
//! | [`expirable`] | a semaphore whose permits have ids and leases |
//! | [`latch`] | the handle to a count-down latch |
//! | [`waiting`] | the local waiters of all three, and what they ask the server |

pub(crate) mod expirable;
pub(crate) mod latch;
pub(crate) mod permit;
pub(crate) mod semaphore;
pub(crate) mod waiting;

use crate::error::Error;

/// The greatest number of permits. Redisson counts them by Java's `int`.
const MOST_PERMITS: u32 = i32::MAX as u32;

fn checked_permits(permits: u32) -> Result<u32, Error> {
    if permits > MOST_PERMITS {
        return Err(Error::Invalid(format!("{permits} permits, but {MOST_PERMITS} are the most")));
    }
    Ok(permits)
}
