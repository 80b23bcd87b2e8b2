//! The two sides of a read/write lock: a hash `{ mode, holder: count, ... }`, and for each read
//! hold a key with a TTL of its own.

use std::borrow::Cow;

use bytes::Bytes;

use super::{
    args::{ScriptArgs, Wish},
    contract::{Order, Protocol},
    one_key::OneKey,
    reentrant::SWAP,
};
use crate::{
    names,
    owner::{HoldId, Identity},
    wire::{Arg, Invocation, Script},
};

/// A writer that frees the lock sends one message to writers and one to readers.
pub(crate) const MESSAGES_OF_A_WRITER: u64 = 2;

static READ: Script = script!("read/acquire").or_with_one_key();
static REENTER_READ: Script = script!("read/reenter").or_with_one_key();
static RELEASE_READ: Script = script!("read/release").or_with_one_key();
static RENEW_READ: Script = script!("read/renew").or_with_one_key();
static RENEW_READ_APART: Script = script!("read/renew_apart");
static FORCE_UNLOCK_READ: Script = script!("read/force_unlock");
static WRITE: Script = script!("write/acquire");
static RELEASE_WRITE: Script = script!("write/release");
static FORCE_UNLOCK_WRITE: Script = script!("write/force_unlock");

/// The side of the readers, who share the lock.
#[derive(Debug)]
pub(crate) struct Read(OneKey);

impl Read {
    pub(crate) fn new(name: &str) -> Self {
        Self(OneKey::new(name, names::read_write_channel(name)))
    }

    fn call<const N: usize>(
        &self,
        script: &'static Script,
        id: &HoldId,
        args: [Arg; N],
    ) -> Invocation {
        let keys = [Arg::from(&self.0.key), Arg::Bytes(timeout(&self.0.key, id))];
        let args = keys.into_iter().chain([id.as_bytes().into()]).chain(args).collect();
        Invocation { script, keys: 2, args }
    }
}

/// Renews only the timeout key of a read hold.
pub(super) fn renew_apart(key: &Bytes, id: &HoldId, lease: u64) -> Invocation {
    let args = vec![Arg::Bytes(timeout(key, id)), lease.into()];
    Invocation { script: &RENEW_READ_APART, keys: 1, args }
}

/// The timeout key of a read hold.
pub(super) fn timeout(key: &Bytes, id: &HoldId) -> Bytes {
    names::read_timeout(names::text(key), id.as_str()).into()
}

impl Protocol for Read {
    fn key(&self) -> &Bytes {
        &self.0.key
    }

    fn order(&self) -> Order {
        Order::Shared
    }

    fn channel(&self, _: &HoldId) -> Option<Cow<'_, str>> {
        Some(self.0.channel_text().into())
    }

    fn acquire(&self, id: &HoldId, args: ScriptArgs, wish: &Wish) -> Invocation {
        self.call(
            &READ,
            id,
            [
                args.lease.into(),
                args.not_after.into(),
                wish.under.as_ref().map_or("".into(), |id| id.as_bytes().into()),
            ],
        )
    }

    fn reenter(&self, id: &HoldId, args: ScriptArgs, count: u32) -> Invocation {
        let args = [args.lease.into(), args.not_after.into(), u64::from(count).into()];
        self.call(&REENTER_READ, id, args)
    }

    fn release(&self, id: &HoldId, count: u32) -> Invocation {
        let args = [u64::from(count).into(), (&self.0.channel).into(), Arg::Publish];
        self.call(&RELEASE_READ, id, args)
    }

    fn renewal(&self) -> &'static Script {
        &RENEW_READ
    }

    /// A renewal by a Redisson reader sets the TTL that all readers share, and may shorten it.
    fn is_upheld(&self) -> bool {
        true
    }

    fn force_unlock(&self, not_after: u64) -> Invocation {
        self.0.force_unlock(&FORCE_UNLOCK_READ, not_after)
    }
}

/// The side of the writer.
#[derive(Debug)]
pub(crate) struct Write(OneKey);

impl Write {
    pub(crate) fn new(name: &str) -> Self {
        Self(OneKey::new(name, names::read_write_channel(name)))
    }
}

impl Protocol for Write {
    fn key(&self) -> &Bytes {
        &self.0.key
    }

    fn channel(&self, _: &HoldId) -> Option<Cow<'_, str>> {
        Some(self.0.channel_text().into())
    }

    fn id(&self, identity: &Identity) -> HoldId {
        identity.next_writer()
    }

    fn acquire(&self, id: &HoldId, args: ScriptArgs, _: &Wish) -> Invocation {
        self.0.acquire(&WRITE, id, args)
    }

    fn swap_script(&self) -> Option<&'static Script> {
        Some(&SWAP)
    }

    fn release(&self, id: &HoldId, count: u32) -> Invocation {
        self.0.release(&RELEASE_WRITE, id, count)
    }

    fn messages_of_a_release(&self) -> u64 {
        MESSAGES_OF_A_WRITER
    }

    fn force_unlock(&self, not_after: u64) -> Invocation {
        self.0.force_unlock(&FORCE_UNLOCK_WRITE, not_after)
    }
}
