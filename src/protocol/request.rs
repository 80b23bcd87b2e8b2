//! A request that counts once: what its script needs to recognise a second copy.

use std::fmt;

use bytes::Bytes;

use super::replies::unexpected;
use crate::{
    owner::HoldId,
    wire::{Arg, Invocation, Reply, Script, WireError},
};

static CANCEL: Script = script!("semaphore/cancel");

/// A counter on the server, with one name.
pub(crate) trait Countable: fmt::Debug + Send + Sync + 'static {
    /// What an error calls it.
    const WHAT: &'static str;

    /// The end of the advice for a name that cannot be used in a cluster.
    const REMEDY: &'static str;

    fn new(name: &str) -> Self;

    fn key(&self) -> &Bytes;

    /// The key of the ids of its requests.
    fn requests(&self) -> &str;

    /// The channel that wakes its waiters.
    fn channel(&self) -> &str;

    /// Whether Redisson uses this name in a cluster without an error.
    fn is_for_a_cluster(name: &str) -> bool;
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

/// Lets no late copy of a request do anything, for a request that did nothing. `kept` is in ms.
pub(crate) fn cancel(requests: &str, id: &HoldId, kept: u64) -> Invocation {
    let requests = Bytes::copy_from_slice(requests.as_bytes());
    Invocation {
        script: &CANCEL,
        keys: 1,
        args: vec![(&requests).into(), id.as_bytes().into(), kept.into()],
    }
}

/// Reads the reply to [`cancel`].
pub(crate) fn cancelled(reply: &Reply) -> Result<(), WireError> {
    match reply {
        Reply::Int(0 | 1) => Ok(()),
        _ => Err(unexpected(reply)),
    }
}

impl RequestArgs<'_> {
    /// The ids that the server forgets. They are the last arguments.
    pub(super) fn settled(&self) -> impl Iterator<Item = Arg> {
        self.settled.iter().map(|id| id.as_bytes().into())
    }
}
