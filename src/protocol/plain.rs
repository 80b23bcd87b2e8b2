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
    one_key::OneKey,
};
use crate::{
    names,
    owner::HoldId,
    wire::{Arg, Invocation, Script},
};

static ACQUIRE: Script = script!("plain/acquire");
static RELEASE: Script = script!("plain/release");
static RENEW: Script = script!("plain/renew");
static PROLONG: Script = script!("plain/prolong");
static FORCE_UNLOCK: Script = script!("plain/force_unlock");
static INSPECT: Script = script!("plain/inspect");

#[derive(Debug)]
pub(crate) struct Plain(OneKey);

impl Plain {
    pub(crate) fn new(name: &str) -> Self {
        Self(OneKey::new(name, names::plain_channel(name)))
    }
}

impl Protocol for Plain {
    fn key(&self) -> &Bytes {
        &self.0.key
    }

    fn channel(&self, _: &HoldId) -> Option<Cow<'_, str>> {
        Some(self.0.channel_text().into())
    }

    fn polls(&self) -> bool {
        true
    }

    fn acquire(&self, id: &HoldId, args: ScriptArgs, _: &Wish) -> Invocation {
        self.0.acquire(&ACQUIRE, id, args)
    }

    /// The hold count of a plain lock is always 1: the hold is extended.
    fn reenter(&self, id: &HoldId, args: ScriptArgs, _: u32) -> Invocation {
        self.0.acquire(&PROLONG, id, args)
    }

    fn release(&self, id: &HoldId, _: u32) -> Invocation {
        Invocation {
            script: &RELEASE,
            keys: 1,
            args: vec![
                (&self.0.key).into(),
                id.as_bytes().into(),
                (&self.0.channel).into(),
                Arg::Publish,
            ],
        }
    }

    fn renewal(&self) -> &'static Script {
        &RENEW
    }

    fn force_unlock(&self, not_after: u64) -> Invocation {
        self.0.force_unlock(&FORCE_UNLOCK, not_after)
    }

    fn inspect(&self) -> Invocation {
        Invocation { script: &INSPECT, keys: 1, args: vec![(&self.0.key).into()] }
    }

    /// There is one holder at most.
    fn look_for(&self, _: &HoldId) -> Invocation {
        self.inspect()
    }
}
