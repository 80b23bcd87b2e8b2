//! Semaphores and latches: numbers on the server that callers change and wait for. These are the
//! handles and guards; what happens between a call and its answer is in `counting`.
//!
//! | file | content |
//! |---|---|
//! | [`semaphore`], [`permit`] | the handle to a semaphore; the guard of its permits |
//! | [`expirable`] | a semaphore whose permits have ids and leases |
//! | [`latch`] | the handle to a count-down latch |

pub(crate) mod expirable;
pub(crate) mod latch;
pub(crate) mod permit;
pub(crate) mod semaphore;

use std::{fmt, sync::Arc};

use crate::{counting::counter::Counter, error::Error, protocol::Countable};

/// The greatest number of permits. Redisson counts them by Java's `int`.
const MOST_PERMITS: u32 = i32::MAX as u32;

fn checked_permits(permits: u32) -> Result<u32, Error> {
    if permits > MOST_PERMITS {
        return Err(Error::Invalid(format!("{permits} permits, but {MOST_PERMITS} are the most")));
    }
    Ok(permits)
}

/// The counter of a handle, if its name can be used and its client is open.
fn opened<P: Countable>(
    counter: &Result<Arc<Counter<P>>, Error>,
) -> Result<&Arc<Counter<P>>, Error> {
    let counter = counter.as_ref().map_err(Clone::clone)?;
    counter.engine.check_open()?;
    Ok(counter)
}

/// Shows a handle.
fn show<P: Countable>(
    f: &mut fmt::Formatter<'_>,
    what: &str,
    counter: &Result<Arc<Counter<P>>, Error>,
) -> fmt::Result {
    let mut shown = f.debug_struct(what);
    match counter {
        Ok(counter) => shown.field("name", &counter.name()),
        Err(error) => shown.field("error", error),
    }
    .finish_non_exhaustive()
}
