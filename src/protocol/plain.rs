//! The plain lock: a string with a TTL, which contains the token of its holder. Clients that lock by
//! `SET key token NX PX lease` share it.
//!
//! Such clients send no message when they release, so waiters poll beside their subscription. The
//! channel is this crate's own.

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

static ACQUIRE: Script = script!("plain/acquire");
static RELEASE: Script = script!("plain/release");
static RENEW: Script = script!("plain/renew");
static FORCE_UNLOCK: Script = script!("plain/force_unlock");
static INSPECT: Script = script!("plain/inspect");

#[derive(Debug)]
pub(crate) struct Plain {
    key: Bytes,
    channel: Bytes,
}

impl Plain {
    pub(crate) fn new(name: &str) -> Self {
        Self { key: name.to_owned().into(), channel: names::plain_channel(name).into() }
    }
}

impl Protocol for Plain {
    fn key(&self) -> &Bytes {
        &self.key
    }

    fn channel(&self, _: &HoldId) -> Option<Cow<'_, str>> {
        Some(names::text(&self.channel).into())
    }

    fn polls(&self) -> bool {
        true
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

    /// The hold count of a plain lock is always 1.
    fn release(&self, id: &HoldId, _: u32) -> Invocation {
        Invocation {
            script: &RELEASE,
            keys: 1,
            args: vec![
                (&self.key).into(),
                id.as_bytes().into(),
                (&self.channel).into(),
                Arg::Publish,
            ],
        }
    }

    fn renewal(&self) -> &'static Script {
        &RENEW
    }

    fn force_unlock(&self, not_after: u64) -> Invocation {
        Invocation {
            script: &FORCE_UNLOCK,
            keys: 1,
            args: vec![(&self.key).into(), not_after.into(), (&self.channel).into(), Arg::Publish],
        }
    }

    fn inspect(&self) -> Invocation {
        Invocation { script: &INSPECT, keys: 1, args: vec![(&self.key).into()] }
    }
}
