//! Permits of a semaphore: [`acquire`], and [`Permits`], what it returns. [`release`] and [`drain`]
//! need none. The guard that returns permits when it is dropped is `Permit`.

use std::sync::Arc;

use futures::FutureExt;
use tokio::time::{Instant, timeout};

use super::{
    attempt::{self, PermitGrant, Terms},
    counter::Counter,
};
use crate::{
    error::Error,
    locking::request::Bounds,
    owner::HoldId,
    protocol::{
        RequestArgs,
        semaphore::{Drained, GivenBack, Semaphore, drained, given_back},
    },
    redis_error::{RedisError, RedisErrorKind},
};

pub(crate) type Pool = Arc<Counter<Semaphore>>;

/// How often [`drain`] asks while others change the number of permits.
const DRAIN_TRIES: usize = 100;

const TERMS: Terms<Semaphore> = Terms {
    judge: |_, _| Ok(()),
    give_back: |pool, _, count| Permits { pool, count }.give_back_logged().map(|()| true).boxed(),
};

/// Permits that a caller has. Dropping them returns nothing: see [`Permits::give_back`].
#[derive(Debug)]
pub(crate) struct Permits {
    pub(crate) pool: Pool,
    pub(crate) count: u32,
}

impl Permits {
    /// Returns the permits, if the semaphore still exists.
    pub(crate) fn give_back(self) -> impl Future<Output = Result<(), Error>> + Send + 'static {
        release(self.pool, i64::from(self.count), true)
    }

    /// Returns the permits in the background, if the semaphore still exists.
    pub(crate) fn give_back_later(self) {
        let janitor = self.pool.engine.janitor.clone();
        janitor.spawn(self.give_back_logged());
    }

    async fn give_back_logged(self) {
        let (pool, permits) = (self.pool.clone(), self.count);
        if let Err(error) = self.give_back().await {
            log!(warn, name = pool.name(), permits, %error, "permits are not returned yet");
        }
    }
}

/// Adds permits, or takes some away. If the server does not answer in time, it goes on in the
/// background.
pub(crate) async fn release(pool: Pool, permits: i64, if_there: bool) -> Result<(), Error> {
    let mut once = pool.new_request();
    let call = move |semaphore: &Semaphore, request: &RequestArgs<'_>| {
        semaphore.release(permits, if_there, request)
    };
    match pool.send_until_answered(&mut once, None, call, given_back).await {
        Ok((GivenBack::Gone, true)) => {
            // A semaphore that is created meanwhile is another one. No copy is of use for longer.
            let bound = 2 * pool.engine.settings.command_timeout;
            let janitor = pool.engine.janitor.clone();
            let undone = undo(pool, once.id, -permits).map(Ok);
            let _ = timeout(bound, janitor.run_apart(undone)).await;
            Ok(())
        }
        Ok(_) => Ok(()),
        Err(error) => Err(pool.goes_on(once, call, given_back, error)),
    }
}

/// Takes all permits, and returns their number.
///
/// The server takes them only if there are as many as this client knows. A request without an
/// answer is then repeated without a doubt about the number.
pub(crate) async fn drain(pool: Pool) -> Result<i64, Error> {
    let begun = Instant::now();
    let retry_until = begun + pool.engine.settings.retry_timeout;
    let mut expected = pool.number_by(retry_until).await?;
    for _ in 0..DRAIN_TRIES {
        if Instant::now() >= retry_until {
            break;
        }
        let mut once = pool.new_request();
        let call =
            |semaphore: &Semaphore, request: &RequestArgs<'_>| semaphore.drain(expected, request);
        let answer = pool.send_until_answered(&mut once, Some(begun), call, drained).await;
        let (answer, may_run) = answer.map_err(|error| error.into_error(pool.name()))?;
        let Drained::Differs(free) = answer else { return Ok(expected) };
        if may_run {
            // The number may be the expected one again when a late copy runs.
            pool.engine.janitor.spawn(undo(pool.clone(), once.id, expected));
        }
        expected = free;
    }
    let text = "the number of permits was changed by others all the time";
    Err(RedisError::new(RedisErrorKind::Busy, text).into())
}

/// Acquires permits. `None`: there were not enough until the bounds were over.
pub(crate) async fn acquire(
    pool: &Pool,
    permits: u32,
    bounds: Bounds,
) -> Result<Option<Permits>, Error> {
    if permits > 0 {
        let grant = attempt::acquire(pool, permits, bounds, &TERMS).await?;
        let Some(PermitGrant { id, unclear, .. }) = grant else { return Ok(None) };
        // If a copy is still under way, the server keeps the id, and the copy takes nothing.
        if !unclear {
            pool.settle(id);
        }
    }
    Ok(Some(Permits { pool: pool.clone(), count: permits }))
}

/// Undoes a request that took this many permits, or may yet. `permits`: negative if it adds some.
async fn undo(pool: Pool, id: HoldId, permits: i64) {
    let _ = pool.undo(permits, |semaphore, kept| semaphore.undo(&id, permits, kept)).await;
}
