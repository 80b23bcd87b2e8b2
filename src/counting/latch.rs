//! The count-down latch: [`wait`] for it, and [`count_down`].

use std::sync::Arc;

use futures::FutureExt;
use tokio::time::{Instant, timeout_at};

use super::{
    counter::Counter,
    waiter::{CounterWaiter, Next},
};
use crate::{
    error::Error,
    locking::request::Bounds,
    protocol::{RequestArgs, done, latch::Latch},
};

pub(crate) type LatchCounter = Arc<Counter<Latch>>;

/// The answer for a latch that is closed. Its waiters want 0 permits, so none of them is to ask.
const NOTHING_FREE: i64 = -1;

/// Waits until the latch is open: its count is 0, or there is no such latch. `false`: it was closed
/// until the bounds were over.
pub(crate) async fn wait(latch: &LatchCounter, bounds: Bounds) -> Result<bool, Error> {
    if is_open(latch, bounds).await? {
        return Ok(true);
    }
    if bounds.last_answer_decides() {
        return Ok(false);
    }
    wait_for_a_message(latch, bounds).boxed().await
}

async fn wait_for_a_message(latch: &LatchCounter, bounds: Bounds) -> Result<bool, Error> {
    let waiter = CounterWaiter::enter(latch, 0, true);
    let deadline = bounds.deadline();
    loop {
        match waiter.next(deadline).await? {
            Next::Ask => {}
            Next::Done => return Ok(true),
            Next::TimedOut => break,
        }
        if waiter.ask(deadline, is_open(latch, bounds)).await? {
            waiter.finish();
            return Ok(true);
        }
        waiter.answered(NOTHING_FREE);
        if bounds.last_answer_decides() {
            return Ok(false);
        }
    }
    // At the end once more.
    let end = bounds.last_answer_by(&latch.engine.settings);
    match timeout_at(end, is_open(latch, bounds)).await {
        Ok(open) => open,
        Err(_) => Err(Error::timed_out()),
    }
}

/// Asks whether the latch is open. Without an answer it asks again, as long as the bounds allow.
async fn is_open(latch: &LatchCounter, bounds: Bounds) -> Result<bool, Error> {
    let retry_until = bounds.retry_until(Instant::now(), &latch.engine.settings);
    Ok(latch.number_by(retry_until).await? <= 0)
}

/// Lowers the count by one. If the server does not answer in time, it goes on in the background.
pub(crate) async fn count_down(latch: LatchCounter) -> Result<(), Error> {
    let mut once = latch.new_request();
    let call = |latch: &Latch, request: &RequestArgs<'_>| latch.count_down(request);
    match latch.send_until_answered(&mut once, None, call, done).await {
        Ok((false, true)) => {
            // A latch that is set meanwhile is another one.
            let _ = latch.cancel(&once.id).await;
            Ok(())
        }
        Ok(_) => Ok(()),
        Err(error) => Err(latch.goes_on(once, call, done, error)),
    }
}
