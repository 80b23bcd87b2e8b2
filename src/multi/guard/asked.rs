//! Hears the question whether one of several locks could be released. `multi/asking.rs` asks it.

use std::pin::pin;

use futures::{FutureExt, future::select_all};

use super::MultiGuard;
use crate::determinism::select;

impl MultiGuard {
    /// Waits until somebody asks for the hold of one of the locks. See
    /// [`LockGuard::asked_to_release`](crate::LockGuard::asked_to_release). Each lock is
    /// [asked](crate::Lock::ask_to_release) by itself.
    ///
    /// # Cancel safety
    /// May be dropped and called again at any time. A question that came in between is not missed.
    pub async fn asked_to_release(&self) {
        loop {
            let mut joined = pin!(self.members.joined.notified());
            joined.as_mut().enable();
            let holds = self.members.holds();
            let asked = holds.iter().map(|hold| hold.asked_to_release().boxed());
            select! {
                _ = select_all(asked) => return,
                () = joined => {}
            }
        }
    }

    /// Returns whether somebody has asked for the hold of one of the locks, as far as known. Does no
    /// I/O.
    ///
    /// The first call begins to listen in the background, and returns `false`: call it early.
    #[must_use]
    pub fn is_asked_to_release(&self) -> bool {
        let holds = self.members.holds();
        // Each of them is looked at: that begins to listen.
        holds.iter().filter(|hold| hold.is_asked_to_release()).count() > 0
    }
}
