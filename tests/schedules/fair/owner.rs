//! An owner of this crate: what it believes, and what it may do next.

use super::action::OwnerStep;
use super::call::Verb;
use crate::clients::{Id, Name, Unanswered};
use crate::model::{Ms, StepId};

const MAX_COPIES: usize = 3;
const MAX_COUNT: u32 = 3;

/// A logical thread.
#[derive(Debug)]
pub(super) struct Owner {
    pub(super) name: Name,
    pub(super) claim: Option<Claim>,
}

/// One acquisition, from the wish to the end.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) id: Id,
    pub(super) lease: Ms,
    /// 0 while it is but a wish.
    pub(super) count: u32,
    pub(super) trusted_until: Ms,
    pub(super) stands: bool,
    pub(super) gives_up: Option<Ms>,
    pub(super) subscribed: bool,
    /// When it sends its turn again, while it is but a wish.
    pub(super) next_turn: Ms,
    /// It has not been heard of for longer than it promises, until then.
    pub(super) stalled_until: Option<Ms>,
    /// A re-entry or a release that has not been answered.
    pub(super) operation: Option<Operation>,
    pub(super) unanswered: Unanswered,
}

/// What it is about to do, as long as no copy of it has been answered.
#[derive(Debug)]
pub(super) struct Operation {
    pub(super) verb: Verb,
    pub(super) name: StepId,
    pub(super) copies: usize,
    /// When the first copy was sent.
    pub(super) sent: Ms,
}

impl Owner {
    /// The hold it believes in now.
    pub(super) fn believes(&self, now: Ms) -> Option<Id> {
        let claim = self.claim.as_ref()?;
        (claim.holds() && now < claim.trusted_until).then_some(claim.id)
    }

    /// The acquisition that stands in line, if that is what it does.
    pub(super) fn waits(&self) -> Option<&Claim> {
        self.claim.as_ref().filter(|claim| claim.count == 0 && claim.stands)
    }

    pub(super) fn alarm(&self) -> Option<Ms> {
        let claim = self.claim.as_ref()?;
        if claim.holds() {
            return Some(claim.trusted_until);
        }
        let waits = self.waits()?;
        Some(waits.gives_up.map_or(waits.next_turn, |end| waits.next_turn.min(end)))
    }

    pub(super) fn can(&self, step: OwnerStep, now: Ms) -> bool {
        let Some(claim) = &self.claim else { return matches!(step, OwnerStep::Acquire { .. }) };
        let (wishes, at_rest) = (claim.count == 0, claim.operation.is_none());
        match step {
            OwnerStep::Acquire { .. } => false,
            OwnerStep::Again | OwnerStep::Stall(_) => wishes && claim.stands,
            OwnerStep::Reenter { .. } => at_rest && (1..MAX_COUNT).contains(&claim.count),
            OwnerStep::Release => at_rest && claim.count > 0,
            OwnerStep::Resend => claim.operation.as_ref().is_some_and(|operation| {
                operation.copies < MAX_COPIES
                    && operation.verb.not_after().is_none_or(|not_after| now <= not_after)
            }),
            OwnerStep::GiveUp => !at_rest,
            OwnerStep::Cancel => wishes,
            OwnerStep::Renew => claim.holds(),
            OwnerStep::Die => true,
        }
    }
}

impl Claim {
    pub(super) fn holds(&self) -> bool {
        self.count > 0 && !self.lets_go()
    }

    pub(super) fn lets_go(&self) -> bool {
        self.operation
            .as_ref()
            .is_some_and(|operation| matches!(operation.verb, Verb::Release { count: 0 }))
    }

    /// Whether it has shown itself all the time as it promises.
    pub(super) fn is_steady(&self) -> bool {
        self.stalled_until.is_none()
    }

    /// Looks again at this moment at the latest, or as soon as it is heard of again.
    pub(super) fn look_at(&mut self, time: Ms) {
        self.next_turn = self.next_turn.min(time).max(self.stalled_until.unwrap_or(0));
    }
}
