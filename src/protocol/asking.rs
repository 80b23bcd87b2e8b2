//! Questions to holders, whether they would release their lock: [`ask`] puts one, [`asked`] reads whether
//! one was put. A key and a channel of this crate's own, beside the lock. No lock depends on them.
//!
//! A question is kept by the holder id, so that a holder that listens later, or missed the message,
//! still finds it. The message says only that there is something to read.

use std::time::Duration;

use bytes::Bytes;

use super::replies::unexpected;
use crate::{
    names,
    owner::HoldId,
    wire::{Arg, Invocation, Reply, Script, WireError},
};

static ASK: Script = script!("asking/ask");
static ASKED: Script = script!("asking/asked");

/// How long the server keeps a question.
const KEPT: Duration = Duration::from_secs(600);

/// Asks these holders of the lock, at least one.
pub(crate) fn ask<'a>(lock: &str, holders: impl IntoIterator<Item = &'a str>) -> Invocation {
    let questions = Bytes::from(names::questions(lock));
    let kept = KEPT.as_millis() as u64;
    let args = [(&questions).into(), kept.into(), (&questions).into(), Arg::Publish];
    let holders = holders.into_iter().map(|id| Arg::Bytes(Bytes::copy_from_slice(id.as_bytes())));
    Invocation { script: &ASK, keys: 1, args: args.into_iter().chain(holders).collect() }
}

/// Reads the reply to [`ask`]: how many clients got the message.
pub(crate) fn told(reply: &Reply) -> Result<u64, WireError> {
    let told = reply.as_int().and_then(|told| u64::try_from(told).ok());
    told.ok_or_else(|| unexpected(reply))
}

/// Reads whether a holder was asked.
pub(crate) fn asked(questions: &str, holder: &HoldId) -> Invocation {
    let questions = Bytes::copy_from_slice(questions.as_bytes());
    Invocation {
        script: &ASKED,
        keys: 1,
        args: vec![(&questions).into(), holder.as_bytes().into()],
    }
}

/// Reads the reply to [`asked`]: how long ago. `None`: it was not asked.
pub(crate) fn asked_ago(reply: &Reply) -> Result<Option<Duration>, WireError> {
    match reply.as_int() {
        Some(-1) => Ok(None),
        Some(ms @ 0..) => Ok(Some(Duration::from_millis(ms as u64))),
        _ => Err(unexpected(reply)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_read_or_refused() {
        assert_eq!(told(&Reply::Int(2)).unwrap(), 2);
        assert!(told(&Reply::Int(-1)).is_err() && told(&Reply::Nil).is_err());
        assert_eq!(asked_ago(&Reply::Int(-1)).unwrap(), None);
        assert_eq!(asked_ago(&Reply::Int(0)).unwrap(), Some(Duration::ZERO));
        assert_eq!(asked_ago(&Reply::Int(7)).unwrap(), Some(Duration::from_millis(7)));
        assert!(asked_ago(&Reply::Int(-2)).is_err() && asked_ago(&Reply::Nil).is_err());
    }
}
