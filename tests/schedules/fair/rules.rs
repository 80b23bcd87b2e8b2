//! The rules of this crate's waiters and scripts, each of which can be left out.

use crate::model;

pub(crate) type Rules = model::Rules<Rule>;

/// One rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// A wish given up is withdrawn, and what is unclear is withdrawn once more. Left out: nobody does.
    Withdraw,
    /// Who releases and hears that the hold is gone withdraws as well: a late copy may have put it in line again.
    GoneIsWithdrawn,
    /// An acquire carries a not-after. Left out: it never is too late.
    NotAfter,
    /// Only a free lock is granted. Left out: whoever heads the line has it.
    FreeOnly,
    /// A hold has a TTL.
    Ttl,
    /// Only the head of the line is granted. Left out: whoever comes first when the lock is free.
    HeadOnly,
    /// My deadline outlasts the grants of Redisson's before me. Left out: it is `wait` from now.
    CountsGrants,
    /// My deadline is raised before it passes.
    LooksAhead,
    /// When a deadline of ours is moved, those of Redisson's behind it are moved with it.
    KeepsDistance,
    /// One of ours that heads the line has `wait` from now and no more, and those behind come down with it.
    HeadIsLevel,
    /// So it does when it is granted.
    GrantLevels,
    /// A turn that changes nothing tells that its waiter was seen.
    Marks,
    /// Who has not been seen for `wait` is dropped at the head of the line, however late its deadline. Left out: for three times
    /// as long.
    UnseenGo,
    /// A grant tells the next in line, when it may be over before that looks by itself.
    GrantTells,
    /// Who withdraws is in neither the queue nor the deadlines. Left out: its deadline stays.
    LeavesBoth,
    /// A release wakes the head of the line.
    ReleaseWakes,
    /// Giving up at the head of the line wakes the next one, when the lock is free.
    WithdrawalWakes,
    /// So does dropping a head that is not seen any more.
    DropWakes,
    /// Only the holder's release frees the lock. Left out: anybody's does.
    HolderReleases,
}
