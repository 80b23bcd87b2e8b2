//! Calls that undo an acquisition whose result is unknown or no longer wanted. An
//! [`Attempt`](crate::locking::attempt::Attempt) decides that they are needed.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep};

use super::target::Target;
use crate::{
    engine::Backoff,
    owner::HoldId,
    protocol::{self, Order},
    sometimes::sometimes,
};

/// Waits until no copy can take the lock any more, or until what a copy took must have expired.
/// Then undoes it.
pub(crate) async fn sweep(target: Arc<Target>, id: HoldId, lease: Duration, not_after: u64) {
    let engine = &target.engine;
    let give_up = Instant::now() + engine.settings.command_timeout + lasts(&target, lease);
    let mut backoff = Backoff::persistent();
    let mut is_early = false;
    // The server's own time decides, not the estimate: a clock may have been set back.
    while !engine.is_closed() && Instant::now() < give_up {
        let pause = match engine.transport.server_time(target.protocol.key()).await {
            Ok(now) => {
                if now > not_after {
                    sometimes!("swept: no copy can take the lock any more");
                    take_back(&target, &id, lease).await;
                    return;
                }
                sometimes!("swept: it was too early");
                is_early = true;
                Duration::from_millis(not_after - now + 1)
            }
            Err(_) => {
                is_early = false;
                backoff.next()
            }
        };
        sleep(pause.min(give_up.saturating_duration_since(Instant::now()))).await;
    }
    // The clock was set back. What a copy took then lasts longer by that step.
    if is_early && !engine.is_closed() {
        take_back(&target, &id, lease).await;
    }
}

/// Undoes a hold or a place in line, until the server has done it or has dropped it by itself. Returns
/// whether the server has answered.
pub(crate) async fn take_back(target: &Target, id: &HoldId, lease: Duration) -> bool {
    let engine = &target.engine;
    let give_up = Instant::now() + lasts(target, lease);
    let mut backoff = Backoff::persistent();
    while !engine.is_closed() {
        let server = engine.server_for_release(&*target.protocol);
        let answer = engine.transport.call(target.protocol.undo(id)).await;
        match answer.and_then(protocol::released) {
            Ok(_) => {
                target.remember_release(server, id, || give_up);
                return true;
            }
            Err(error) => {
                if let Err(error) = engine.retry_even_if_refused(error, &mut backoff, give_up).await
                {
                    log!(warn, lock = target.name(), holder = ?id, %error, "could not undo");
                    return false;
                }
            }
        }
    }
    false
}

/// How long a hold or a place in line may last without an undo.
fn lasts(target: &Target, lease: Duration) -> Duration {
    let settings = &target.engine.settings;
    let place = match target.protocol.order() {
        // A place also lasts for the waits of the waiters before it.
        Order::Server { .. } => settings.fair_wait.max(settings.redisson_fair_wait),
        Order::Local | Order::Shared => Duration::ZERO,
    };
    lease.max(settings.retry_timeout).max(place)
}

#[cfg(test)]
mod tests;
