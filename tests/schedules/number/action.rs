//! The possible actions of a step.

use std::fmt;

use super::call::Verb;
use super::ledger::Ledger;
use crate::clients::Name;

/// What somebody may do next.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Action {
    /// A client of ours makes a request.
    Begin(Name, Verb),
    /// It returns permits that it has.
    Return(Name),
    /// It tries again after a refusal.
    Again(Name),
    /// It sends another copy of what has not been answered.
    Resend(Name),
    /// Its future is dropped, or it has waited for too long.
    Abandon(Name),
    /// It does in the background what it owes first.
    Duty(Name),
    /// A client of Redisson's calls, returns permits, calls once more without an answer, or gives up.
    Theirs(Name, Verb),
    TheirReturn(Name),
    TheirAgain(Name),
    TheirLoss(Name),
    /// The key is deleted, or given a TTL.
    Operator(Verb),
}

impl Action {
    /// All there are, each with its weight. A counter-example is plainer without an operator.
    pub(super) fn all(
        ours: impl Iterator<Item = Name>,
        theirs: impl Iterator<Item = Name>,
        ledger: &Ledger,
        with_operator: bool,
    ) -> Vec<(u32, Self)> {
        let drain = Verb::Drain { expected: ledger.value().unwrap_or(0) };
        let requests = [
            (4, Verb::Set(3)),
            (6, Verb::Acquire(1)),
            (4, Verb::Acquire(2)),
            (1, Verb::Add(1)),
            (1, Verb::Add(-2)),
            (1, drain),
            (8, Verb::CountDown),
        ];
        let mut all = Vec::new();
        for who in ours {
            all.extend(requests.map(|(weight, verb)| (weight, Self::Begin(who, verb))));
            all.extend([
                (8, Self::Return(who)),
                (4, Self::Again(who)),
                (6, Self::Resend(who)),
                (4, Self::Abandon(who)),
                (8, Self::Duty(who)),
            ]);
        }
        for who in theirs {
            all.extend(requests.map(|(weight, verb)| (weight, Self::Theirs(who, verb))));
            all.extend([
                (8, Self::TheirReturn(who)),
                (3, Self::TheirAgain(who)),
                (1, Self::TheirLoss(who)),
            ]);
        }
        if with_operator {
            all.push((1, Self::Operator(Verb::Delete)));
            all.extend([90, 200].map(|ttl| (1, Self::Operator(Verb::Expire(ttl)))));
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
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Begin(who, _) => write!(f, "{who} asks"),
            Self::Return(who) => write!(f, "{who} returns permits"),
            Self::Again(who) => write!(f, "{who} asks again"),
            Self::Resend(who) => write!(f, "{who} sends another copy"),
            Self::Abandon(who) => write!(f, "{who} is dropped"),
            Self::Duty(who) => write!(f, "{who} does what it owes"),
            Self::Theirs(who, _) => write!(f, "Redisson's {who} calls"),
            Self::TheirReturn(who) => write!(f, "Redisson's {who} returns permits"),
            Self::TheirAgain(who) => write!(f, "Redisson's {who} calls again"),
            Self::TheirLoss(who) => write!(f, "Redisson's {who} gives up"),
            Self::Operator(verb) => write!(f, "an operator: {verb}"),
        }
    }
}
