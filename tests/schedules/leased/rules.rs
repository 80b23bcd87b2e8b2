//! The rules, each of which can be left out.

use crate::model;

/// One rule, as a client or a script keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// A copy has a not-after. Left out: it never is too late.
    NotAfter,
    /// What is given up is withdrawn. Left out: nobody does it.
    Undo,
    /// A withdrawal leaves a mark. Left out: none.
    WithdrawalMarks,
    /// A repeated acquisition takes only the permits that are missing. Left out: all.
    AcquireFinds,
    /// A change looks for its id. Left out: it does not.
    ChangeLooks,
    /// Permits whose lease has ended are told. Left out: they are not.
    SweepTells,
    /// A release looks whether the permit is out. Left out: it gives one back all the same.
    ReleaseFinds,
    /// The permits that are out have the TTL of the semaphore. Left out: they have none.
    KeepsTtl,
}

pub(crate) type Rules = model::Rules<Rule>;
