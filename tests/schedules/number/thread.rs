//! A client of Redisson's. It may send a call again when it has no answer, as Redisson does outside of its single mode. Each copy
//! counts.

use harness::redis::Value;

use super::call::Verb;
use crate::clients::Name;
use crate::model::StepId;

/// A client of Redisson's.
#[derive(Debug)]
pub(super) struct Thread {
    pub(super) name: Name,
    pub(super) pending: Option<Pending>,
    /// The acquisitions that were granted, and how many permits.
    pub(super) permits: Vec<(StepId, i64)>,
}

/// A call without an answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pending {
    pub(super) verb: Verb,
    pub(super) operation: StepId,
    pub(super) copies: u32,
}

impl Pending {
    /// Redisson never sends a countdown again.
    pub(super) fn may_call_again(self) -> bool {
        self.copies < 3 && self.verb != Verb::CountDown
    }
}

impl Thread {
    pub(super) fn new(name: Name) -> Self {
        Self { name, pending: None, permits: Vec::new() }
    }

    pub(super) fn begin(&mut self, verb: Verb, operation: StepId) {
        self.pending = Some(Pending { verb, operation, copies: 0 });
    }

    /// The first answer is the one that counts. Whether it is a grant.
    pub(super) fn answered(&mut self, answer: &Value) -> bool {
        let Some(Pending { verb, operation, .. }) = self.pending.take() else { return false };
        let granted = is_true(answer);
        if let Verb::Acquire(permits) = verb
            && granted
        {
            self.permits.push((operation, permits));
        }
        granted
    }

    /// The acquisitions whose permits it has, wants, or returns.
    pub(super) fn accounts_for(&self) -> impl Iterator<Item = StepId> {
        let pending = self.pending.iter().map(|pending| match pending.verb {
            Verb::Release { of, .. } => of,
            _ => pending.operation,
        });
        pending.chain(self.permits.iter().map(|(of, _)| *of))
    }
}

/// An answer that Redisson reads as `true`.
pub(super) fn is_true(answer: &Value) -> bool {
    matches!(answer, Value::Int(1) | Value::Boolean(true))
}
