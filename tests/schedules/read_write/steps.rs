//! The actions of this crate's owners.

use super::action::OwnerStep;
use super::call::{Call, Id, Own, Seat, Swap, Verb, World};
use super::claim::{Claim, Upkeep};
use super::rules::Rule;
use super::times::ATTEMPT;
use super::{Life, ReadWrite};
use crate::clients::{Clients, Name, WATCHDOG};
use crate::model::Ms;

impl ReadWrite {
    /// Whether an owner can do this now. An owner asks for one thing at a time, and never to write while it reads.
    pub(super) fn can_do(&self, seat: Seat, step: OwnerStep, now: Ms) -> bool {
        if self.life(seat.owner) != Life::Up {
            return false;
        }
        let Some(claim) = self.claims.get(&seat) else {
            let other = self.claims.get(&Seat { write: !seat.write, ..seat });
            let free = other.is_none_or(|other| other.lets_go() || !seat.write && other.holds());
            return matches!(step, OwnerStep::Acquire { .. }) && free;
        };
        // Until its readers know whether they have lost it.
        let is_kept_up = claim.downgrade().is_some()
            && (step != OwnerStep::GiveUp || self.rules.keep(Rule::DowngradeIsKeptUp));
        claim.can_do(step, now) && (!is_kept_up || step == OwnerStep::Resend)
    }

    /// Does what an owner can do.
    pub(super) fn do_step(&mut self, seat: Seat, step: OwnerStep, world: &mut World<'_>) {
        let now = world.now();
        let not_after = now + ATTEMPT;
        match step {
            OwnerStep::Acquire { lease } => {
                self.new_claim(seat, lease, world);
                self.acquire(seat, world);
            }
            OwnerStep::Again => self.acquire(seat, world),
            OwnerStep::Resend => self.send(seat, world),
            OwnerStep::Reenter { lease } => {
                let claim = self.claim(seat);
                claim.own.lease = lease;
                let (count, lease) = (claim.count + 1, lease.unwrap_or(WATCHDOG));
                self.begin(seat, Verb::Reenter { count, lease, not_after }, world);
            }
            OwnerStep::Release => {
                let count = self.claim(seat).count - 1;
                self.begin(seat, Verb::Release { count }, world);
            }
            OwnerStep::Restate => {
                let count = self.claim(seat).count;
                self.begin(seat, Verb::Release { count }, world);
            }
            OwnerStep::Cancel => self.cancel(seat, world),
            OwnerStep::GiveUp => self.give_up(seat, world),
            OwnerStep::Renew => {
                let claim = self.claim(seat);
                let (id, lease) = (claim.id, claim.renewal(now).expect("a renewal"));
                self.call(Call::new(id, Verb::Renew { lease }, world.step()), world);
            }
        }
    }

    fn new_claim(&mut self, seat: Seat, lease: Option<Ms>, world: &World<'_>) {
        let number = if self.rules.keep(Rule::FreshIds) { world.step() } else { 0 };
        let id = Id { owner: seat.owner, number, write: seat.write };
        self.truth.begin_again(id);
        self.claims.insert(seat, Claim::new(id, Upkeep::new(lease)));
    }

    fn acquire(&mut self, seat: Seat, world: &mut World<'_>) {
        let lease = self.claim(seat).own.lease.unwrap_or(WATCHDOG);
        let own_write = self.claims.get(&Seat { write: true, ..seat });
        let under = own_write.filter(|write| !seat.write && write.holds()).map(|write| write.id);
        let not_after = world.now() + ATTEMPT;
        self.begin(seat, Verb::Acquire { lease, not_after, terms: under }, world);
    }

    /// Whether the hold can go to the owner's other side.
    pub(super) fn can_swap(&self, from: Seat, now: Ms) -> bool {
        let is_clear = |claim: &Claim| claim.unanswered.alive_until(now).is_none();
        let can =
            self.claims.get(&from).is_some_and(|claim| claim.can_swap(now) && is_clear(claim));
        can && self.life(from.owner) == Life::Up && !self.claims.contains_key(&from.other())
    }

