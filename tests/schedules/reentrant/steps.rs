//! The actions of this crate's owners.

use super::Reentrant;
use super::call::{Call, Swap, Verb, World};
use super::owner::{Claim, Owner, OwnerStep, Wish};
use super::rules::Rule;
use super::sort::Sort;
use crate::clients::{Clients, Id, Name};
use crate::model::Ms;

/// How long after an attempt began its copies still count: longer than some leases, and shorter than others.
const ATTEMPT: Ms = 120;

impl Reentrant {
    /// Whether a hold may be entered again, and handed over.
    pub(super) fn is_reentrant(&self) -> bool {
        self.scripts.sort != Sort::Plain
    }

    pub(super) fn may_hand_over(&self, from: &Owner, now: Ms) -> bool {
        let pending = from.claim.as_ref().and_then(|claim| claim.unanswered.alive_until(now));
        from.can_hand_over() && (pending.is_none() || !self.rules.keep(Rule::ClearSwaps))
    }

    /// Does the step of an owner that can do it.
    pub(super) fn do_step(&mut self, who: Name, step: OwnerStep, world: &mut World<'_>) {
        let not_after = world.now() + ATTEMPT;
        match step {
            OwnerStep::Acquire { lease } => {
                self.new_claim(who, lease, world);
                self.begin(who, Verb::Acquire { lease, not_after, terms: () }, world);
            }
            OwnerStep::Again => {
                let lease = self.claim(who).own.lease;
                self.begin(who, Verb::Acquire { lease, not_after, terms: () }, world);
            }
            OwnerStep::Resend => self.send(who, world),
            OwnerStep::Reenter { lease } => {
                let count = self.claim(who).count + 1;
                self.begin(who, Verb::Reenter { count, lease, not_after }, world);
            }
            OwnerStep::Release => {
                let count = self.claim(who).count - 1;
                self.begin(who, Verb::Release { count }, world);
            }
            OwnerStep::Restate => {
                let count = self.claim(who).count;
                self.begin(who, Verb::Release { count }, world);
            }
            OwnerStep::Cancel => self.cancel(who, world),
            OwnerStep::GiveUp => self.give_up(who, world),
            OwnerStep::Renew => {
                let (id, lease) = (self.claim(who).id, self.claim(who).own.lease);
                self.call(Call::new(id, Verb::Renew { lease }, world.step()), world);
            }
        }
    }

    /// Gives the hold to an owner that has none.
    pub(super) fn hand_over(&mut self, from: Name, to: Name, world: &mut World<'_>) {
        let not_after = world.now() + ATTEMPT;
        let lease = self.claim(from).own.lease;
        let id = self.new_claim(to, lease, world);
        self.claim(to).own.receives = true;
        self.begin(from, Verb::Own(Swap { to: id, lease, not_after }), world);
    }

    fn new_claim(&mut self, who: Name, lease: Ms, world: &World<'_>) -> Id {
        let number = if self.rules.keep(Rule::FreshIds) { world.step() } else { 0 };
        let id = Id { owner: who, number };
        self.truth.begin_again(id);
        self.owner(who).claim = Some(Claim::new(id, Wish { lease, receives: false }));
        id
    }

    fn begin(&mut self, who: Name, verb: Verb, world: &mut World<'_>) {
        let name = world.step();
        let id = self.claim(who).id;
        let kept = self.truth.holders().contains(&id);
        self.claim(who).begin(verb, name, kept);
        self.send(who, world);
    }

    fn send(&mut self, who: Name, world: &mut World<'_>) {
        let call = self.claim(who).copy(world.step(), world.now());
        self.call(call, world);
    }

    fn cancel(&mut self, who: Name, world: &mut World<'_>) {
        if self.claim(who).count == 0 {
            return self.forget(who, world.now());
        }
        let claim = self.claim(who);
        claim.must_restate(claim.count);
    }

    fn give_up(&mut self, who: Name, world: &mut World<'_>) {
        match self.claim(who).operation.as_ref().map(|operation| operation.verb) {
            Some(Verb::Release { count }) if count > 0 => self.claim(who).must_restate(count),
            Some(Verb::Own(Swap { to, .. })) => {
                let claim = self.owner(who).claim.take().expect("the hold to hand over");
                self.owner(to.owner).claim = None;
                let ids = if self.rules.keep(Rule::SourceFirst) {
                    vec![claim.id, to]
                } else {
                    vec![to, claim.id]
                };
                self.take_on(ids, claim.unanswered.alive_until(world.now()));
            }
            _ => self.abandon(who, world.now()),
        }
    }

    /// A wish is over. An unanswered copy may have got the lock, and even one that is too late by now may have been in time.
    fn forget(&mut self, who: Name, since: Ms) {
        if self.claim(who).unanswered.is_empty() {
            self.owner(who).claim = None;
        } else if self.rules.keep(Rule::UnansweredIsUnclear) {
            self.abandon(who, since);
        } else {
            self.retire(who, since);
        }
    }

    /// The server has said that the hold is over; an acquire that may still arrive is the janitor's.
    pub(super) fn retire(&mut self, who: Name, since: Ms) {
        let claim = self.owner(who).claim.take().expect("a claim to retire");
        if let Some(alive) = claim.unanswered.alive_until(since) {
            self.take_on(vec![claim.id], Some(alive));
        }
    }

    /// The claim is over for its owner, and the server may still keep it.
    pub(super) fn abandon(&mut self, who: Name, since: Ms) {
        let claim = self.owner(who).claim.take().expect("a claim to abandon");
        self.take_on(vec![claim.id], claim.unanswered.alive_until(since));
    }

    fn take_on(&mut self, ids: Vec<Id>, after: Option<Ms>) {
        if self.rules.keep(Rule::Janitor) {
            self.janitor.take_on(ids, after);
        }
    }
}
