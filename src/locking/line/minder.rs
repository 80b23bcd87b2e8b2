//! [`Minder`]: the task that calls [`Fifo::tick`](super::fifo::Fifo::tick) while a line has waiters, so that
//! a head that is not polled is removed.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::Awaited;
use crate::{determinism::select, sometimes::sometimes};

/// How often a head with waiters behind it has to show that it is polled.
const TICK_EVERY: Duration = Duration::from_secs(1);

/// Removes a head that is not polled. Wakes the waiters behind it when the client is closed or its
/// runtime ends.
#[must_use]
pub(crate) struct Minder<A: Awaited> {
    awaited: A,
    over: bool,
}

impl<A: Awaited> Minder<A> {
    pub(crate) fn new(awaited: A) -> Self {
        Self { awaited, over: false }
    }

    /// Ends when no one waits behind the head, or when the client is closed.
    pub(crate) async fn run(mut self) {
        let mut forgives = false;
        while !self.over {
            let begun = Instant::now();
            select! {
                () = sleep(TICK_EVERY) => {}
                _ = self.awaited.closing() => return,
            }
            let line = self.awaited.line();
            // If the whole process stood still, the head is not to blame. If it does again and again,
            // those behind cannot wait for that.
            forgives = !forgives && begun.elapsed() > TICK_EVERY + TICK_EVERY / 2;
            let tick = line.fifo.tick(forgives);
            if tick.put_out {
                sometimes!("a head that is not polled is put out");
                log!(
                    warn,
                    lock = self.awaited.name(),
                    "a future that waits for a lock is not polled: others were let past it"
                );
                line.answers.abandon();
            }
            if tick.empty && tick.put_out {
                self.awaited.emptied();
            }
            self.over = tick.over;
        }
    }
}

/// Cut short, perhaps before it began: the runtime has ended.
impl<A: Awaited> Drop for Minder<A> {
    fn drop(&mut self) {
        if !self.over {
            self.awaited.line().fifo.stop_ticking();
        }
    }
}

#[cfg(test)]
mod tests;
