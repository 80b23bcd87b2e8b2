//! The results of a renewal, for [`Lease`].

use std::time::Duration;

use tokio::time::Instant;

use super::Lease;
use crate::{broken::broken, error::Loss, protocol::Renewed, sometimes::sometimes};

impl Lease {
    /// The server's answer to a renewal that was sent at `sent`.
    pub(crate) fn renewed(&self, answer: Renewed, sent: Instant, lease: Duration) {
        match answer {
            Renewed::Yes => {
                let margin = self.turns.are_seen().then(|| self.trusted_for());
                let mut state = self.state();
                state.confirm(sent, lease);
                state.renewing = false;
                drop(state);
                return self.turns.renewed(margin);
            }
            Renewed::Gone | Renewed::Taken if broken("deaf") => self.confirm(sent, lease),
            Renewed::Gone => {
                sometimes!("lease: gone");
                self.lose(self.why_gone())
            }
            Renewed::Taken => {
                sometimes!("lease: taken");
                self.lose(Loss::Taken)
            }
        }
        self.state().renewing = false;
    }

    /// A renewal was not answered: the hold is neither renewed nor lost. It has to be scheduled
    /// again.
    pub(crate) fn not_renewed(&self, watchdog: Duration) {
        let mut state = self.state();
        state.renewing = false;
        state.due = Instant::now() + watchdog / 30;
    }
}