    /// Makes a write hold of a read hold, or the other way round.
    pub(super) fn swap(&mut self, from: Seat, world: &mut World<'_>) {
        let (lease, not_after) = (WATCHDOG, world.now() + ATTEMPT);
        self.new_claim(from.other(), None, world);
        let to = self.claim(from.other());
        to.own.receives = true;
        let swap = Swap { to: to.id, lease, not_after };
        self.begin(from, Verb::Own(Own::Swap(swap)), world);
    }

    fn begin(&mut self, seat: Seat, verb: Verb, world: &mut World<'_>) {
        let name = world.step();
        let id = self.claim(seat).id;
        let kept = self.truth.keeps(id);
        self.claim(seat).begin(verb, name, kept);
        self.send(seat, world);
    }

    fn send(&mut self, seat: Seat, world: &mut World<'_>) {
        let copy = world.step();
        let call = self.claim(seat).copy(copy, world.now());
        if let Verb::Own(Own::Swap(Swap { to, not_after, .. })) = call.verb
            && self.rules.keep(Rule::UpgradeIsUnclear)
        {
            self.claim(to.seat()).unanswered.sent(copy, not_after);
        }
        self.call(call, world);
    }

    fn cancel(&mut self, seat: Seat, world: &mut World<'_>) {
        let claim = self.claim(seat);
        if claim.count > 0 {
            claim.must_restate(claim.count);
        } else if claim.unanswered.is_empty() {
            self.claims.remove(&seat);
        } else {
            self.abandon(seat, world.now());
        }
    }

    fn give_up(&mut self, seat: Seat, world: &mut World<'_>) {
        let claim = self.claim(seat);
        match claim.operation.as_ref().map(|operation| operation.verb) {
            Some(Verb::Release { count }) if count > 0 => claim.must_restate(count),
            Some(Verb::Own(Own::Swap(swap))) if !swap.to.write => {
                claim.operation = None;
                self.abandon(swap.to.seat(), world.now());
            }
            _ => self.abandon(seat, world.now()),
        }
    }

    /// The server has said that the hold is over; an acquire that may still arrive is the janitor's.
    pub(super) fn retire(&mut self, seat: Seat, since: Ms) {
        let claim = self.claims.remove(&seat).expect("a claim to retire");
        if let Some(alive) = claim.unanswered.alive_until(since) {
            self.take_on(claim.id, Some(alive));
        }
    }

    /// The claim is over for its owner, and the server may still keep it.
    pub(super) fn abandon(&mut self, seat: Seat, since: Ms) {
        let claim = self.claims.remove(&seat).expect("a claim to abandon");
        let mut after = claim.unanswered.alive_until(since);
        let mut ids = vec![claim.id];
        // No copy can change what is gone: the source first.
        if let Some(Verb::Own(Own::Swap(swap))) = claim.operation.map(|operation| operation.verb)
            && let Some(to) = self.claims.remove(&swap.to.seat())
        {
            after = after.max(to.unanswered.alive_until(since));
            ids.push(to.id);
        }
        self.take_on_all(ids, after);
    }

    fn take_on(&mut self, id: Id, after: Option<Ms>) {
        self.take_on_all(vec![id], after);
    }

    fn take_on_all(&mut self, ids: Vec<Id>, after: Option<Ms>) {
        if self.rules.keep(Rule::Janitor) {
            self.janitor.take_on(ids, after);
        }
    }

    /// The owner's process is no more, and with it all that it meant to do.
    pub(super) fn crash(&mut self, owner: Name) {
        self.lives.insert(owner, Life::Crashed);
        let last = |claim: &Claim| claim.unanswered.alive_until(0).unwrap_or(0);
        let wished = self.claims.values().filter(|claim| claim.id.owner == owner).map(last);
        let owed = self.janitor.next().filter(|(id, _)| id.owner == owner);
        let after = wished.chain(owed.filter_map(|(_, after)| after)).max().unwrap_or(0);
        self.ghosts_until = self.ghosts_until.max(after);
        self.claims.retain(|seat, _| seat.owner != owner);
        for thread in self.threads.iter_mut().filter(|thread| thread.id.owner == owner) {
            thread.ends.clear();
        }
    }
}
