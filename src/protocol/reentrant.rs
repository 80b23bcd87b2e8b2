//! The reentrant lock: a hash `{ holder: count }` with a TTL.
//!
//! The non-reentrant lock is the same on the server; the client refuses a re-entry. The spin lock
//! is the same too, but its waiters do not subscribe.

use std::borrow::Cow;

use bytes::Bytes;

use super::{
    args::{ScriptArgs, Wish},
    contract::Protocol,
};
use crate::{
    names,
    owner::HoldId,
    wire::{Arg, Invocation, Script},
};

pub(super) static ACQUIRE: Script = script!("reentrant/acquire");
static PASS: Script = script!("reentrant/pass");
pub(super) static RELEASE: Script = script!("reentrant/release");
static FORCE_UNLOCK: Script = script!("reentrant/force_unlock");

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

    fn channel(&self, _: &HoldId) -> Option<Cow<'_, str>> {
        self.listens.then(|| names::text(&self.channel).into())
    }

    fn acquire(&self, id: &HoldId, terms: ScriptArgs, _: &Wish) -> Invocation {
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

    fn release(&self, id: &HoldId, count: u32) -> Invocation {
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
