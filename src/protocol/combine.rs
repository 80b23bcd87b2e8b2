//! Acquisitions and releases of several locks in one call.

use super::{
    reentrant::{ACQUIRE, RELEASE},
    replies::unexpected,
};
use crate::wire::{Arg, Invocation, Reply, Script, WireError};

static COMBINE: Script = script!("reentrant/combine");

/// Whether this call may be combined with others.
pub(crate) fn is_combinable(call: &Invocation) -> bool {
    std::ptr::eq(call.script, &ACQUIRE) || std::ptr::eq(call.script, &RELEASE)
}

/// Combines the calls into one. Its reply has one answer for each: see [`combined`].
pub(crate) fn combine(calls: &[Invocation]) -> Invocation {
    let mut args = Vec::with_capacity(1 + 4 * calls.len());
    args.extend(calls.iter().map(|call| call.args[0].clone()));
    args.push(Arg::Publish);
    for call in calls {
        args.extend_from_slice(&call.args[1..4]);
    }
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
                Reply::Bytes(text) => Err(WireError::said(&String::from_utf8_lossy(&text))),
                answer => Ok(answer),
            })
            .collect()),
        reply => Err(unexpected(&reply)),
    }
}
