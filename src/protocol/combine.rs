//! Acquisitions and releases of several locks in one call.

use super::{
    reentrant::{ACQUIRE, RELEASE},
    replies::unexpected,
};
use crate::wire::{Arg, Invocation, Reply, Script, WireError};

static COMBINE: Script = script!("reentrant/combine");

/// What a call does. In one call with others, they are done in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    Release,
    /// A release that leaves a hold count.
    Lower,
    Acquire,
}

impl Part {
    /// `None`: the call may not be combined with others.
    pub(crate) fn of(call: &Invocation) -> Option<Self> {
        if std::ptr::eq(call.script, &ACQUIRE) {
            return Some(Self::Acquire);
        }
        let is_last = matches!(call.args.get(2), Some(Arg::Int(0)));
        let part = if is_last { Self::Release } else { Self::Lower };
        std::ptr::eq(call.script, &RELEASE).then_some(part)
    }
}

/// Combines calls that are in the order of their [`Part`]s. The reply has one answer for each: see
/// [`combined`].
///
/// The earliest not-after counts for all. The others had theirs from a moment that is later by the
/// time in the queue, at most.
pub(crate) fn combine(calls: &[Invocation]) -> Invocation {
    debug_assert!(calls.is_sorted_by_key(Part::of), "in the order of their parts");
    let up_to = |part| calls.partition_point(|call| Part::of(call) <= Some(part));
    let (released, lowered) = (up_to(Part::Release), up_to(Part::Lower));
    let acquires = &calls[lowered..];
    let not_after = acquires.iter().filter_map(|call| call.args[3].as_int()).min();
    let mut leases = acquires.iter().map(|call| call.args[2].as_int());
    let first = leases.next();
    let alike = leases.all(|lease| Some(lease) == first);
    let leases = if alike { acquires.len().min(1) } else { acquires.len() };
    let mut args = Vec::with_capacity(4 + 2 * calls.len() + lowered + leases);
    args.extend(calls.iter().map(|call| call.args[0].clone()));
    args.push(Arg::Publish);
    args.extend([released as u64, lowered as u64, not_after.unwrap_or(0)].map(Arg::from));
    args.extend(calls.iter().map(|call| call.args[1].clone()));
    args.extend(calls[..released].iter().map(|call| call.args[3].clone()));
    args.extend(calls[released..lowered + leases].iter().map(|call| call.args[2].clone()));
    Invocation { script: &COMBINE, keys: calls.len(), args }
}

/// The answers of the combined calls, each as if its call had been sent by itself.
pub(crate) fn combined(
    reply: Reply,
    calls: usize,
) -> Result<Vec<Result<Reply, WireError>>, WireError> {
    match reply {
        Reply::Array(answers) if answers.len() == calls => Ok(answers
            .into_iter()
            .map(|answer| match answer {
                Reply::Bytes(text) => Err(WireError::from_server(&String::from_utf8_lossy(&text))),
                answer => Ok(answer),
            })
            .collect()),
        reply => Err(unexpected(&reply)),
    }
}
