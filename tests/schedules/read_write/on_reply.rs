//! The reactions of this crate's owners to the answers.

use harness::redis::Value;

use super::call::{Call, SLOW, Seat, Verb, World};
use super::rules::Rule;
use super::{Life, ReadWrite};
use crate::clients::{Clients, WATCHDOG};
use crate::model::{Kind, Ms, StepId};

impl ReadWrite {
    /// An owner hears the answer to one of its copies.
    pub(super) fn on_reply(
        &mut self,
        name: StepId,
        sent: Ms,
        call: &Call,
        answer: &Value,
        world: &mut World<'_>,
    ) {
        let seat = call.id.seat();
        let now = world.now();
        if self.life(seat.owner) != Life::Up {
            return;
        }
        let claim = self.claims.get_mut(&seat);
        let Some(claim) = claim.filter(|claim| claim.id == call.id) else { return };
        // A copy whose answer comes after the release was sent may have run after it: to the janitor it is unanswered.
        if !claim.lets_go() {
            claim.unanswered.answered(name);
        }
        let current =
            claim.operation.as_ref().is_some_and(|operation| operation.name == call.operation);
        match (call.verb, answer) {
            (Verb::Acquire { lease, .. }, Value::Nil) if claim.count == 0 => {
                claim.operation = None;
                self.hold_from(seat, sent, lease, now);
            }
            // To uphold a lease is not to make it longer.
            (Verb::Renew { .. }, Value::Int(1)) if claim.holds() && !claim.own.watched => {}
            (Verb::Renew { lease }, Value::Int(1)) if claim.holds() => {
                self.trust(seat, sent, lease, now)
            }
            (Verb::Renew { .. }, Value::Array(_)) if claim.holds() => self.lost(seat, call, world),
            _ if !current => {}
            (Verb::Acquire { .. }, _) => claim.operation = None,
            (Verb::Reenter { count, lease, .. }, Value::Int(1)) => {
                (claim.count, claim.operation) = (count, None);
                self.watch(seat, now);
                self.trust(seat, sent, lease, now);
            }
            (Verb::Reenter { .. }, Value::Array(_)) => claim.must_restate(claim.count),
            (Verb::Release { count: 0 }, Value::Int(answer)) => {
                self.released(seat, *answer > 0, world)
            }
            (Verb::Release { count }, Value::Int(1)) => {
                (claim.count, claim.operation, claim.restate) = (count, None, false);
            }
            (Verb::Reenter { .. } | Verb::Release { .. }, Value::Int(0)) => {
                self.lost(seat, call, world)
            }
            (verb, answer) => panic!("{verb:?} is not answered with {answer:?}"),
        }
    }

    /// Every third of the watchdog's time a hold is renewed, or upheld. Nothing comes between this and its answer.
    pub(super) fn renew(&mut self, seat: Seat, world: &mut World<'_>) {
        let now = world.now();
        let claim = self.claim(seat);
        claim.own.renew_at = now + WATCHDOG / 3;
        let Some(lease) = claim.renewal(now) else { return };
        let (id, watched) = (claim.id, claim.own.watched);
        if watched || self.rules.keep(Rule::FixedReadsAreUpheld) {
            let call = Call::new(id, Verb::Renew { lease }, world.step());
            let answer = self.run_at_once(&call, world);
            self.on_reply(world.step(), now, &call, &answer, world);
        }
    }

    fn hold_from(&mut self, seat: Seat, sent: Ms, lease: Ms, now: Ms) {
        self.claim(seat).count = 1;
        self.claim(seat).own.renew_at = sent + WATCHDOG / 3;
        self.watch(seat, now);
        self.trust(seat, sent, lease, now);
        let claim = self.claim(seat);
        if claim.trusted_until <= now {
            return self.abandon(seat, now);
        }
        let id = claim.id;
        self.truth.trusted(id);
    }

    fn watch(&mut self, seat: Seat, now: Ms) {
        let claim = self.claim(seat);
        if claim.own.lease.is_none() && !claim.own.watched {
            claim.own.watched = true;
            claim.own.renew_at = claim.own.renew_at.min(now + WATCHDOG / 3);
        }
    }

    /// Trusts a hold for the lease less the drift, from the sending of the attempt on; in true time, by the owner's clock.
    fn trust(&mut self, seat: Seat, sent: Ms, lease: Ms, now: Ms) {
        let from = if self.rules.keep(Rule::TrustFromSending) { sent } else { now };
        let drift = if self.rules.keep(Rule::Drift) { lease / 100 + 2 } else { 0 };
        let time = lease - drift;
        let until = from + if seat.owner == SLOW { time * 100 / 99 } else { time };
        let claim = self.claim(seat);
        claim.trusted_until = claim.trusted_until.max(until);
        claim.own.ends = claim.own.ends.max(sent + lease);
        let id = claim.id;
        self.truth.trusted_longer(id, now);
    }

    /// The end of a release to 0: released, or not held.
    fn released(&mut self, seat: Seat, found: bool, world: &mut World<'_>) {
        let claim = self.claim(seat);
        let (id, trusted) = (claim.id, claim.trusted_until);
        let operation = claim.operation.as_ref().expect("the release");
        let (sent, kept) = (&operation.sent, operation.kept);
        let first = sent[0];
        let released = found || sent.len() > 1 && sent.iter().any(|sent| *sent < trusted);
        let told = if released { "released" } else { "not held" };
        world.say(|| format!("        {seat} is told: {told}"));
        if released && !kept && !self.truth.is_forgiven(id) {
            let what = format!("{seat} is told that {id} was released, which had been lost before");
            world.violation(Kind::FalseRelease, what);
        }
        if !released && !self.truth.was_lost(id) {
            let what = format!("{seat} is told that {id} was not held");
            world.violation(Kind::FalseAlarm, what);
        }
        self.retire(seat, first);
    }

    /// The server says that the hold is gone.
    fn lost(&mut self, seat: Seat, call: &Call, world: &mut World<'_>) {
        world.say(|| format!("        {seat} is told: lost"));
        if !self.truth.was_lost(call.id) {
            let what = format!("{seat} is told that {} was lost", call.id);
            world.violation(Kind::FalseAlarm, what);
        }
        self.abandon(seat, world.now());
    }
}
