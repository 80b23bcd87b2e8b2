//! [`Minder`]: nobody waits behind a head that is not polled.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::Awaited;

/// How often a head behind which others wait has to show that it is polled.
const SIGN: Duration = Duration::from_secs(1);

/// Sees to it that no head is waited for that is not polled, and that those behind it hear when the client is
/// closed or its runtime ends.
#[must_use]
pub(crate) struct Minder<A: Awaited> {
    awaited: A,
    over: bool,
}

impl<A: Awaited> Minder<A> {
    pub(crate) fn new(awaited: A) -> Self {
        Self { awaited, over: false }
    }

    /// Ends when nobody waits behind a head that is polled, or when the client is closed.
    pub(crate) async fn run(mut self) {
        while !self.over {
            let begun = Instant::now();
            tokio::select! {
                () = sleep(SIGN) => {}
                _ = self.awaited.closing() => return,
            }
            let line = self.awaited.line();
            // The whole process may have stood still, and the head is not to be blamed for that.
            let tick = line.fifo.tick(begun.elapsed() > SIGN + SIGN / 2);
            if tick.put_out {
                tracing::warn!(
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

/// Cut short, also before it has begun: then the runtime has ended.
impl<A: Awaited> Drop for Minder<A> {
    fn drop(&mut self) {
        if !self.over {
            self.awaited.line().fifo.stop_ticking();
        }
    }
}
