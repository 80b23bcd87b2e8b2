//! The reactions of this crate's owners to the answers.

use harness::redis::Value;

use super::Fair;
use super::call::{Call, Verb, World};
use super::rules::Rule;
use super::times::HEARTBEAT;
use crate::clients::Name;
use crate::model::{Ms, StepId, virtual_ms};

impl Fair {
    /// An owner hears the answer to its copy of that name.
    pub(super) fn on_reply(
        &mut self,
        name: StepId,
        sent: Ms,
        call: &Call,
        answer: &Value,
        world: &mut World<'_>,
    ) {
        let (who, now) = (call.id.owner, world.now());
        let gone_is_withdrawn = self.rules.keep(Rule::GoneIsWithdrawn);
        let Some(owner) = self.owners.iter_mut().find(|owner| owner.name == who) else { return };
        let Some(claim) = owner.claim.as_mut().filter(|claim| claim.id == call.id) else { return };
        // A copy whose answer comes after the release was sent may have run after it.
        if !claim.lets_go() {
            claim.unanswered.answered(name);
        }
        let current =
            claim.operation.as_ref().is_some_and(|operation| operation.name == call.operation);
        match (call.verb, answer) {
            (Verb::Acquire { lease, .. }, Value::Nil) if claim.count == 0 => {
                claim.count = 1;
                self.trust(who, sent, lease);
                if self.claim(who).trusted_until <= now {
                    self.abandon(who, now);
                }
            }
            (Verb::Acquire { .. }, _) if claim.count > 0 => {}
            (Verb::Acquire { .. }, _) if !claim.stands => self.forget(who, now),
            (Verb::Acquire { .. }, Value::Int(_)) if !claim.subscribed => {
                claim.subscribed = true;
                claim.look_at(now);
            }
            (Verb::Acquire { .. }, Value::Int(wait)) => {
                let wait = virtual_ms(*wait).map_or(HEARTBEAT, |wait| wait.clamp(1, HEARTBEAT));
                claim.look_at(now + wait);
            }
            (Verb::Acquire { .. }, Value::Array(_)) => {}
            (Verb::Renew { lease }, Value::Int(1)) if claim.holds() => self.trust(who, sent, lease),
            (Verb::Renew { .. }, Value::Array(_)) if claim.holds() => self.abandon(who, now),
            _ if !current => {}
            (Verb::Reenter { count, lease, .. }, Value::Int(1)) => {
                (claim.count, claim.operation) = (count, None);
                self.trust(who, sent, lease);
            }
            (Verb::Reenter { .. }, Value::Array(_)) => claim.operation = None,
            (Verb::Release { count: 0 }, answer) => {
                let first = claim.operation.as_ref().expect("the release").sent;
                // Whose hold is gone may have been put in line again by a late copy of its acquire.
                if *answer == Value::Int(0) && gone_is_withdrawn {
                    self.abandon(who, first);
                } else {
                    self.retire(who, first);
                }
            }
            (Verb::Release { count }, Value::Int(1)) => {
                (claim.count, claim.operation) = (count, None);
            }
            (Verb::Reenter { .. } | Verb::Release { .. }, Value::Int(0)) => self.abandon(who, now),
            (verb, answer) => panic!("{verb:?} is not answered with {answer:?}"),
        }
    }

    fn trust(&mut self, who: Name, sent: Ms, lease: Ms) {
        let claim = self.claim(who);
        claim.trusted_until = claim.trusted_until.max(sent + lease - (lease / 100 + 2));
    }
}
