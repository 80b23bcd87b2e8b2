//! The two sides of a read/write lock: a hash `{ mode, holder: count, ... }`, and for each read
//! hold a key with a TTL of its own.

use std::borrow::Cow;

use bytes::Bytes;

use super::{
    args::{ScriptArgs, Wish},
    contract::{Order, Protocol},
    one_key::OneKey,
};
use crate::{
    names,
    owner::{HoldId, Identity},
    wire::{Arg, Invocation, Script},
};

static UPGRADE: Script = script!("read/upgrade").or_with_one_key();
static DOWNGRADE: Script = script!("write/downgrade").or_with_one_key();
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
pub(crate) struct Read {
    lock: OneKey,
    /// Whether local callers share a hold and hand it off.
    pools: bool,
}

impl Read {
    pub(crate) fn new(name: &str) -> Self {
        Self { lock: OneKey::new(name, names::read_write_channel(name)), pools: false }
    }

    /// For local callers that share a hold.
    pub(crate) fn pooled(name: &str) -> Self {
        Self { pools: true, ..Self::new(name) }
    }

    fn call<const N: usize>(
        &self,
        script: &'static Script,
        id: &HoldId,
        args: [Arg; N],
    ) -> Invocation {
        with_timeout(&self.lock, script, id, [id.as_bytes().into()].into_iter().chain(args))
    }
}

/// A call of a script with the lock and the timeout key of a read hold.
fn with_timeout(
    lock: &OneKey,
    script: &'static Script,
    reader: &HoldId,
    args: impl IntoIterator<Item = Arg>,
) -> Invocation {
    let keys = [Arg::from(&lock.key), Arg::Bytes(timeout(&lock.key, reader))];
    Invocation { script, keys: 2, args: keys.into_iter().chain(args).collect() }
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
        &self.lock.key
    }

    fn order(&self) -> Order {
        if self.pools { Order::Local } else { Order::Shared }
    }

    fn hands_off(&self) -> bool {
        self.pools
    }

    fn downgrade(&self, from: &HoldId, to: &HoldId, terms: ScriptArgs) -> Option<Invocation> {
        let args = [
            terms.lease.into(),
            terms.not_after.into(),
            from.as_bytes().into(),
            (&self.lock.channel).into(),
            Arg::Publish,
        ];
        Some(self.call(&DOWNGRADE, to, args))
    }

    fn channel(&self, _: &HoldId) -> Option<Cow<'_, str>> {
        Some(self.lock.channel().into())
    }

    fn acquire(&self, id: &HoldId, terms: ScriptArgs, wish: &Wish) -> Invocation {
        self.call(
            &READ,
            id,
            [
                terms.lease.into(),
                terms.not_after.into(),
                wish.under.as_ref().map_or("".into(), |id| id.as_bytes().into()),
            ],
        )
    }

    fn reenter(&self, id: &HoldId, terms: ScriptArgs, count: u32) -> Invocation {
        let args = [terms.lease.into(), terms.not_after.into(), u64::from(count).into()];
        self.call(&REENTER_READ, id, args)
    }

    fn release(&self, id: &HoldId, count: u32) -> Invocation {
        let args = [u64::from(count).into(), (&self.lock.channel).into(), Arg::Publish];
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
        self.lock.force_unlock(&FORCE_UNLOCK_READ, not_after)
    }
}

/// The side of the writer.
#[derive(Debug)]
pub(crate) struct Write {
    lock: OneKey,
    /// Whether local callers share a hold and hand it off.
    pools: bool,
}

impl Write {
    pub(crate) fn new(name: &str) -> Self {
        Self { lock: OneKey::new(name, names::read_write_channel(name)), pools: false }
    }

    /// For local callers that share a hold.
    pub(crate) fn pooled(name: &str) -> Self {
        Self { pools: true, ..Self::new(name) }
    }
}

impl Protocol for Write {
    fn key(&self) -> &Bytes {
        &self.lock.key
    }

    fn channel(&self, _: &HoldId) -> Option<Cow<'_, str>> {
        Some(self.lock.channel().into())
    }

    fn id(&self, identity: &Identity) -> HoldId {
        identity.next_writer()
    }

    fn acquire(&self, id: &HoldId, terms: ScriptArgs, _: &Wish) -> Invocation {
        self.lock.acquire(&WRITE, id, terms)
    }

    fn passing(&self) -> Option<&'static Script> {
        self.pools.then_some(&UPGRADE)
    }

    /// The only reader's hold. A write hold is adopted as it is, or released.
    fn can_pass(&self, from: &HoldId) -> bool {
        self.pools && !from.is_writer()
    }

    fn pass(&self, from: &HoldId, to: &HoldId, terms: ScriptArgs) -> Invocation {
        let args = [
            to.as_bytes().into(),
            terms.lease.into(),
            terms.not_after.into(),
            from.as_bytes().into(),
        ];
        with_timeout(&self.lock, &UPGRADE, from, args)
    }

    /// One for readers and writers, and one for a writer that misses it.
    fn messages(&self) -> u64 {
        2
    }

    fn release(&self, id: &HoldId, count: u32) -> Invocation {
        self.lock.release(&RELEASE_WRITE, id, count)
    }

    fn force_unlock(&self, not_after: u64) -> Invocation {
        self.lock.force_unlock(&FORCE_UNLOCK_WRITE, not_after)
    }
}
