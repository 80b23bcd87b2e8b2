//! One outermost hold of an owner of this crate: what the owner believes of it, and what it may do next.

use super::{Call, OwnVerb, OwnerStep, Terms, Verb};
use crate::model::{Ms, StepId};

const MAX_COPIES: usize = 3;
const MAX_COUNT: u32 = 3;

/// One outermost hold, from the wish to the end. `W` is what only this kind of lock keeps of it.
#[derive(Debug)]
pub(crate) struct Claim<I, V, W> {
    pub(crate) id: I,
    /// 0 while it is but a wish.
    pub(crate) count: u32,
    pub(crate) trusted_until: Ms,
    pub(crate) operation: Option<Operation<V>>,
    /// The operation that stated the count last.
    pub(crate) stated_by: StepId,
    /// A re-entry ended unclear: the count is to be said again.
    pub(crate) restate: bool,
    pub(crate) unanswered: Unanswered,
    pub(crate) own: W,
}

/// What an owner is about to do, as long as no copy of it has been answered.
#[derive(Debug)]
pub(crate) struct Operation<V> {
    pub(crate) verb: V,
    /// When its copies were sent.
    pub(crate) sent: Vec<Ms>,
    pub(crate) name: StepId,
    /// Whether the server kept the hold when the first copy was sent; for the judge only.
    pub(crate) kept: bool,
}

/// The copies of acquires that have not been answered, and their not-after.
#[derive(Debug, Default)]
pub(crate) struct Unanswered(Vec<(StepId, Ms)>);

impl Unanswered {
    pub(crate) fn sent(&mut self, copy: StepId, not_after: Ms) {
        self.0.push((copy, not_after));
    }

    pub(crate) fn answered(&mut self, copy: StepId) {
        self.0.retain(|(sent, _)| *sent != copy);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The last not-after of a copy that could still run at `since` or later.
    pub(crate) fn alive_until(&self, since: Ms) -> Option<Ms> {
        let not_afters = self.0.iter().map(|(_, not_after)| *not_after);
        not_afters.filter(|not_after| *not_after >= since).max()
    }
}

impl<I: Copy, T: Terms, O: OwnVerb, W> Claim<I, Verb<T, O>, W> {
    pub(crate) fn new(id: I, own: W) -> Self {
        Self {
            id,
            count: 0,
            trusted_until: 0,
            operation: None,
            stated_by: 0,
            restate: false,
            unanswered: Unanswered::default(),
            own,
        }
    }

    pub(crate) fn can<L>(&self, step: OwnerStep<L>, now: Ms) -> bool {
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
            OwnerStep::GiveUp => matches!(pending, Some(Verb::Release { .. } | Verb::Own(_))),
            OwnerStep::Renew => self.holds(),
        }
    }

    pub(crate) fn holds(&self) -> bool {
        self.count > 0 && !self.lets_go()
    }

    /// Whether it has asked the server to end the hold, or to hand it over.
    pub(crate) fn lets_go(&self) -> bool {
        self.operation.as_ref().is_some_and(|operation| operation.verb.lets_go())
    }

    pub(crate) fn believes(&self, now: Ms) -> bool {
        self.holds() && now < self.trusted_until
    }

    /// Whether it would swear to its count: nothing is under way.
    pub(crate) fn is_sure(&self) -> bool {
        self.count > 0 && self.operation.is_none() && !self.restate
    }

    /// Begins an operation, of which no copy is sent yet.
    pub(crate) fn begin(&mut self, verb: Verb<T, O>, name: StepId, kept: bool) {
        self.operation = Some(Operation { verb, sent: Vec::new(), name, kept });
        if matches!(verb, Verb::Reenter { .. } | Verb::Release { .. }) {
            self.stated_by = name;
        }
    }

    /// The next copy of its operation, sent now.
    pub(crate) fn copy(&mut self, copy: StepId, now: Ms) -> Call<I, T, O> {
        let operation = self.operation.as_mut().expect("an operation to send");
        operation.sent.push(now);
        if let Verb::Acquire { not_after, .. } = operation.verb {
            self.unanswered.sent(copy, not_after);
        }
        Call::new(self.id, operation.verb, operation.name)
    }

    /// A count that is unclear: it is to be said again.
    pub(crate) fn must_restate(&mut self, count: u32) {
        (self.count, self.operation, self.restate) = (count, None, true);
    }
}

impl<T: Terms, O: OwnVerb> Operation<Verb<T, O>> {
    fn may_resend(&self, now: Ms) -> bool {
        let in_time = self.verb.not_after().is_none_or(|not_after| now <= not_after);
        in_time && self.sent.len() < MAX_COPIES
    }
}
