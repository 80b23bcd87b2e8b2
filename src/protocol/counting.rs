//! Counters, and the requests that change them. A request counts once, however many copies of it run.

use std::fmt;

use bytes::Bytes;

use super::replies::unexpected;
use crate::{
    names,
    owner::HoldId,
    wire::{Arg, Invocation, Reply, Script, WireError},
};

static TRY_SET: Script = script!("counter/try_set");
static READ: Script = script!("counter/read");
static CANCEL: Script = script!("counter/cancel");

/// A counter on the server, with one name.
pub(crate) trait Countable: fmt::Debug + Send + Sync + 'static {
    /// What an error calls it.
    const WHAT: &'static str;

    /// The end of the advice for a name that cannot be used in a cluster.
    const REMEDY: &'static str;

    fn new(name: &str) -> Self;

    fn keys(&self) -> &CounterKeys;

    /// Whether Redisson uses this name in a cluster without an error.
    fn is_for_a_cluster(name: &str) -> bool;

    fn key(&self) -> &Bytes {
        &self.keys().key
    }

    /// The key of the ids of its requests.
    fn requests(&self) -> &str {
        names::text(&self.keys().requests)
    }

    /// The channel that wakes its waiters.
    fn channel(&self) -> &str {
        names::text(&self.keys().channel)
    }

    /// Reads the number. The reply is read by [`number_of`].
    fn read(&self) -> Invocation {
        Invocation { script: &READ, keys: 1, args: vec![self.key().into()] }
    }

    /// Lets no late copy of a request do anything, for a request that did nothing. `kept` is in ms.
    /// The reply is read by [`cancelled`].
    fn cancel(&self, id: &HoldId, kept: u64) -> Invocation {
        let args = vec![(&self.keys().requests).into(), id.as_bytes().into(), kept.into()];
        Invocation { script: &CANCEL, keys: 1, args }
    }
}

/// The keys and the channel of one counter.
#[derive(Clone, Debug)]
pub(crate) struct CounterKeys {
    pub(super) key: Bytes,
    pub(super) requests: Bytes,
    pub(super) channel: Bytes,
}

impl CounterKeys {
    pub(super) fn new(name: &str, requests: String, channel: String) -> Self {
        Self { key: name.to_owned().into(), requests: requests.into(), channel: channel.into() }
    }

    /// A call of a script that takes the key and the ids of requests.
    pub(super) fn call(
        &self,
        script: &'static Script,
        args: impl IntoIterator<Item = Arg>,
    ) -> Invocation {
        let keys = [(&self.key).into(), (&self.requests).into()];
        Invocation { script, keys: 2, args: keys.into_iter().chain(args).collect() }
    }

    /// Creates the counter with this number, and publishes the message. The reply is read by
    /// [`done`](super::done).
    pub(super) fn try_set(
        &self,
        number: u64,
        message: u64,
        request: &RequestArgs<'_>,
    ) -> Invocation {
        let RequestArgs { id, not_after, kept, .. } = *request;
        let args = [
            id.as_bytes().into(),
            number.into(),
            not_after.into(),
            kept.into(),
            (&self.channel).into(),
            Arg::Publish,
            message.into(),
        ];
        self.call(&TRY_SET, args.into_iter().chain(request.settled()))
    }
}

/// A request that changes a counter. Its copies have one id, which the server keeps for a while.
#[derive(Clone, Debug)]
pub(crate) struct RequestArgs<'a> {
    pub(crate) id: &'a HoldId,
    /// Server time in ms after which this copy must have no effect.
    pub(crate) not_after: u64,
    /// How long the server keeps the id, in ms.
    pub(crate) kept: u64,
    /// Earlier requests of which no copy is under way any more. The server forgets them.
    pub(crate) settled: &'a [HoldId],
}

impl RequestArgs<'_> {
    /// The ids that the server forgets. They are the last arguments.
    pub(super) fn settled(&self) -> impl Iterator<Item = Arg> {
        self.settled.iter().map(|id| id.as_bytes().into())
    }
}

/// Reads the reply to a request's cancellation or withdrawal. Of a cancellation, `false` means that a
/// copy took effect before.
pub(crate) fn cancelled(reply: &Reply) -> Result<bool, WireError> {
    match reply {
        Reply::Int(cancelled @ (0 | 1)) => Ok(*cancelled == 1),
        _ => Err(unexpected(reply)),
    }
}

/// Reads a number that is a text. 0: there is no such key.
pub(crate) fn number_of(reply: &Reply) -> Result<i64, WireError> {
    match reply {
        Reply::Nil => Ok(0),
        Reply::Bytes(text) => {
            let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
            number.ok_or(WireError::WrongType)
        }
        _ => Err(unexpected(reply)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_read_and_other_texts_refused() {
        assert_eq!(number_of(&Reply::Nil).unwrap(), 0);
        assert_eq!(number_of(&Reply::Bytes("-3".into())).unwrap(), -3);
        assert!(number_of(&Reply::Bytes("many".into())).is_err());
        assert!(number_of(&Reply::Int(3)).is_err());
    }
}
