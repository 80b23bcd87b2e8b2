//! All that could be done next, and what has to be in the end.

use super::action::{Action, Deed, Wish};
use super::rules::Rule;
use super::{Fair, LEASES, SKEW, World};
use crate::sim::{Closing, Model, Ms};

impl Fair {
    pub(super) fn all_choices(&self, now: Ms) -> Vec<(u32, Action)> {
        let mut choices = Vec::new();
        // Counter-examples are plainer when nobody breaks the lock by force.
        if self.scripts.ours
            && (self.rules.are_all_kept() || !self.rules.keep(Rule::GoneIsWithdrawn))
        {
            choices.push((1, Action::Force { theirs: false }));
        }
        if self.scripts.ours {
            choices.push((1, Action::Meddle));
        }
        for owner in self.owners.iter().filter(|_| self.scripts.ours) {
            let deed = |deed| Action::Deed(owner.name, deed);
            let wishes = [(4, Wish::Ever), (1, Wish::For(40)), (1, Wish::For(250)), (1, Wish::Try)];
            for (weight, wish) in wishes {
                choices.extend(LEASES.map(|lease| (weight, deed(Deed::Acquire { lease, wish }))));
            }
            choices.extend(LEASES.map(|lease| (1, deed(Deed::Reenter { lease }))));
            choices.extend([50, 120, 200].map(|time| (1, deed(Deed::Stall(time)))));
            choices.extend(
                [(4, Deed::Again), (8, Deed::Release), (4, Deed::Resend), (2, Deed::GiveUp)]
                    .map(|(n, d)| (n, deed(d))),
            );
            choices.extend(
                [(2, Deed::Cancel), (2, Deed::Renew), (1, Deed::Die)].map(|(n, d)| (n, deed(d))),
            );
        }
        choices.extend(self.janitor.next().map(|(id, _)| (3, Action::Tidy(id))));
        for who in self.threads.iter().map(|thread| thread.name) {
            // None waits longer than THEIR_WAIT: its grant would take more than ours count on.
            for (weight, wait) in [(4, None), (2, Some(50)), (2, Some(150))] {
                for lease in [None, Some(60), Some(150)] {
                    choices.extend(
                        [-SKEW, 0, SKEW]
                            .map(|skew| (weight, Action::ThreadLocks { who, lease, wait, skew })),
                    );
                }
            }
            choices.push((8, Action::ThreadUnlocks(who)));
            choices.push((1, Action::ThreadDies(who)));
        }
        if !self.threads.is_empty() && self.rules.are_all_kept() {
            choices.push((1, Action::Force { theirs: true }));
        }
        choices.retain(|(_, action)| self.can(action, now));
        choices
    }

    /// What is to be done next so that all who hold or wait are done.
    pub(super) fn finish(&self, world: &World<'_>, tidy: bool) -> Option<Closing<Action>> {
        for owner in self.owners.iter().filter(|owner| owner.waits().is_none()) {
            let last_deeds = [Deed::GiveUp, Deed::Cancel, Deed::Release];
            if let Some(deed) = last_deeds.into_iter().find(|deed| owner.can(*deed, world.now())) {
                return Some(Closing::Act(Action::Deed(owner.name, deed)));
            }
        }
        for thread in self.threads.iter().filter(|thread| !thread.dead) {
            if let Some(copy) = thread.pending {
                return Some(Closing::Run(copy));
            }
            if thread.count > 0 && thread.wish.is_none() {
                return Some(Closing::Act(Action::ThreadUnlocks(thread.name)));
            }
        }
        let duty = self.janitor.next().next().filter(|_| tidy);
        if let Some((id, after)) = duty {
            return Some(match after {
                Some(after) if after >= world.now() => Closing::Wait(after + 1),
                _ => Closing::Act(Action::Tidy(id)),
            });
        }
        self.alarm().map(|alarm| Closing::Wait(alarm.max(world.now()) + 1))
    }
}
