//! The count-down latch: a string with its count. At 0 the key is removed.
//!
//! As for a semaphore, the ids of requests are kept for a while. See [`semaphore`](super::semaphore).

use super::counting::{Countable, CounterKeys, RequestArgs};
use crate::{
    names,
    wire::{Arg, Invocation, Script},
};

static COUNT_DOWN: Script = script!("latch/count_down");

/// What is published when a latch is set.
const CLOSED: u64 = 1;

/// A latch with one name.
#[derive(Clone, Debug)]
pub(crate) struct Latch(CounterKeys);

impl Countable for Latch {
    const WHAT: &'static str = "latch";
    const REMEDY: &'static str = "";

    fn new(name: &str) -> Self {
        Self(CounterKeys::new(name, names::latch_requests(name), names::latch_channel(name)))
    }

    fn keys(&self) -> &CounterKeys {
        &self.0
    }

    fn is_for_a_cluster(name: &str) -> bool {
        !name.contains('}')
    }
}

impl Latch {
    /// Creates the latch. The reply is read by [`done`](super::done).
    pub(crate) fn try_set(&self, count: u64, request: &RequestArgs<'_>) -> Invocation {
        self.0.try_set(count, CLOSED, request)
    }

    /// Lowers the count by one. The reply is read by [`done`](super::done).
    pub(crate) fn count_down(&self, request: &RequestArgs<'_>) -> Invocation {
        let RequestArgs { id, not_after, kept, .. } = *request;
        let args = [
            id.as_bytes().into(),
            not_after.into(),
            kept.into(),
            (&self.0.channel).into(),
            Arg::Publish,
        ];
        self.0.call(&COUNT_DOWN, args.into_iter().chain(request.settled()))
    }
}
