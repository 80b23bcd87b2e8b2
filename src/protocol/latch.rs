//! The count-down latch: a string with its count. At 0 the key is removed.
//!
//! As for a semaphore, the ids of requests are kept for a while. See [`semaphore`](super::semaphore).

use super::request::{Countable, CounterKeys, RequestArgs};
use crate::{
    names,
    wire::{Arg, Invocation, Script},
};

static COUNT_DOWN: Script = script!("latch/count_down");

/// What is published when a latch is set.
const CLOSED: u64 = 1;

/// A latch with one name.
#[derive(Clone, Debug)]
pub(crate) struct Latch {
    keys: CounterKeys,
}

impl Countable for Latch {
    const WHAT: &'static str = "latch";
    const REMEDY: &'static str = "";

    fn new(name: &str) -> Self {
        Self {
            keys: CounterKeys {
                key: name.to_owned().into(),
                requests: names::latch_requests(name).into(),
                channel: names::latch_channel(name).into(),
            },
        }
    }

    fn keys(&self) -> &CounterKeys {
        &self.keys
    }

    fn is_for_a_cluster(name: &str) -> bool {
        !name.contains('}')
    }
}

impl Latch {
    /// Creates the latch. The reply is read by [`done`](super::done).
    pub(crate) fn try_set(&self, count: u64, request: &RequestArgs<'_>) -> Invocation {
        self.keys.try_set(count, CLOSED, request)
    }

    /// Lowers the count by one. The reply is read by [`done`](super::done).
    pub(crate) fn count_down(&self, request: &RequestArgs<'_>) -> Invocation {
        let RequestArgs { id, not_after, kept, .. } = *request;
        let args = [
            id.as_bytes().into(),
            not_after.into(),
            kept.into(),
            (&self.keys.channel).into(),
            Arg::Publish,
        ];
        self.keys.call(&COUNT_DOWN, args.into_iter().chain(request.settled()))
    }
}
