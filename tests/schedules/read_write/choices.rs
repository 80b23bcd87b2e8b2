//! The possible next actions, and their frequency.

use super::ReadWrite;
use super::action::{Action, OwnerStep};
use super::call::{OWNERS, Seat};
use crate::model::Ms;

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
                choices.push((4, Action::Swap { from: seat }));
                let step = |step| Action::OwnerStep(seat, step);
                choices.extend(LEASES.map(|lease| (2, step(OwnerStep::Acquire { lease }))));
                choices.extend(LEASES.map(|lease| (1, step(OwnerStep::Reenter { lease }))));
                choices.extend(
                    [
                        (9, OwnerStep::Resend),
                        (12, OwnerStep::Release),
                        (3, OwnerStep::Restate),
                        (4, OwnerStep::Again),
                    ]
                    .map(|(n, d)| (n, step(d))),
                );
                choices.extend(
                    [(2, OwnerStep::Cancel), (2, OwnerStep::GiveUp), (2, OwnerStep::Renew)]
                        .map(|(n, d)| (n, step(d))),
                );
            }
        }
        choices.extend(self.janitor.next().map(|(id, _)| (3, Action::Tidy(id))));
        for seat in self.threads.iter().map(|thread| thread.id.seat()) {
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
