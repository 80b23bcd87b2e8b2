//! The reactions of this crate's owners to the answers.

use harness::redis::Value;

use super::Reentrant;
use super::call::{Call, Swap, Verb, World};
use super::rules::Rule;
use super::truth::granted;
use crate::clients::Name;
use crate::model::{Kind, Ms, StepId};

impl Reentrant {
    /// An owner hears the answer to one of its copies.
    pub(super) fn on_reply(
        &mut self,
        name: StepId,
        sent: Ms,
        call: &Call,
        answer: &Value,
        world: &mut World<'_>,
    ) {
        let who = call.id.owner;
        let now = world.now();
        let every_answer_clears = !self.rules.keep(Rule::AnswersInTime);
        let claim = self.owner(who).claim.as_mut();
        let Some(claim) = claim.filter(|claim| claim.id == call.id) else { return };
        // A copy whose answer comes after the release was sent may have run after it: to the janitor it is unanswered.
        if !claim.lets_go() || every_answer_clears {
            claim.unanswered.answered(name);
        }
        let current =
            claim.operation.as_ref().is_some_and(|operation| operation.name == call.operation);
        match (call.verb, answer) {
            (Verb::Acquire { lease, .. }, answer)
                if granted(answer) && claim.count == 0 && !claim.own.receives =>
            {
                claim.operation = None;
                self.hold_from(who, sent, lease, now);
            }
            (Verb::Renew { lease }, Value::Int(1)) if claim.holds() => {
                self.trust(who, sent, lease, now)
            }
            (Verb::Renew { .. }, Value::Array(_)) if claim.holds() => self.lost(who, call, world),
            _ if !current => {}
            (Verb::Acquire { .. }, _) => claim.operation = None,
            (Verb::Reenter { count, lease, .. }, Value::Int(1)) => {
                (claim.count, claim.operation) = (count, None);
                self.trust(who, sent, lease, now);
            }
            (Verb::Reenter { .. }, Value::Array(_)) => claim.must_restate(claim.count),
            (Verb::Release { count: 0 }, Value::Int(answer)) => {
                self.released(who, *answer > 0, world)
            }
            (Verb::Release { count }, Value::Int(1)) => {
                (claim.count, claim.operation, claim.restate) = (count, None, false);
            }
            (Verb::Own(Swap { to, lease, .. }), answer) if granted(answer) => {
                self.retire(who, sent);
                self.claim(to.owner).own.receives = false;
                self.hold_from(to.owner, sent, lease, now);
            }
            (Verb::Own(Swap { .. }), Value::Array(_)) => {}
            (Verb::Reenter { .. } | Verb::Release { .. }, Value::Int(0))
            | (Verb::Own(Swap { .. }), Value::Int(_)) => self.lost(who, call, world),
            (verb, answer) => panic!("{verb:?} is not answered with {answer:?}"),
        }
    }

    fn hold_from(&mut self, who: Name, sent: Ms, lease: Ms, now: Ms) {
        self.claim(who).count = 1;
        self.trust(who, sent, lease, now);
        let claim = self.claim(who);
        if claim.trusted_until <= now {
            return self.abandon(who, now);
        }
        let id = claim.id;
        self.truth.trusted(id);
    }

    /// Trusts a hold for the lease less the drift, from the sending of the attempt on; in true time, by the owner's clock.
    fn trust(&mut self, who: Name, sent: Ms, lease: Ms, now: Ms) {
        let from = if self.rules.keep(Rule::TrustFromSending) { sent } else { now };
        let drift = if self.rules.keep(Rule::Drift) { lease / 100 + 2 } else { 0 };
        let time = lease - drift;
        let owner = self.owner(who);
        let until = from + if owner.slow { time * 100 / 99 } else { time };
        let claim = self.claim(who);
        claim.trusted_until = claim.trusted_until.max(until);
    }

    /// The end of a release to 0: released, or not held.
    fn released(&mut self, who: Name, found: bool, world: &mut World<'_>) {
        let claim = self.claim(who);
        let (id, trusted) = (claim.id, claim.trusted_until);
        let operation = claim.operation.as_ref().expect("the release");
        let (sent, kept) = (&operation.sent, operation.kept);
        let (first, copies) = (sent[0], sent.len());
        let in_time = sent.iter().filter(|sent| **sent < trusted).count();
        let enough = if self.rules.keep(Rule::OneCopyInTime) { 1 } else { 2 };
        let released =
            found || self.rules.keep(Rule::GoneIsReleased) && copies > 1 && in_time >= enough;
        world.say(|| {
            format!("        {who} is told: {}", if released { "released" } else { "not held" })
        });
        if released && !kept && !self.truth.is_ousted(id) {
            world.violation(
                Kind::FalseRelease,
                format!("{who} is told that {id} was released, which had been lost before"),
            );
        }
        if !released && !self.truth.was_lost(id) {
            world.violation(Kind::FalseAlarm, format!("{who} is told that {id} was not held"));
        }
        self.retire(who, first);
    }

    /// The server says that the hold is gone.
    fn lost(&mut self, who: Name, call: &Call, world: &mut World<'_>) {
        world.say(|| format!("        {who} is told: lost"));
        let target = if let Verb::Own(Swap { to, .. }) = call.verb { Some(to) } else { None };
        if let Some(to) = target {
            self.owner(to.owner).claim = None;
        }
        if !self.truth.was_lost(call.id) && !target.is_some_and(|to| self.truth.was_lost(to)) {
            world.violation(Kind::FalseAlarm, format!("{who} is told that {} was lost", call.id));
        }
        self.abandon(who, world.now());
    }
}
