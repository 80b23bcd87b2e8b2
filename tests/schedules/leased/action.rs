//! The possible actions of a step.

use std::fmt;

use super::call::Verb;
use crate::clients::Name;

/// What somebody may do next.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Action {
    /// A client of ours makes a request.
    Begin(Name, Verb),
    /// It returns permits that it has, or renews them.
    Return(Name),
    Renew(Name),
    /// It tries again after a refusal.
    Again(Name),
    /// It sends another copy of what has not been answered.
    Resend(Name),
    /// Its future is dropped, or it has waited for too long.
    Abandon(Name),
    /// It does in the background what it owes first.
    Duty(Name),
    /// A client of Redisson's calls, returns permits, gives one another lease, calls once more without an answer, or gives up.
    Theirs(Name, Verb),
    TheirReturn(Name),
    TheirLease(Name),
    TheirAgain(Name),
    TheirLoss(Name),
    /// Keys are deleted, or given a TTL.
    Operator(Verb),
}

impl Action {
    /// All there are, each with its weight. A counter-example is plainer without an operator.
    pub(super) fn all(
        ours: impl Iterator<Item = Name>,
        theirs: impl Iterator<Item = Name>,
        with_operator: bool,
    ) -> Vec<(u32, Self)> {
        let acquire = |n, lease| Verb::Acquire { n, lease };
        let changes = [(4, Verb::Set(3)), (1, Verb::By(1)), (1, Verb::By(-2)), (1, Verb::To(4))];
        let takes =
            [(4, acquire(1, Some(60))), (3, acquire(2, Some(150))), (1, acquire(1, Some(400)))];
        let mut all = Vec::new();
        for who in ours {
            let requests = changes.into_iter().chain(takes);
            all.extend(requests.map(|(weight, verb)| (weight, Self::Begin(who, verb))));
            all.extend([
                (8, Self::Return(who)),
                (4, Self::Renew(who)),
                (4, Self::Again(who)),
                (6, Self::Resend(who)),
                (4, Self::Abandon(who)),
                (8, Self::Duty(who)),
            ]);
        }
        for who in theirs {
            let own = [(1, acquire(1, None)), (2, Verb::Count)];
            let calls = changes.into_iter().chain(takes).chain(own);
            all.extend(calls.map(|(weight, verb)| (weight, Self::Theirs(who, verb))));
            all.extend([
                (8, Self::TheirReturn(who)),
                (2, Self::TheirLease(who)),
                (3, Self::TheirAgain(who)),
                (1, Self::TheirLoss(who)),
            ]);
        }
        if with_operator {
            for both in [true, false] {
                all.push((1, Self::Operator(Verb::Delete { both })));
                all.push((1, Self::Operator(Verb::Expire { ttl: 110, both })));
            }
        }
        all
    }

    /// Its class, for the bias of a schedule.
    pub(super) fn class(&self) -> usize {
        match self {
            Self::Begin(_, Verb::Set(_)) => 0,
            Self::Begin(..) => 1,
            Self::Return(_) => 2,
            Self::Again(_) => 3,
            Self::Resend(_) => 4,
            Self::Abandon(_) => 5,
            Self::Duty(_) => 6,
            Self::Theirs(..) => 7,
            Self::TheirReturn(_) => 8,
            Self::TheirAgain(_) => 9,
            Self::TheirLoss(_) => 10,
            Self::Operator(_) => 11,
            Self::Renew(_) => 12,
            Self::TheirLease(_) => 13,
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}
