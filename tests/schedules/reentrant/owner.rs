//! An owner of this crate: what it believes, and what it may do next.

use super::call::Verb;
use crate::clients::{Id, Name};
use crate::model::{Ms, StepId};

const MAX_COPIES: usize = 3;
const MAX_COUNT: u32 = 3;

/// A logical thread.
#[derive(Debug)]
pub(super) struct Owner {
    pub(super) name: Name,
    /// Its clock is slow, by what the drift allows for.
    pub(super) slow: bool,
    pub(super) claim: Option<Claim>,
}

/// One outermost hold, from the wish to the end.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) id: Id,
    /// 0 while it is but a wish.
    pub(super) count: u32,
    pub(super) trusted_until: Ms,
    pub(super) operation: Option<Operation>,
    /// The operation that stated the count last.
    pub(super) stated_by: StepId,
    /// A re-entry ended unclear: the count is to be said again.
    pub(super) restate: bool,
    /// It waits to be handed somebody's hold.
    pub(super) receives: bool,
    pub(super) lease: Ms,
    /// The copies of acquires that have not been answered, and their not-after.
    pub(super) unanswered: Vec<(StepId, Ms)>,
}

/// What it is about to do, as long as no copy of it has been answered.
#[derive(Debug)]
pub(super) struct Operation {
    pub(super) verb: Verb,
    /// When its copies were sent.
    pub(super) sent: Vec<Ms>,
    pub(super) name: StepId,
    /// Whether the server kept the hold when the first copy was sent; for the judge only.
    pub(super) kept: bool,
}

/// What an owner can do next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum OwnerStep {
    /// Wish for the lock.
    Acquire {
        lease: Ms,
    },
    /// Try again after a refusal.
    Again,
    /// Send another copy: the answer has not come.
    Resend,
    Reenter {
        lease: Ms,
    },
    Release,
    Restate,
    /// Drop the wish for the lock, or for one hold more.
    Cancel,
    /// No answer will be waited for any longer.
    GiveUp,
    Renew,
    /// Give the hold to another owner of the same process.
    HandOver {
        to: Name,
    },
}

impl Owner {
    /// The hold it believes in now.
    pub(super) fn believes(&self, now: Ms) -> Option<Id> {
        let claim = self.claim.as_ref()?;
        (claim.holds() && now < claim.trusted_until).then_some(claim.id)
    }

    /// The count it would swear to: nothing is under way.
    pub(super) fn sure_count(&self) -> Option<(Id, u32, StepId)> {
        let claim = self.claim.as_ref()?;
        let sure = claim.count > 0 && claim.operation.is_none() && !claim.restate;
        sure.then_some((claim.id, claim.count, claim.stated_by))
    }

    pub(super) fn can(&self, step: OwnerStep, now: Ms) -> bool {
        let Some(claim) = &self.claim else { return matches!(step, OwnerStep::Acquire { .. }) };
        let at_rest = claim.operation.is_none() && !claim.receives;
        let pending = claim.operation.as_ref().map(|operation| operation.verb);
        match step {
            OwnerStep::Acquire { .. } => false,
            OwnerStep::Again => at_rest && claim.count == 0,
            OwnerStep::Resend => {
                claim.operation.as_ref().is_some_and(|operation| operation.may_resend(now))
            }
            OwnerStep::Reenter { .. } => at_rest && (1..MAX_COUNT).contains(&claim.count),
            OwnerStep::Release => at_rest && claim.count > 0,
            OwnerStep::Restate => at_rest && claim.restate,
            OwnerStep::Cancel => {
                matches!(pending, Some(Verb::Reenter { .. })) || claim.count == 0 && !claim.receives
            }
            OwnerStep::GiveUp => matches!(pending, Some(Verb::Release { .. } | Verb::Own(_))),
            OwnerStep::Renew => claim.holds(),
            OwnerStep::HandOver { .. } => at_rest && claim.count == 1,
        }
    }
}

impl Claim {
    pub(super) fn new(id: Id, lease: Ms) -> Self {
        let (count, trusted_until, operation, stated_by) = (0, 0, None, 0);
        let (restate, receives, unanswered) = (false, false, Vec::new());
        Self {
            id,
            count,
            trusted_until,
            operation,
            stated_by,
            restate,
            receives,
            lease,
            unanswered,
        }
    }

    pub(super) fn holds(&self) -> bool {
        self.count > 0 && !self.lets_go()
    }

    /// Whether it has asked the server to end the hold, or to hand it over.
    pub(super) fn lets_go(&self) -> bool {
        self.operation.as_ref().is_some_and(|operation| operation.verb.lets_go())
    }

    /// The last not-after of an unanswered acquire that could still run at `since` or later.
    pub(super) fn alive_until(&self, since: Ms) -> Option<Ms> {
        self.unanswered
            .iter()
            .map(|(_, not_after)| *not_after)
            .filter(|not_after| *not_after >= since)
            .max()
    }
}

impl Operation {
    fn may_resend(&self, now: Ms) -> bool {
        let in_time = self.verb.not_after().is_none_or(|not_after| now <= not_after);
        in_time && self.sent.len() < MAX_COPIES
    }
}
