//! The reentrant lock: a hash `{ holder: count }` with a TTL.
//!
//! The non-reentrant lock is the same on the server; the client refuses a re-entry. The spin lock
//! is the same too, but its waiters do not subscribe.

use std::borrow::Cow;

use bytes::Bytes;

use super::{
    args::{ScriptArgs, Wish},
    contract::Protocol,
    one_key::OneKey,
};
use crate::{
    names,
    owner::HoldId,
    wire::{Invocation, Script},
};

pub(super) static ACQUIRE: Script = script!("reentrant/acquire");
pub(super) static SWAP: Script = script!("reentrant/swap");
pub(super) static RELEASE: Script = script!("reentrant/release");
static FORCE_UNLOCK: Script = script!("reentrant/force_unlock");

#[derive(Debug)]
pub(crate) struct Reentrant {
    lock: OneKey,
    listens: bool,
}

impl Reentrant {
    pub(crate) fn new(name: &str) -> Self {
        Self { lock: OneKey::new(name, names::unlock_channel(name)), listens: true }
    }

    /// The spin lock.
    pub(crate) fn spin(name: &str) -> Self {
        Self { listens: false, ..Self::new(name) }
    }
}

impl Protocol for Reentrant {
    fn key(&self) -> &Bytes {
        &self.lock.key
    }

    fn channel(&self, _: &HoldId) -> Option<Cow<'_, str>> {
        self.listens.then(|| self.lock.channel_text().into())
    }

    fn acquire(&self, id: &HoldId, args: ScriptArgs, _: &Wish) -> Invocation {
        self.lock.acquire(&ACQUIRE, id, args)
    }

    fn swap_script(&self) -> Option<&'static Script> {
        self.listens.then_some(&SWAP)
    }

    fn release(&self, id: &HoldId, count: u32) -> Invocation {
        self.lock.release(&RELEASE, id, count)
    }

    fn force_unlock(&self, not_after: u64) -> Invocation {
        self.lock.force_unlock(&FORCE_UNLOCK, not_after)
    }
}
