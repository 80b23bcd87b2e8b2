//! The count-down latch: a string with its count. At 0 the key is removed.
//!
//! As for a semaphore, the ids of requests are kept for a while. See [`semaphore`](super::semaphore).

use bytes::Bytes;

use super::request::{Countable, RequestArgs};
use crate::{
    names,
    wire::{Arg, Invocation, Script},
};

static TRY_SET: Script = script!("latch/try_set");
static COUNT_DOWN: Script = script!("latch/count_down");
static COUNT: Script = script!("latch/count");

/// A latch with one name.
#[derive(Clone, Debug)]
pub(crate) struct Latch {
    key: Bytes,
    requests: Bytes,
    channel: Bytes,
}

impl Countable for Latch {
    const WHAT: &'static str = "latch";
    const REMEDY: &'static str = "";

    fn new(name: &str) -> Self {
        Self {
            key: name.to_owned().into(),
            requests: names::latch_requests(name).into(),
            channel: names::latch_channel(name).into(),
        }
    }

    fn key(&self) -> &Bytes {
        &self.key
    }

    fn requests(&self) -> &str {
        names::text(&self.requests)
    }

    fn channel(&self) -> &str {
        names::text(&self.channel)
    }

    fn is_for_a_cluster(name: &str) -> bool {
        !name.contains('}')
    }
}

impl Latch {
    /// Creates the latch. The reply is read by [`done`](super::semaphore::done).
    pub(crate) fn try_set(&self, count: u64, request: &RequestArgs<'_>) -> Invocation {
        let RequestArgs { id, not_after, kept, .. } = *request;
        let args = [
            (&self.key).into(),
            (&self.requests).into(),
            id.as_bytes().into(),
            count.into(),
            not_after.into(),
            kept.into(),
            (&self.channel).into(),
            Arg::Publish,
        ];
        let args = args.into_iter().chain(request.settled()).collect();
        Invocation { script: &TRY_SET, keys: 2, args }
    }

    /// Lowers the count by one. The reply is read by [`done`](super::semaphore::done).
    pub(crate) fn count_down(&self, request: &RequestArgs<'_>) -> Invocation {
        let RequestArgs { id, not_after, kept, .. } = *request;
        let args = [
            (&self.key).into(),
            (&self.requests).into(),
            id.as_bytes().into(),
            not_after.into(),
            kept.into(),
            (&self.channel).into(),
            Arg::Publish,
        ];
        let args = args.into_iter().chain(request.settled()).collect();
        Invocation { script: &COUNT_DOWN, keys: 2, args }
    }

    /// Reads the count. The reply is read by [`number_of`](super::semaphore::number_of).
    pub(crate) fn count(&self) -> Invocation {
        Invocation { script: &COUNT, keys: 1, args: vec![(&self.key).into()] }
    }
}
