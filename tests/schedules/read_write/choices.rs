//! What could be done next, and how often it is.

use super::action::{Action, Deed};
use super::call::Seat;
use super::{OWNERS, ReadWrite};
use crate::sim::Ms;

/// `None` is the watchdog's.
const LEASES: [Option<Ms>; 4] = [None, Some(60), Some(150), Some(400)];

impl ReadWrite {
    /// Each action with its weight, whether it can be done now or not.
    pub(super) fn weighed(&self) -> Vec<(u32, Action)> {
        let mut choices = Vec::new();
        // Counter-examples are plainer when nobody breaks the lock by force.
        if self.rules.are_all_kept() && self.scripts.ours {
            choices.extend([true, false].map(|write| (1, Action::Force { write, theirs: false })));
        }
        choices.extend(self.lives.keys().map(|owner| (1, Action::Crash(*owner))));
        for owner in OWNERS.into_iter().filter(|owner| self.lives.contains_key(owner)) {
            choices.extend([(3, Action::Stall(owner)), (8, Action::Wake(owner))]);
            for seat in [false, true].map(|write| Seat { owner, write }) {
                let deed = |deed| Action::Deed(seat, deed);
                choices.extend(LEASES.map(|lease| (2, deed(Deed::Acquire { lease }))));
                choices.extend(LEASES.map(|lease| (1, deed(Deed::Reenter { lease }))));
                choices.extend(
                    [(9, Deed::Resend), (12, Deed::Release), (3, Deed::Restate), (4, Deed::Again)]
                        .map(|(n, d)| (n, deed(d))),
                );
                choices.extend(
                    [(2, Deed::Cancel), (2, Deed::GiveUp), (2, Deed::Renew)]
                        .map(|(n, d)| (n, deed(d))),
                );
            }
        }
        choices.extend(self.janitor.next().map(|(id, _)| (3, Action::Tidy(id))));
        for seat in self.threads.iter().map(|thread| thread.seat) {
            choices.extend(
                [None, Some(60), Some(150)].map(|lease| (2, Action::ThreadLocks(seat, lease))),
            );
            choices.extend([false, true].map(|twice| (3, Action::ThreadUnlocks { seat, twice })));
        }
        if self.threads.is_empty() {
            choices.extend([(1, Action::PlainLock(60)), (3, Action::PlainUnlock)]);
        } else {
            choices.extend([true, false].map(|write| (1, Action::Force { write, theirs: true })));
        }
        choices
    }
}
