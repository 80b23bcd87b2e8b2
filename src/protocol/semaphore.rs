//! The semaphore: a string with the number of free permits. It has no holders.
//!
//! A counter cannot tell a second copy of a request from a second request. The ids of requests are
//! therefore kept for a while, in a sorted set beside it.

use super::{
    counting::{Countable, CounterKeys, RequestArgs, number_of},
    permitting::Permitting,
    replies::{Timely, late, unexpected},
};
use crate::{
    names,
    owner::HoldId,
    wire::{Arg, Invocation, Reply, Script, WireError},
};

static ACQUIRE: Script = script!("semaphore/acquire");
static RELEASE: Script = script!("semaphore/release");
static WITHDRAW: Script = script!("semaphore/withdraw");
static DRAIN: Script = script!("semaphore/drain");

/// A semaphore with one name.
#[derive(Clone, Debug)]
pub(crate) struct Semaphore(CounterKeys);

/// The result of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GivenBack {
    Done,
    /// There is no such semaphore any more.
    Gone,
}

/// The result of a drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drained {
    Done,
    /// So many permits are free, and not as many as expected.
    Differs(i64),
}

impl Countable for Semaphore {
    const WHAT: &'static str = "semaphore";
    const REMEDY: &'static str = ", or with one {tag}";

    fn new(name: &str) -> Self {
        let (requests, channel) = (names::semaphore_requests(name), names::semaphore_channel(name));
        Self(CounterKeys::new(name, requests, channel))
    }

    fn keys(&self) -> &CounterKeys {
        &self.0
    }

    fn is_for_a_cluster(name: &str) -> bool {
        !names::is_misread(name)
    }
}

impl Permitting for Semaphore {
    type Wanted = u32;

    fn permits(wanted: u32) -> u32 {
        wanted
    }

    fn acquire(&self, permits: u32, request: &RequestArgs<'_>) -> Invocation {
        let RequestArgs { id, not_after, kept, .. } = *request;
        let args = [id.as_bytes().into(), u64::from(permits).into(), not_after.into(), kept.into()];
        self.0.call(&ACQUIRE, args.into_iter().chain(request.settled()))
    }

    fn withdraw(&self, id: &HoldId, permits: u32, kept: u64) -> Invocation {
        self.undo(id, permits.into(), kept)
    }
}

impl Semaphore {
    /// Takes all permits, if there are as many as expected. The reply is read by [`drained`].
    pub(crate) fn drain(&self, expected: i64, request: &RequestArgs<'_>) -> Invocation {
        let RequestArgs { id, not_after, kept, .. } = *request;
        let args = [id.as_bytes().into(), number(expected), not_after.into(), kept.into()];
        self.0.call(&DRAIN, args.into_iter().chain(request.settled()))
    }

    /// Adds permits, or takes some away. `if_there`: only if the semaphore exists.
    pub(crate) fn release(
        &self,
        permits: i64,
        if_there: bool,
        request: &RequestArgs<'_>,
    ) -> Invocation {
        let RequestArgs { id, not_after, kept, .. } = *request;
        let args = [
            id.as_bytes().into(),
            number(permits),
            not_after.into(),
            kept.into(),
            (&self.0.channel).into(),
            Arg::Publish,
            u64::from(if_there).into(),
        ];
        self.0.call(&RELEASE, args.into_iter().chain(request.settled()))
    }

    /// Undoes what a request with this id did and may still do. `permits`: how many it takes. The
    /// reply is read by [`cancelled`](super::cancelled).
    pub(crate) fn undo(&self, id: &HoldId, permits: i64, kept: u64) -> Invocation {
        let args = [
            id.as_bytes().into(),
            number(permits),
            kept.into(),
            (&self.0.channel).into(),
            Arg::Publish,
        ];
        self.0.call(&WITHDRAW, args)
    }

    /// Creates the semaphore.
    pub(crate) fn try_set(&self, permits: u32, request: &RequestArgs<'_>) -> Invocation {
        self.0.try_set(permits.into(), permits.into(), request)
    }
}

/// A number that may be negative.
fn number(number: i64) -> Arg {
    Arg::Bytes(number.to_string().into())
}

/// Reads the reply to [`Semaphore::drain`]. It has numbers as text, because those in Lua are less exact.
pub(crate) fn drained(reply: Reply) -> Result<Timely<Drained>, WireError> {
    let Reply::Array(parts) = &reply else { return Err(unexpected(&reply)) };
    match &parts[..] {
        [Reply::Int(1), _] => Ok(Timely::InTime(Drained::Done)),
        [Reply::Int(0), free] => Ok(Timely::InTime(Drained::Differs(number_of(free)?))),
        _ => late(&reply),
    }
}

/// Reads the reply to [`Semaphore::release`].
pub(crate) fn given_back(reply: Reply) -> Result<Timely<GivenBack>, WireError> {
    match reply {
        Reply::Int(0 | 1) => Ok(Timely::InTime(GivenBack::Done)),
        Reply::Int(-1) => Ok(Timely::InTime(GivenBack::Gone)),
        _ => late(&reply),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_read_and_others_refused() {
        assert_eq!(given_back(Reply::Int(-1)).unwrap(), Timely::InTime(GivenBack::Gone));
        assert!(given_back(Reply::Int(2)).is_err());
        let of = |done, free: &'static str| {
            drained(Reply::Array(vec![Reply::Int(done), Reply::Bytes(free.into())]))
        };
        assert_eq!(of(1, "0").unwrap(), Timely::InTime(Drained::Done));
        let exact = Drained::Differs(9_007_199_254_740_993);
        assert_eq!(of(0, "9007199254740993").unwrap(), Timely::InTime(exact));
        assert_eq!(drained(Reply::Array(vec![Reply::Int(7)])).unwrap(), Timely::Late(7));
        assert!(of(0, "many").is_err() && of(2, "0").is_err() && drained(Reply::Int(1)).is_err());
    }
}
