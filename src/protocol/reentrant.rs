//! The reentrant lock: a hash `{ holder: count }` with a TTL.
//!
//! The non-reentrant lock is the same on the wire: that nobody enters again the client sees to. So
//! is the spin lock, but that its waiters do not listen.

use std::borrow::Cow;

use bytes::Bytes;

use super::{Protocol, Terms, Wish, script};
use crate::{
    names,
    owner::OwnerId,
    wire::{Arg, Invocation, Script},
};

pub(super) static ACQUIRE: Script = script!("reentrant/acquire");
static PASS: Script = script!("reentrant/pass");
static EXTEND: Script = script!("reentrant/extend");
static REENTER: Script = script!("reentrant/reenter");
pub(super) static RELEASE: Script = script!("reentrant/release");
pub(super) static RENEW: Script = script!("reentrant/renew");
static FORCE_UNLOCK: Script = script!("reentrant/force_unlock");
static INSPECT: Script = script!("reentrant/inspect");

#[derive(Debug)]
pub(crate) struct Reentrant {
    key: Bytes,
    channel: Bytes,
    listens: bool,
}

impl Reentrant {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            key: name.to_owned().into(),
            channel: names::unlock_channel(name).into(),
            listens: true,
        }
    }

    /// The spin lock.
    pub(crate) fn deaf(name: &str) -> Self {
        Self { listens: false, ..Self::new(name) }
    }
}

impl Protocol for Reentrant {
    fn key(&self) -> &Bytes {
        &self.key
    }

    fn channel(&self, _: &OwnerId) -> Option<Cow<'_, str>> {
        self.listens.then(|| names::text(&self.channel).into())
    }

    fn acquire(&self, id: &OwnerId, terms: Terms, _: &Wish) -> Invocation {
        Invocation {
            script: &ACQUIRE,
            keys: 1,
            args: vec![
                (&self.key).into(),
                id.as_bytes().into(),
                terms.lease.into(),
                terms.not_after.into(),
            ],
        }
    }

    fn passing(&self) -> Option<&'static Script> {
        self.listens.then_some(&PASS)
    }

    fn release(&self, id: &OwnerId, count: u32) -> Invocation {
        Invocation {
            script: &RELEASE,
            keys: 1,
            args: vec![
                (&self.key).into(),
                id.as_bytes().into(),
                u64::from(count).into(),
                (&self.channel).into(),
                Arg::Publish,
            ],
        }
    }

    fn force_unlock(&self, not_after: u64) -> Invocation {
        Invocation {
            script: &FORCE_UNLOCK,
            keys: 1,
            args: vec![(&self.key).into(), not_after.into(), (&self.channel).into(), Arg::Publish],
        }
    }
}

pub(super) fn extend(key: &Bytes, id: &OwnerId, lease: u64, channel: &Bytes) -> Invocation {
    let args = vec![key.into(), id.as_bytes().into(), lease.into(), channel.into(), Arg::Listening];
    Invocation { script: &EXTEND, keys: 1, args }
}

pub(super) fn reenter(key: &Bytes, id: &OwnerId, terms: Terms, count: u32) -> Invocation {
    Invocation {
        script: &REENTER,
        keys: 1,
        args: vec![
            key.into(),
            id.as_bytes().into(),
            terms.lease.into(),
            terms.not_after.into(),
            u64::from(count).into(),
        ],
    }
}

pub(super) fn inspect(key: &Bytes) -> Invocation {
    Invocation { script: &INSPECT, keys: 1, args: vec![key.into()] }
}
