//! All possible next actions, and those that the end requires.

use super::Fair;
use super::action::{Action, OwnerStep, Wish};
use super::call::World;
use super::rules::Rule;
use super::times::{LEASES, SKEW};
use crate::model::{Closing, Model, Ms};

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
            let step = |step| Action::OwnerStep(owner.name, step);
            let wishes = [(4, Wish::Ever), (1, Wish::For(40)), (1, Wish::For(250)), (1, Wish::Try)];
            for (weight, wish) in wishes {
                choices
                    .extend(LEASES.map(|lease| (weight, step(OwnerStep::Acquire { lease, wish }))));
            }
            choices.extend(LEASES.map(|lease| (1, step(OwnerStep::Reenter { lease }))));
            choices.extend([50, 120, 200].map(|time| (1, step(OwnerStep::Stall(time)))));
            choices.extend(
                [
                    (4, OwnerStep::Again),
                    (8, OwnerStep::Release),
                    (4, OwnerStep::Resend),
                    (2, OwnerStep::GiveUp),
                ]
                .map(|(n, d)| (n, step(d))),
            );
            choices.extend(
                [(2, OwnerStep::Cancel), (2, OwnerStep::Renew), (1, OwnerStep::Die)]
                    .map(|(n, d)| (n, step(d))),
            );
        }
        choices.extend(self.janitor.next().map(|(id, _)| (3, Action::Tidy(id))));
        for who in self.threads.iter().map(|thread| thread.id.owner) {
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
            let last_steps = [OwnerStep::GiveUp, OwnerStep::Cancel, OwnerStep::Release];
            if let Some(step) = last_steps.into_iter().find(|step| owner.can(*step, world.now())) {
                return Some(Closing::Act(Action::OwnerStep(owner.name, step)));
            }
        }
        for thread in self.threads.iter().filter(|thread| !thread.own.dead) {
            if let Some(copy) = thread.pending {
                return Some(Closing::Run(copy));
            }
            if thread.holds() && thread.own.wish.is_none() {
                return Some(Closing::Act(Action::ThreadUnlocks(thread.id.owner)));
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
