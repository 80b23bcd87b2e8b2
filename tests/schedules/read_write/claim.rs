//! One outermost hold of this crate's owner: what the owner believes of it, and what it may do next.

use super::action::OwnerStep;
use super::call::{Id, Verb};
use crate::clients::WATCHDOG;
use crate::model::{Ms, StepId};

const MAX_COPIES: usize = 3;
const MAX_COUNT: u32 = 3;

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
    /// What it asks for; `None` is the watchdog's.
    pub(super) lease: Option<Ms>,
    /// Whether the watchdog renews it.
    pub(super) watched: bool,
    /// When its longest confirmed lease ends.
    pub(super) ends: Ms,
    pub(super) renew_at: Ms,
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

impl Claim {
    pub(super) fn new(id: Id, lease: Option<Ms>) -> Self {
        Self {
            id,
            count: 0,
            trusted_until: 0,
            operation: None,
            stated_by: 0,
            restate: false,
            lease,
            watched: false,
            ends: 0,
            renew_at: 0,
            unanswered: Vec::new(),
        }
    }

    pub(super) fn can(&self, step: OwnerStep, now: Ms) -> bool {
        let at_rest = self.operation.is_none();
        let pending = self.operation.as_ref().map(|operation| operation.verb);
        match step {
            OwnerStep::Acquire { .. } => false,
            OwnerStep::Again => at_rest && self.count == 0,
            OwnerStep::Resend => {
                self.operation.as_ref().is_some_and(|operation| operation.may_resend(now))
            }
            OwnerStep::Reenter { .. } => at_rest && (1..MAX_COUNT).contains(&self.count),
            OwnerStep::Release => at_rest && self.count > 0,
            OwnerStep::Restate => at_rest && self.restate,
            OwnerStep::Cancel => matches!(pending, Some(Verb::Reenter { .. })) || self.count == 0,
            OwnerStep::GiveUp => matches!(pending, Some(Verb::Release { .. })),
            OwnerStep::Renew => self.holds() && self.renewal(now).is_some(),
        }
    }

    pub(super) fn holds(&self) -> bool {
        self.count > 0 && !self.lets_go()
    }

    /// Whether it has asked the server to end the hold.
    pub(super) fn lets_go(&self) -> bool {
        self.operation.as_ref().is_some_and(|operation| operation.verb.lets_go())
    }

    pub(super) fn believes(&self, now: Ms) -> bool {
        self.holds() && now < self.trusted_until
    }

    /// The count it would swear to: nothing is under way.
    pub(super) fn is_sure(&self) -> bool {
        self.count > 0 && self.operation.is_none() && !self.restate
    }

    /// The lease of its next renewal, if it is to have one. A read with a lease of its own is upheld while that lasts.
    pub(super) fn renewal(&self, now: Ms) -> Option<Ms> {
        let left = self.ends.saturating_sub(now);
        if self.watched {
            Some(left.max(WATCHDOG))
        } else {
            (!self.id.write && left > 0).then_some(left)
        }
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
