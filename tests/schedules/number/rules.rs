//! The rules, each of which can be left out.

use crate::model;

/// One rule, as a client or a script keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// A copy has a not-after. Left out: it never is too late.
    NotAfter,
    /// What is given up is undone. Left out: nobody does it.
    Undo,
    /// Only a request without copies under way is forgotten. Left out: each that was answered.
    ClearIsSettled,
    /// A release looks for its id. Left out: it does not.
    ReleaseLooks,
    /// An acquisition looks for its id. Left out: it does not.
    AcquireLooks,
    /// A request that is withdrawn leaves a mark. Left out: none.
    WithdrawalMarks,
    /// A countdown looks for its id. Left out: it does not.
    CountLooks,
    /// A release tells the new number. Left out: it tells nothing.
    ReleaseTells,
    /// A latch at zero is told. Left out: it is not.
    ZeroTells,
}

pub(crate) type Rules = model::Rules<Rule>;
